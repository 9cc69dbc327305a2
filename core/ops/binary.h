#pragma once

/// \file
/// Element-wise arithmetic with broadcasting.

#include "core/backend.h"
#include "core/tensor.h"

#include <cstdint>

namespace fulcrum {

/// The four operations.
enum class BinaryOp : std::uint8_t { add, sub, mul, div };

/// `a + b`, broadcast. Operands have one dtype, any of the seven; integers wrap around, their division
/// truncates and a zero divisor is a ValueError. The result lies in memory like the operand that has its
/// shape. Gradients are summed over broadcast dimensions. \throws ShapeError, DTypeError,
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
/// With a number, which takes the tensor's dtype. \throws ValueError when an integer type cannot hold it.
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
    /// `a += scale * b`; `b` has `a`'s shape and dtype, with stride 0 along broadcast dimensions; `a` may be
    /// any view whose elements are distinct. With integers the numbers here and below are truncated.
    void (*add_in_place)(Tensor& a, const Tensor& b, double scale);
    /// `a *= factor`.
    void (*scale_in_place)(Tensor& a, double factor);
};

}  // namespace fulcrum
