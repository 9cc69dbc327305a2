#pragma once

/// \file
/// Memory layouts for ops whose kernels see tensors as flat arrays. Nothing here is recorded on the tape.

#include "core/tensor.h"

namespace fulcrum::detail {

/// `x`, detached, in dense memory: the same elements when it is dense, else a row-major copy.
Tensor dense(const Tensor& x);

/// `x`, detached, with dense `strides`: the same elements when it lies so already (sizes of 1 do not matter),
/// else a copy.
Tensor with_strides(const Tensor& x, const Strides& strides);

/// The strides that `dense(x)` has.
Strides dense_strides(const Tensor& x);

}  // namespace fulcrum::detail
