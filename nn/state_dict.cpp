#include "nn/state_dict.h"

#include "core/autograd.h"
#include "core/error.h"

#include <algorithm>
#include <unordered_map>

namespace fulcrum::nn {
namespace {

/// Names of one kind of misfit, for a message.
class Misfits {
  public:
    explicit Misfits(const char* kind) : kind_(kind) {}

    void add(const std::string& text) {
        ++count_;
        if (count_ <= kShown) text_ += (count_ == 1 ? "" : ", ") + text;
    }
    /// `missing: a, b and 3 more`, or nothing.
    std::string text() const {
        if (count_ == 0) return {};
        const std::string more = count_ > kShown ? " and " + std::to_string(count_ - kShown) + " more" : "";
        return std::string("; ") + kind_ + ": " + text_ + more;
    }

  private:
    static constexpr std::size_t kShown = 8;
    const char* kind_;
    std::size_t count_ = 0;
    std::string text_;
};

bool convertible(DType from, DType to) {
    return from == to || (is_floating(from) && is_floating(to));
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

void copy_state(const StateDict& into, const StateDict& from, bool strict, const std::string& what) {
    Misfits missing("missing");
    Misfits unexpected("unexpected");
    Misfits repeated("repeated");
    Misfits undefined("undefined");
    Misfits shapes("wrong shape");
    Misfits types("wrong type");
    std::unordered_map<std::string_view, const Tensor*> values;
    for (const auto& [name, tensor] : from) {
        if (!tensor.defined()) {
            undefined.add(name);
        } else if (!values.try_emplace(name, &tensor).second) {
            repeated.add(name);
        }
    }
    std::vector<std::pair<Tensor, Tensor>> copies;
    for (const auto& [name, tensor] : into) {
        const auto value = values.find(name);
        if (value == values.end()) {
            if (strict) missing.add(name);
            continue;
        }
        const Tensor& source = *value->second;
        values.erase(value);
        if (source.shape() != tensor.shape()) {
            shapes.add(name + " is " + to_string(source.shape()) + " but must be " +
                       to_string(tensor.shape()));
        } else if (!convertible(source.dtype(), tensor.dtype())) {
            types.add(name + " is " + std::string(name_of(source.dtype())) + " but must be " +
                      std::string(name_of(tensor.dtype())));
        } else {
            copies.emplace_back(tensor, source);
        }
    }
    for (const auto& [name, tensor] : from) {
        if (strict && values.contains(name)) unexpected.add(name);
    }
    std::string problems;
    for (const Misfits* kind : {&missing, &unexpected, &repeated, &undefined, &shapes, &types})
        problems += kind->text();
    if (!problems.empty()) throw ValueError(what + ": the names and shapes do not fit" + problems);

    const NoGradGuard no_grad;
    for (const auto& [destination, source] : copies)
        destination.copy_(source);
}

}  // namespace fulcrum::nn
