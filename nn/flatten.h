#pragma once

/// \file
/// Flattening as a layer.

#include "nn/module.h"

#include <cstdint>

namespace fulcrum::nn {

/// Merges dimensions `start..end` into one; by default everything but the batch: `[N, C, H, W]` becomes
/// `[N, C * H * W]` in the logical (NCHW) order.
class Flatten : public Module {
  public:
    explicit Flatten(std::int64_t start = 1, std::int64_t end = -1) : start_(start), end_(end) {}
    Tensor forward(const Tensor& x) override;

  private:
    std::int64_t start_, end_;
};

}  // namespace fulcrum::nn
