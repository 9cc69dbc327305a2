#pragma once

/// \file
/// The two-dimensional convolution layer.

#include "core/ops/conv.h"
#include "nn/init.h"
#include "nn/module.h"
#include "nn/pair.h"

#include <cstdint>

namespace fulcrum::nn {

/// Settings of `Conv2d`, set by name: `Conv2dOptions(3, 64, 3).stride(2).padding(1).bias(false)`.
class Conv2dOptions {
  public:
    /// \param in_channels, out_channels at least 1. \param kernel_size window height and width.
    Conv2dOptions(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size)
        : in_channels_(in_channels), out_channels_(out_channels), kernel_size_(kernel_size) {}

    /// Step of the window in pixels; 1 by default.
    Conv2dOptions& stride(Pair value) {
        stride_ = value;
        return *this;
    }
    /// Zeros around the image on each side; 0 by default.
    Conv2dOptions& padding(Pair value) {
        padding_ = value;
        return *this;
    }
    /// Distance between taps; 1 by default.
    Conv2dOptions& dilation(Pair value) {
        dilation_ = value;
        return *this;
    }
    /// Independent groups of channels; 1 by default, must divide both channel counts.
    Conv2dOptions& groups(std::int64_t value) {
        groups_ = value;
        return *this;
    }
    /// Whether a bias per output channel is added; true by default.
    Conv2dOptions& bias(bool value) {
        bias_ = value;
        return *this;
    }
    /// How the weight is drawn; PyTorch's default by default.
    Conv2dOptions& init(WeightInit value) {
        init_ = value;
        return *this;
    }

    std::int64_t in_channels() const { return in_channels_; }
    std::int64_t out_channels() const { return out_channels_; }
    Pair kernel_size() const { return kernel_size_; }
    Pair stride() const { return stride_; }
    Pair padding() const { return padding_; }
    Pair dilation() const { return dilation_; }
    std::int64_t groups() const { return groups_; }
    bool bias() const { return bias_; }
    WeightInit init() const { return init_; }

  private:
    std::int64_t in_channels_, out_channels_;
    Pair kernel_size_;
    Pair stride_ = 1, padding_ = 0, dilation_ = 1;
    std::int64_t groups_ = 1;
    bool bias_ = true;
    WeightInit init_ = WeightInit::kaiming_uniform;
};

/// The multiply-adds of one `conv2d`; its two backward passes have as many each.
MultiplyAdds conv2d_multiply_adds(const Shape& input, const Shape& weight, const Shape& output,
                                  const Conv2dParams& params);

/// `conv2d` with its own parameters: `weight` `[O, I / groups, KH, KW]` (tap-major in memory) and `bias`
/// `[O]`. Input `[N, I, H, W]`, output `[N, O, OH, OW]`.
class Conv2d : public Module {
  public:
    /// \throws ValueError naming the option that is out of range.
    explicit Conv2d(const Conv2dOptions& options);

    Tensor forward(const Tensor& x) override;
    MultiplyAdds multiply_adds(const Shape& input, const Shape& output) const override;

    const Conv2dOptions& options() const { return options_; }
    const Tensor& weight() const { return weight_; }
    /// Undefined without a bias.
    const Tensor& bias() const { return bias_; }

  private:
    Conv2dOptions options_;
    Conv2dParams params_;
    Tensor weight_, bias_;
};

}  // namespace fulcrum::nn
