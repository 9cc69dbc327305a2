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

/// Copies saved tensors into live ones by name, all or nothing: names, shapes and types are checked before
/// the first element changes. Values of one floating type are converted to another; integer types must agree.
/// Devices and orders in memory may differ.
/// \param into live tensors, as `Module::state_dict` hands them out. \param from saved tensors in any order.
/// \param strict every name must be on both sides; otherwise names that only one side has are left alone.
/// \param what begins the message. \throws ValueError, one line with the missing and the unexpected names,
/// and the shapes and types that do not fit.
void load_state(const StateDict& into, const StateDict& from, bool strict, const std::string& what);

}  // namespace fulcrum::nn
