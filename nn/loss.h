#pragma once

/// \file
/// Losses as objects that carry their settings.

#include "core/ops/cross_entropy.h"
#include "core/tensor.h"

namespace fulcrum::nn {

/// Cross-entropy of logits `[N, C]` (or `[N, C, d1, ...]`) against i64 labels, with label smoothing; see
/// `cross_entropy`.
class CrossEntropyLoss {
  public:
    /// \param label_smoothing in [0, 1]. \throws ValueError.
    explicit CrossEntropyLoss(double label_smoothing = 0.0, Reduction reduction = Reduction::mean);

    /// The loss: a scalar, or the labels' shape with Reduction::none. \throws like `cross_entropy`.
    Tensor operator()(const Tensor& logits, const Tensor& labels) const;

    const CrossEntropyParams& params() const { return params_; }

  private:
    CrossEntropyParams params_;
};

}  // namespace fulcrum::nn
