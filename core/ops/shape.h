#pragma once

/// \file
/// Views and copies that change a tensor's shape, not its values. A view shares its source's storage.

#include "core/tensor.h"

#include <cstdint>
#include <span>

namespace fulcrum {

/// The same elements in row-major order under another shape; one size may be -1. A view where strides allow,
/// else a copy. \throws ShapeError when the numbers of elements differ.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Merges dimensions `start..end` (negative counts from the end) into one. A scalar becomes `[1]`. \throws
/// ShapeError.
Tensor flatten(const Tensor& x, std::int64_t start = 0, std::int64_t end = -1);
/// A view with two dimensions swapped. \throws ShapeError.
Tensor transpose(const Tensor& x, std::int64_t dim0, std::int64_t dim1);
/// A view with the dimensions in the given order. \throws ShapeError unless `dims` is a permutation.
Tensor permute(const Tensor& x, std::span<const std::int64_t> dims);
Tensor permute(const Tensor& x, std::initializer_list<std::int64_t> dims);
/// A view with a dimension of size 1 inserted before `dim`. \throws ShapeError.
Tensor unsqueeze(const Tensor& x, std::int64_t dim);
/// A view without dimension `dim`, which must have size 1. \throws ShapeError.
Tensor squeeze(const Tensor& x, std::int64_t dim);
/// A view of size `length` along `dim`, from `start`. \throws ShapeError when it leaves the tensor.
Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
/// A view broadcast to `shape` (stride 0 along new or size-1 dimensions). \throws ShapeError.
Tensor expand(const Tensor& x, const Shape& shape);

}  // namespace fulcrum
