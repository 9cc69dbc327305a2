#pragma once

/// \file
/// Optimiser steps over flat arrays: one call updates a whole model.

#include "core/backend.h"
#include "core/tensor.h"

#include <cstdint>
#include <span>

namespace fulcrum {

/// SGD as PyTorch defines it: `g += weight_decay * p; v = momentum * v + (1 - dampening) * g` (v = g on the
/// first step); `p -= lr * (nesterov ? g + momentum * v : v)`.
struct SgdParams {
    double lr = 0.1;
    double momentum = 0.0;
    double dampening = 0.0;
    double weight_decay = 0.0;
    bool nesterov = false;
};

/// Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019), bias-corrected.
struct AdamParams {
    double lr = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.0;
    bool decoupled = false;  ///< AdamW: `p -= lr * weight_decay * p` instead of adding to the gradient
    std::int64_t step = 1;   ///< 1 for the first step
};

/// One flat piece: equal-length 1-D contiguous tensors of one dtype (f32 or f64). Unused states are
/// undefined.
struct OptimizerSlice {
    Tensor param;
    Tensor grad;
    Tensor state1;            ///< momentum (SGD), first moment (Adam)
    Tensor state2;            ///< second moment (Adam)
    bool first_step = false;  ///< SGD: state1 holds nothing yet and is written
};

/// What a device supplies. Each call updates all slices in one pass.
struct OptimizerKernels {
    static constexpr const char* family = "optimizer";

    void (*sgd)(const SgdParams& params, std::span<OptimizerSlice> slices);
    void (*adam)(const AdamParams& params, std::span<OptimizerSlice> slices);
};

}  // namespace fulcrum
