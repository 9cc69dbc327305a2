#pragma once

/// \file
/// Names and tensors in order: what modules and optimisers hand out to be saved, and what files hand back.

#include "core/tensor.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fulcrum::nn {

/// A tensor under the name by which files know it, such as `layer1.0.conv1.weight`.
using NamedTensor = std::pair<std::string, Tensor>;

/// Names and tensors in order; names are unique. The tensors share their elements with whoever handed them
/// out.
using StateDict = std::vector<NamedTensor>;

/// The tensor of that name, or null. Looks at each entry in turn.
const Tensor* find(const StateDict& dict, std::string_view name);

/// The same names with copies of the elements: a snapshot that later training does not change.
StateDict clone(const StateDict& dict);

}  // namespace fulcrum::nn
