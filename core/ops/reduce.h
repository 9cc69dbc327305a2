#pragma once

/// \file
/// Sums and means over dimensions.

#include "core/backend.h"
#include "core/tensor.h"

#include <cstdint>
#include <span>

namespace fulcrum {

/// The reductions.
enum class ReduceOp : std::uint8_t { sum, mean };

/// Sum over `dims` (negative counts from the end; empty means all). \param keepdim keep reduced dimensions
/// with size 1. Floating types, i64 and i32; a sum over no elements is 0. \throws ShapeError (out of range or
/// repeated), DTypeError.
Tensor sum(const Tensor& x, std::span<const std::int64_t> dims = {}, bool keepdim = false);
Tensor sum(const Tensor& x, std::initializer_list<std::int64_t> dims, bool keepdim = false);
/// Mean over `dims`; floating types only. See `sum`. A mean over no elements is NaN.
Tensor mean(const Tensor& x, std::span<const std::int64_t> dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, std::initializer_list<std::int64_t> dims, bool keepdim = false);

/// Sums `x` over its broadcast dimensions so that the result has `shape`: the gradient of a broadcast.
Tensor sum_to_shape(const Tensor& x, const Shape& shape);

/// Index of the largest element along `dim` (first of equals; the first NaN wins), i64. Not differentiable.
Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);

/// What a device supplies. `x` is any view; `output` is dense and has `x`'s rank, with size 1 along reduced
/// dimensions. The order of additions is fixed, so that equal inputs give equal bits; partial sums are f32 or
/// wider.
struct ReduceKernels {
    static constexpr const char* family = "reduce";

    void (*reduce)(ReduceOp op, const Tensor& x, Tensor& output);
    /// `x` contiguous, seen as `[outer, length, inner]`; `output` i64 `[outer, inner]`.
    void (*argmax)(std::int64_t outer, std::int64_t length, std::int64_t inner, const Tensor& x,
                   Tensor& output);
};

}  // namespace fulcrum
