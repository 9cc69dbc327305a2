#include "core/ops/check.h"

#include "core/error.h"

#include <string>

namespace fulcrum::detail {

void check_defined(const char* op, const char* name, const Tensor& tensor) {
    if (tensor.defined()) return;
    throw ValueError(std::string(op) + ": " + name +
                     " is an undefined tensor; give it a shape and values first");
}

void check_floating(const char* op, const char* name, const Tensor& tensor) {
    if (is_floating(tensor.dtype())) return;
    throw DTypeError(std::string(op) + ": " + name + " is " + std::string(name_of(tensor.dtype())) +
                     "; it takes a floating-point tensor (f64, f32, bf16 or f16), cast it first");
}

void check_dtype(const char* op, const char* name, const Tensor& tensor, DType wanted) {
    if (tensor.dtype() == wanted) return;
    throw DTypeError(std::string(op) + ": " + name + " is " + std::string(name_of(tensor.dtype())) +
                     " but must be " + std::string(name_of(wanted)) + "; cast it first");
}

void check_shape(const char* op, const char* name, const Tensor& tensor, const Shape& wanted) {
    if (tensor.shape() == wanted) return;
    throw ShapeError(std::string(op) + ": " + name + " has shape " + to_string(tensor.shape()) +
                     " but must have " + to_string(wanted));
}

void check_same_dtype(const char* op, const char* name_a, const Tensor& a, const char* name_b,
                      const Tensor& b) {
    if (a.dtype() == b.dtype()) return;
    throw DTypeError(std::string(op) + ": " + name_a + " is " + std::string(name_of(a.dtype())) + " but " +
                     name_b + " is " + std::string(name_of(b.dtype())) + "; cast one of them");
}

void check_same_device(const char* op, const char* name_a, const Tensor& a, const char* name_b,
                       const Tensor& b) {
    if (a.device() == b.device()) return;
    throw DeviceError(std::string(op) + ": " + name_a + " is on " + to_string(a.device()) + " but " + name_b +
                      " is on " + to_string(b.device()) + "; move one of them with to(device)");
}

}  // namespace fulcrum::detail
