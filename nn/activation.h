#pragma once

/// \file
/// Activations as layers, for use in `Sequential`; each is the op of the same name in
/// `core/ops/activation.h`.

#include "nn/module.h"

namespace fulcrum::nn {

/// max(0, x).
class ReLU : public Module {
  public:
    Tensor forward(const Tensor& x) override;
};

/// 1 / (1 + exp(-x)).
class Sigmoid : public Module {
  public:
    Tensor forward(const Tensor& x) override;
};

/// Hyperbolic tangent.
class Tanh : public Module {
  public:
    Tensor forward(const Tensor& x) override;
};

/// x * Phi(x), exact.
class GELU : public Module {
  public:
    Tensor forward(const Tensor& x) override;
};

/// x * sigmoid(x).
class SiLU : public Module {
  public:
    Tensor forward(const Tensor& x) override;
};

}  // namespace fulcrum::nn
