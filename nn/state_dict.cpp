#include "nn/state_dict.h"

#include "core/autograd.h"
#include "core/error.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace fulcrum::nn {

namespace {

/// `label 'a', 'b', 'c', 'd', 'e' and 7 more; `, or nothing when there are none.
void append_names(std::string& message, const char* label, const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 5;
    if (names.empty()) return;
    message += label;
    for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
        message.append(i == 0 ? " " : ", ").append(names[i]);
    }
    if (names.size() > kShown) message += " and " + std::to_string(names.size() - kShown) + " more";
    message += "; ";
}

}  // namespace

const Tensor* find(const StateDict& dict, std::string_view name) {
    const auto entry = std::find_if(dict.begin(), dict.end(),
                                    [name](const NamedTensor& item) { return item.first == name; });
    return entry == dict.end() ? nullptr : &entry->second;
}

StateDict clone(const StateDict& dict) {
    StateDict copies;
    copies.reserve(dict.size());
    for (const auto& [name, tensor] : dict)
        copies.emplace_back(name, tensor.detach().clone());
    return copies;
}

void load_state(const StateDict& into, const StateDict& from, bool strict, const std::string& what) {
    std::unordered_map<std::string_view, const Tensor*> saved;
    std::vector<std::string> twice;
    for (const auto& [name, tensor] : from) {
        if (!saved.emplace(name, &tensor).second) twice.push_back("'" + name + "'");
    }
    std::vector<std::string> missing;
    std::vector<std::string> misfits;
    std::vector<std::pair<const Tensor*, const Tensor*>> copies;
    for (const auto& [name, tensor] : into) {
        const auto found = saved.find(name);
        if (found == saved.end()) {
            if (strict) missing.push_back("'" + name + "'");
            continue;
        }
        const Tensor& source = *found->second;
        saved.erase(found);
        if (!source.defined()) {
            misfits.push_back("'" + name + "' is undefined");
        } else if (source.shape() != tensor.shape()) {
            misfits.push_back("'" + name + "' is " + to_string(source.shape()) + ", not " +
                              to_string(tensor.shape()));
        } else if (source.dtype() != tensor.dtype() &&
                   !(is_floating(source.dtype()) && is_floating(tensor.dtype()))) {
            misfits.push_back("'" + name + "' is " + std::string(name_of(source.dtype())) + ", not " +
                              std::string(name_of(tensor.dtype())));
        } else {
            copies.emplace_back(&tensor, &source);
        }
    }
    std::vector<std::string> unexpected;
    if (strict) {
        for (const auto& [name, tensor] : from) {
            if (saved.contains(name)) unexpected.push_back("'" + name + "'");
        }
    }

    std::string message;
    append_names(message, "missing", missing);
    append_names(message, "unexpected", unexpected);
    append_names(message, "given twice", twice);
    append_names(message, "does not fit:", misfits);
    if (!message.empty()) {
        message.resize(message.size() - 2);
        throw ValueError(what + ": " + message);
    }
    const autograd::NoGradGuard no_grad;
    for (const auto& [destination, source] : copies)
        destination->copy_(*source);
}

}  // namespace fulcrum::nn
