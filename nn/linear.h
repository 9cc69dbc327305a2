#pragma once

/// \file
/// The fully connected layer.

#include "nn/module.h"

#include <cstdint>

namespace fulcrum::nn {

/// `x * weight^T + bias`: input `[..., in]`, output `[..., out]`; parameters `weight` `[out, in]` and `bias`
/// `[out]`, drawn as PyTorch draws them (uniform within 1 / sqrt(in)).
class Linear : public Module {
  public:
    /// \throws ValueError unless both counts are at least 1.
    Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true);

    Tensor forward(const Tensor& x) override;
    MultiplyAdds multiply_adds(const Shape& input, const Shape& output) const override;

    std::int64_t in_features() const { return in_features_; }
    std::int64_t out_features() const { return out_features_; }
    const Tensor& weight() const { return weight_; }
    /// Undefined without a bias.
    const Tensor& bias() const { return bias_; }

  private:
    std::int64_t in_features_, out_features_;
    Tensor weight_, bias_;
};

}  // namespace fulcrum::nn
