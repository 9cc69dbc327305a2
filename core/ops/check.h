#pragma once

/// \file
/// The argument checks that all ops share; each message names the op and the argument.

#include "core/tensor.h"

namespace fulcrum::detail {

/// \param op the op's name. \param name what the op calls the argument.
/// \throws ValueError when `tensor` is undefined.
void check_defined(const char* op, const char* name, const Tensor& tensor);

/// \throws DTypeError unless the element type is a floating one.
void check_floating(const char* op, const char* name, const Tensor& tensor);

/// \throws DTypeError unless the element type is `wanted`.
void check_dtype(const char* op, const char* name, const Tensor& tensor, DType wanted);

/// \throws ShapeError unless the shape is `wanted`.
void check_shape(const char* op, const char* name, const Tensor& tensor, const Shape& wanted);

/// \throws DTypeError when the element types differ.
void check_same_dtype(const char* op, const char* name_a, const Tensor& a, const char* name_b,
                      const Tensor& b);

/// \throws DeviceError when the tensors live on different devices.
void check_same_device(const char* op, const char* name_a, const Tensor& a, const char* name_b,
                       const Tensor& b);

}  // namespace fulcrum::detail
