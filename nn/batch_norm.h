#pragma once

/// \file
/// Batch normalisation layers.

#include "core/ops/batch_norm.h"
#include "nn/module.h"

#include <cstdint>
#include <string>

namespace fulcrum::nn {

/// Settings of `BatchNorm1d` and `BatchNorm2d`, set by name.
class BatchNormOptions {
  public:
    /// \param features channels, at least 1.
    explicit BatchNormOptions(std::int64_t features) : features_(features) {}

    /// Added to the variance; 1e-5 by default.
    BatchNormOptions& eps(double value) {
        eps_ = value;
        return *this;
    }
    /// Weight of the newest batch in the running statistics, in [0, 1]; 0.1 by default.
    BatchNormOptions& momentum(double value) {
        momentum_ = value;
        return *this;
    }
    /// Whether a weight and a bias per channel are learned; true by default.
    BatchNormOptions& affine(bool value) {
        affine_ = value;
        return *this;
    }
    /// Whether running statistics are kept for evaluation; true by default. Without them evaluation uses the
    /// batch's too.
    BatchNormOptions& track_running_stats(bool value) {
        track_running_stats_ = value;
        return *this;
    }

    std::int64_t features() const { return features_; }
    double eps() const { return eps_; }
    double momentum() const { return momentum_; }
    bool affine() const { return affine_; }
    bool track_running_stats() const { return track_running_stats_; }

  private:
    std::int64_t features_;
    double eps_ = 1e-5;
    double momentum_ = 0.1;
    bool affine_ = true;
    bool track_running_stats_ = true;
};

/// What both layers share: parameters `weight` (ones) and `bias` (zeros), buffers `running_mean` (zeros),
/// `running_var` (ones) and `num_batches_tracked` (i64 scalar), all `[C]` but the last. Training forwards
/// update the buffers.
class BatchNorm : public Module {
  public:
    Tensor forward(const Tensor& x) override;
    /// `act(batch_norm(x) + residual)` in one pass. \param residual like `x`, or undefined.
    /// \param relu apply max(0, .) last. Errors carry the layer's path as those of `operator()` do.
    Tensor forward_fused(const Tensor& x, const Tensor& residual, bool relu);

    const BatchNormOptions& options() const { return options_; }
    const Tensor& weight() const { return weight_; }
    const Tensor& bias() const { return bias_; }
    const Tensor& running_mean() const { return running_mean_; }
    const Tensor& running_var() const { return running_var_; }
    const Tensor& num_batches_tracked() const { return num_batches_tracked_; }

  protected:
    /// \param rank of the inputs that the layer takes. \throws ValueError naming the option out of range.
    BatchNorm(const BatchNormOptions& options, std::int64_t rank);

  private:
    Tensor apply(const Tensor& x, const Tensor& residual, bool relu);

    BatchNormOptions options_;
    std::int64_t rank_;
    Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
    Tensor one_;  // what the counter is advanced by, on its device
};

/// Normalises `[N, C]` per feature.
class BatchNorm1d : public BatchNorm {
  public:
    explicit BatchNorm1d(const BatchNormOptions& options) : BatchNorm(options, 2) {}
    explicit BatchNorm1d(std::int64_t features) : BatchNorm1d(BatchNormOptions(features)) {}
};

/// Normalises `[N, C, H, W]` per channel.
class BatchNorm2d : public BatchNorm {
  public:
    explicit BatchNorm2d(const BatchNormOptions& options) : BatchNorm(options, 4) {}
    explicit BatchNorm2d(std::int64_t features) : BatchNorm2d(BatchNormOptions(features)) {}
};

}  // namespace fulcrum::nn
