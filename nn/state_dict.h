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

/// Copies values into live tensors by name, all or nothing: every name, shape and type is checked before the
/// first element changes. Floating values are converted to the live tensor's type; devices may differ.
/// \param into live tensors. \param from values in any order. \param strict names that only one side has are
/// errors too; otherwise they are left alone. \param what begins the message.
/// \throws ValueError, one line with the missing, unexpected, repeated, wrong-shape and wrong-type names.
void copy_state(const StateDict& into, const StateDict& from, bool strict, const std::string& what);

}  // namespace fulcrum::nn
