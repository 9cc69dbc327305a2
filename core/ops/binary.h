#pragma once

/// \file
/// Element-wise arithmetic with broadcasting.

#include "core/backend.h"
#include "core/tensor.h"

#include <cstdint>

namespace fulcrum {

/// The four operations.
enum class BinaryOp : std::uint8_t { add, sub, mul, div };

/// `a + b`, broadcast. Operands have one dtype, any of the seven; division of integers truncates and a zero
/// divisor is a ValueError. Gradients are summed over broadcast dimensions. \throws ShapeError, DTypeError,
/// DeviceError.
Tensor add(const Tensor& a, const Tensor& b);
/// `a - b`; see `add`.
Tensor sub(const Tensor& a, const Tensor& b);
/// `a * b`; see `add`.
Tensor mul(const Tensor& a, const Tensor& b);
/// `a / b`; see `add`.
Tensor div(const Tensor& a, const Tensor& b);

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
/// With a number, which takes the tensor's dtype.
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);
Tensor operator-(const Tensor& a);

/// What a device supplies.
struct BinaryKernels {
    static constexpr const char* family = "binary";

    /// `output = a op b`. `a` and `b` have `output`'s shape, with stride 0 along broadcast dimensions;
    /// `output` is dense.
    void (*apply)(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& output);
    /// `a += scale * b`; `b` has `a`'s shape, with stride 0 along broadcast dimensions; `a` may be any view.
    void (*add_in_place)(Tensor& a, const Tensor& b, double scale);
    /// `a *= factor`.
    void (*scale_in_place)(Tensor& a, double factor);
};

}  // namespace fulcrum
