#pragma once

/// \file
/// Element-wise activations.

#include "core/backend.h"
#include "core/tensor.h"

#include <cstdint>

namespace fulcrum {

/// The activations. `gelu` is the exact one, x * Phi(x); `silu` is x * sigmoid(x).
enum class Activation : std::uint8_t { relu, sigmoid, tanh, gelu, silu };

/// max(0, x); NaN stays NaN; the gradient at 0 is 0. Any shape, floating. \throws DTypeError.
Tensor relu(const Tensor& x);
/// 1 / (1 + exp(-x)), without overflow. \throws DTypeError.
Tensor sigmoid(const Tensor& x);
/// \throws DTypeError.
Tensor tanh(const Tensor& x);
/// x * Phi(x) (Hendrycks and Gimpel, 2016), exact. Minus infinity gives NaN. \throws DTypeError.
Tensor gelu(const Tensor& x);
/// x * sigmoid(x). Minus infinity gives NaN. \throws DTypeError.
Tensor silu(const Tensor& x);

/// What a device supplies. All tensors are dense with equal strides (so they are flat arrays) and equal
/// floating dtype.
struct ActivationKernels {
    static constexpr const char* family = "activation";

    void (*forward)(Activation kind, const Tensor& x, Tensor& output);
    /// \param saved the output for relu, sigmoid and tanh, the input for gelu and silu.
    void (*backward)(Activation kind, const Tensor& grad_output, const Tensor& saved, Tensor& grad_x);
};

}  // namespace fulcrum
