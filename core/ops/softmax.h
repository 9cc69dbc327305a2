#pragma once

/// \file
/// Softmax and its logarithm along one dimension.

#include "core/backend.h"
#include "core/tensor.h"

#include <cstdint>

namespace fulcrum {

/// exp(x) / sum(exp(x)) along `dim`, computed after subtracting the maximum. Floating. \throws ShapeError,
/// DTypeError.
Tensor softmax(const Tensor& x, std::int64_t dim);
/// x - log(sum(exp(x))) along `dim`, computed after subtracting the maximum. \throws ShapeError, DTypeError.
Tensor log_softmax(const Tensor& x, std::int64_t dim);

/// A contiguous tensor seen as `[outer, length, inner]`, reduced along the middle.
struct SoftmaxParams {
    std::int64_t outer = 1, length = 1, inner = 1;
    bool logarithm = false;
};

/// What a device supplies. All tensors are contiguous, non-empty, of one floating dtype.
struct SoftmaxKernels {
    static constexpr const char* family = "softmax";

    void (*forward)(const SoftmaxParams& params, const Tensor& x, Tensor& output);
    void (*backward)(const SoftmaxParams& params, const Tensor& grad_output, const Tensor& output,
                     Tensor& grad_x);
};

}  // namespace fulcrum
