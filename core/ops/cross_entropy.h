#pragma once

/// \file
/// Cross-entropy of logits against class labels, fused with the log-softmax, and the negative log-likelihood
/// alone.

#include "core/backend.h"
#include "core/tensor.h"

#include <cstdint>

namespace fulcrum {

/// How per-sample losses are put together.
enum class Reduction : std::uint8_t { none, sum, mean };

/// Settings of `cross_entropy`.
struct CrossEntropyParams {
    double label_smoothing = 0.0;  ///< in [0, 1]: target = (1 - s) * one_hot + s / classes
    Reduction reduction = Reduction::mean;
};

/// `-sum over c of target[c] * log_softmax(logits)[c]`, finite for any finite logits.
/// \param logits `[N, C]` or `[N, C, d1, ...]`, f64, f32, bf16 or f16 (16-bit logits are computed in f32).
/// \param labels `[N]` or `[N, d1, ...]`, i64, each in 0..C-1.
/// \return a scalar (shape `[]`), or the labels' shape with Reduction::none; f32 (f64 for f64 logits).
/// \throws ShapeError, DTypeError, ValueError (a label out of range, naming it, its place and the number of
/// classes).
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyParams& params = {});

/// `-log_probs[n, labels[n]]`. Dtypes, shapes, labels, result and errors as `cross_entropy`.
Tensor nll_loss(const Tensor& log_probs, const Tensor& labels, Reduction reduction = Reduction::mean);

/// How many rows of `logits` (`[N, C]`, or the positions of `[N, C, d1, ...]`) have their largest entry (the
/// first of equals; NaN counts as wrong) at the label. \return an i64 scalar on the logits' device. Not
/// differentiable. \throws like `cross_entropy`.
Tensor count_correct(const Tensor& logits, const Tensor& labels);

/// What a device supplies. `logits` is a contiguous `[N, C]` matrix, `labels` a contiguous i64 `[N]`, both
/// non-empty; losses, log-probabilities and their gradients are f32 (f64 for f64 logits). A label out of
/// range is a ValueError.
struct CrossEntropyKernels {
    static constexpr const char* family = "cross_entropy";

    /// Writes each sample's loss `[N]` and the log-probabilities `[N, C]`, which the backward reads.
    void (*forward)(const CrossEntropyParams& params, const Tensor& logits, const Tensor& labels,
                    Tensor& losses, Tensor& log_probs);
    /// `grad_logits[n, c] = scale[n] * (softmax[n, c] - target[n, c])`, in the logits' dtype.
    /// \param scale `[N]`, or one element for all, already divided by N for the mean.
    void (*backward)(const CrossEntropyParams& params, const Tensor& log_probs, const Tensor& labels,
                     const Tensor& scale, Tensor& grad_logits);
    /// `losses[n] = -log_probs[n, labels[n]]`; `log_probs` floating.
    void (*nll_forward)(const Tensor& log_probs, const Tensor& labels, Tensor& losses);
    /// Writes all of `grad_log_probs` (its dtype is the log-probabilities'): `-scale[n]` at the labels, else
    /// 0. \param scale as for `backward`.
    void (*nll_backward)(const Tensor& labels, const Tensor& scale, Tensor& grad_log_probs);
    /// Adds to the i64 scalar `count` the number of rows whose largest entry is at the label.
    void (*count_correct)(const Tensor& logits, const Tensor& labels, Tensor& count);
};

}  // namespace fulcrum
