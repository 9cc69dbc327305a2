#pragma once

/// \file
/// Dropout as a layer.

#include "nn/module.h"

namespace fulcrum::nn {

/// In training zeroes each element with probability `p` and scales the rest by 1 / (1 - p); else the
/// identity. Masks are drawn from the thread's `default_generator`.
class Dropout : public Module {
  public:
    /// \throws ValueError unless 0 <= p <= 1.
    explicit Dropout(double p = 0.5);
    Tensor forward(const Tensor& x) override;
    double p() const { return p_; }

  private:
    double p_;
};

}  // namespace fulcrum::nn
