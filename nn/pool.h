#pragma once

/// \file
/// Pooling layers for images `[N, C, H, W]`.

#include "core/ops/pool.h"
#include "nn/module.h"
#include "nn/pair.h"

namespace fulcrum::nn {

/// Settings of `MaxPool2d` and `AvgPool2d`, set by name: `Pool2dOptions(3).stride(2).padding(1)`.
class Pool2dOptions {
  public:
    /// \param kernel_size window; the stride equals it unless set.
    explicit Pool2dOptions(Pair kernel_size) {
        params_.kernel = kernel_size.array();
        params_.stride = kernel_size.array();
    }

    /// Step of the window in pixels.
    Pool2dOptions& stride(Pair value) {
        params_.stride = value.array();
        return *this;
    }
    /// Padding on each side, at most half the window; 0 by default.
    Pool2dOptions& padding(Pair value) {
        params_.padding = value.array();
        return *this;
    }
    /// Distance between taps (max pooling only); 1 by default.
    Pool2dOptions& dilation(Pair value) {
        params_.dilation = value.array();
        return *this;
    }
    /// Round the output size up; false by default.
    Pool2dOptions& ceil_mode(bool value) {
        params_.ceil_mode = value;
        return *this;
    }
    /// Averages divide by the whole window, padding counted; true by default.
    Pool2dOptions& count_include_pad(bool value) {
        params_.count_include_pad = value;
        return *this;
    }

    const Pool2dParams& params() const { return params_; }

  private:
    Pool2dParams params_;
};

/// `max_pool2d` as a layer.
class MaxPool2d : public Module {
  public:
    explicit MaxPool2d(const Pool2dOptions& options) : options_(options) {}
    explicit MaxPool2d(Pair kernel_size) : MaxPool2d(Pool2dOptions(kernel_size)) {}
    Tensor forward(const Tensor& x) override;
    const Pool2dOptions& options() const { return options_; }

  private:
    Pool2dOptions options_;
};

/// `avg_pool2d` as a layer.
class AvgPool2d : public Module {
  public:
    explicit AvgPool2d(const Pool2dOptions& options) : options_(options) {}
    explicit AvgPool2d(Pair kernel_size) : AvgPool2d(Pool2dOptions(kernel_size)) {}
    Tensor forward(const Tensor& x) override;
    const Pool2dOptions& options() const { return options_; }

  private:
    Pool2dOptions options_;
};

/// `adaptive_avg_pool2d` as a layer: output `[N, C, height, width]` for any input size.
class AdaptiveAvgPool2d : public Module {
  public:
    explicit AdaptiveAvgPool2d(Pair output_size) : output_size_(output_size) {}
    Tensor forward(const Tensor& x) override;
    Pair output_size() const { return output_size_; }

  private:
    Pair output_size_;
};

}  // namespace fulcrum::nn
