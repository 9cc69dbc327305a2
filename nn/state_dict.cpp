#include "nn/state_dict.h"

#include <algorithm>

namespace fulcrum::nn {

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

}  // namespace fulcrum::nn
