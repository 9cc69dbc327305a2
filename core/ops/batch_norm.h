#pragma once

/// \file
/// Batch normalisation (Ioffe and Szegedy, 2015), alone or fused with a residual addition and a ReLU.

#include "core/backend.h"
#include "core/tensor.h"

namespace fulcrum {

/// Settings of `batch_norm`.
struct BatchNormParams {
    bool training = true;   ///< use the batch's statistics and update the running ones
    double momentum = 0.1;  ///< running = (1 - momentum) * running + momentum * batch
    double eps = 1e-5;      ///< added to the variance
    bool relu = false;      ///< apply max(0, .) last
};

/// `y = act((x - mean) / sqrt(var + eps) * weight + bias + residual)` per channel. Normalisation uses the
/// biased variance (division by n), the running variance is updated with the unbiased one (n - 1), as PyTorch
/// does. \param x `[N, C]` or `[N, C, H, W]`, f64, f32, bf16 or f16. \param weight, bias `[C]`, f32 (f64 with
/// f64 `x`), or undefined for 1 and 0. \param running_mean, running_var `[C]`, updated in place when
/// training; undefined when not tracked (training only). \param residual like `x`, or undefined. \throws
/// ShapeError (also for one value per channel when training), DTypeError, ValueError.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormParams& params = {}, const Tensor& residual = {});

/// What a device supplies. `x`, `residual`, `output` and their gradients are dense: 4-D channels-last or 2-D
/// row-major, so a
/// `[rows, C]` matrix in memory either way. Per-channel tensors are f32 (f64 for f64). Undefined tensors are
/// allowed where the op allows them. Core allocates all results.
struct BatchNormKernels {
    static constexpr const char* family = "batch_norm";

    /// Training: writes `output`, `saved_mean` and `saved_inv_std` (`1 / sqrt(var + eps)`), updates the
    /// running statistics.
    KernelContext (*forward_train)(const BatchNormParams& params, const Tensor& x, const Tensor& weight,
                                   const Tensor& bias, const Tensor& residual, Tensor& running_mean,
                                   Tensor& running_var, Tensor& output, Tensor& saved_mean,
                                   Tensor& saved_inv_std);
    /// Evaluation: writes `output` from the running statistics, and `saved_inv_std` where it is defined (when
    /// a backward may follow).
    void (*forward_eval)(const BatchNormParams& params, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, const Tensor& residual, const Tensor& running_mean,
                         const Tensor& running_var, Tensor& output, Tensor& saved_inv_std);
    /// Writes those of `grad_x`, `grad_weight`, `grad_bias`, `grad_residual` that are defined. With
    /// `params.training` the statistics depend on `x`; else they are constants. \param output the forward's
    /// result (its sign is the ReLU's mask); undefined without a ReLU. \param mean, inv_std the saved
    /// statistics; in evaluation `mean` is the running one. \param grad_residual defined only with a ReLU:
    /// without one it is `grad_output`, and core hands that on.
    void (*backward)(const BatchNormParams& params, const KernelContext& context, const Tensor& grad_output,
                     const Tensor& x, const Tensor& output, const Tensor& weight, const Tensor& mean,
                     const Tensor& inv_std, Tensor& grad_x, Tensor& grad_weight, Tensor& grad_bias,
                     Tensor& grad_residual);
};

}  // namespace fulcrum
