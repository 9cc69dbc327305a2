#pragma once

/// \file
/// Runs a reference case through Fulcrum's public ops.

#include "tests/reference/fixture.h"

namespace fulcrum::test {

/// True when `replay` knows the op.
bool can_replay(const std::string& op);

/// Runs the op on the case's inputs, converted to `dtype` on `device`. When the case has a `grad_out`,
/// back-propagates it and adds the gradients as `grad_<role>`. \return results by the roles of the case.
Roles replay(const ReferenceCase& reference, DType dtype, Device device);

/// Runs an optimiser case of any of the sets; results by the roles of the case.
Roles replay_optimizer(const ReferenceCase& reference, DType dtype, Device device);

}  // namespace fulcrum::test
