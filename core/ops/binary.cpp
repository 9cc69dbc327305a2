#include "core/ops/binary.h"

#include "core/autograd.h"
#include "core/ops/check.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace fulcrum {
namespace {

const char* name_of(BinaryOp op) {
    switch (op) {
        case BinaryOp::add:
            return "add";
        case BinaryOp::sub:
            return "sub";
        case BinaryOp::mul:
            return "mul";
        case BinaryOp::div:
            break;
    }
    return "div";
}

/// Uninitialised, in the memory order of the operand that has the full shape, so that channels-last stays so.
Tensor empty_result(const Shape& shape, const Tensor& a, const Tensor& b) {
    if (a.shape() == shape) return empty_like(a);
    if (b.shape() == shape) return empty_like(b);
    return empty(shape, {.dtype = a.dtype(), .device = a.device()});
}

/// The result, not recorded; arguments are checked.
Tensor compute(BinaryOp op, const Shape& shape, const Tensor& a, const Tensor& b) {
    Tensor output = empty_result(shape, a, b);
    const auto seen = [&shape](const Tensor& x) {
        return x.shape() == shape ? x : expand(x.detach(), shape);
    };
    kernels<BinaryKernels>(a.device()).apply(op, seen(a), seen(b), output);
    return output;
}

/// `a op b` where both fit `a`'s shape: the steps of the gradient.
Tensor compute(BinaryOp op, const Tensor& a, const Tensor& b) {
    return compute(op, a.shape(), a, b);
}

Tensor negated(const Tensor& x) {
    return compute(BinaryOp::mul, x, full({}, -1.0, {.dtype = x.dtype(), .device = x.device()}));
}

/// Records a sum or difference; the gradient needs the shapes only.
Tensor record_sum(BinaryOp op, Tensor output, const Tensor& a, const Tensor& b) {
    return autograd::record(
        name_of(op), std::move(output), {a, b}, {},
        [op, shape_a = a.shape(), shape_b = b.shape()](autograd::BackwardContext& context) {
            const Tensor& grad = context.grad();
            if (context.needs(0)) context.set_grad(0, sum_to_shape(grad, shape_a));
            if (!context.needs(1)) return;
            const Tensor grad_b = sum_to_shape(grad, shape_b);
            context.set_grad(1, op == BinaryOp::sub ? negated(grad_b) : grad_b);
        });
}

/// Records a product; saves only the factors that a wanted gradient reads.
Tensor record_product(Tensor output, const Tensor& a, const Tensor& b) {
    std::vector<Tensor> saved;
    constexpr std::size_t kSavedB = 0;
    if (a.requires_grad()) saved.push_back(b);
    const std::size_t saved_a = saved.size();
    if (b.requires_grad()) saved.push_back(a);
    return autograd::record(
        "mul", std::move(output), {a, b}, std::move(saved),
        [saved_a, shape_a = a.shape(), shape_b = b.shape()](autograd::BackwardContext& context) {
            const Tensor& grad = context.grad();
            if (context.needs(0)) {
                context.set_grad(0,
                                 sum_to_shape(compute(BinaryOp::mul, grad, context.saved(kSavedB)), shape_a));
            }
            if (context.needs(1)) {
                context.set_grad(1,
                                 sum_to_shape(compute(BinaryOp::mul, grad, context.saved(saved_a)), shape_b));
            }
        });
}

/// Records a quotient: da = g / b, db = -(g / b) (a / b), the last factor being the output.
Tensor record_quotient(const Tensor& output, const Tensor& a, const Tensor& b) {
    return autograd::record("div", output, {a, b}, {b, output},
                            [shape_a = a.shape(), shape_b = b.shape()](autograd::BackwardContext& context) {
                                const Tensor scaled =
                                    compute(BinaryOp::div, context.grad(), context.saved(0));
                                if (context.needs(0)) context.set_grad(0, sum_to_shape(scaled, shape_a));
                                if (!context.needs(1)) return;
                                const Tensor product = compute(BinaryOp::mul, scaled, context.saved(1));
                                context.set_grad(1, negated(sum_to_shape(product, shape_b)));
                            });
}

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b) {
    const char* name = name_of(op);
    detail::check_defined(name, "a", a);
    detail::check_defined(name, "b", b);
    detail::check_same_device(name, "a", a, "b", b);
    detail::check_same_dtype(name, "a", a, "b", b);
    Tensor output = compute(op, broadcast_shapes(a.shape(), b.shape(), name), a, b);
    if (!is_floating(a.dtype())) return output;
    switch (op) {
        case BinaryOp::mul:
            return record_product(std::move(output), a, b);
        case BinaryOp::div:
            return record_quotient(output, a, b);
        default:
            return record_sum(op, std::move(output), a, b);
    }
}

/// True when an integer type holds the whole number `value`; written so that NaN is refused.
bool holds(DType dtype, double value) {
    switch (dtype) {
        case DType::u8:
            return value >= 0.0 && value <= 255.0;
        case DType::i32:
            return value >= -0x1p31 && value < 0x1p31;
        default:
            return value >= -0x1p63 && value < 0x1p63;
    }
}

/// `value` as a scalar tensor that fits `like`.
Tensor number(BinaryOp op, double value, const Tensor& like) {
    detail::check_defined(name_of(op), "the tensor operand", like);
    const DType dtype = like.dtype();
    if (!is_floating(dtype) && (std::trunc(value) != value || !holds(dtype, value))) {
        throw ValueError(std::string(name_of(op)) + ": the number " + std::to_string(value) +
                         " is no value of the tensor's type " + std::string(fulcrum::name_of(dtype)) +
                         "; cast the tensor first");
    }
    return full({}, value, {.dtype = dtype, .device = like.device()});
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
    return binary(BinaryOp::add, a, b);
}

Tensor sub(const Tensor& a, const Tensor& b) {
    return binary(BinaryOp::sub, a, b);
}

Tensor mul(const Tensor& a, const Tensor& b) {
    return binary(BinaryOp::mul, a, b);
}

Tensor div(const Tensor& a, const Tensor& b) {
    return binary(BinaryOp::div, a, b);
}

Tensor operator+(const Tensor& a, const Tensor& b) {
    return add(a, b);
}

Tensor operator-(const Tensor& a, const Tensor& b) {
    return sub(a, b);
}

Tensor operator*(const Tensor& a, const Tensor& b) {
    return mul(a, b);
}

Tensor operator/(const Tensor& a, const Tensor& b) {
    return div(a, b);
}

Tensor operator+(const Tensor& a, double b) {
    return add(a, number(BinaryOp::add, b, a));
}

Tensor operator-(const Tensor& a, double b) {
    return sub(a, number(BinaryOp::sub, b, a));
}

Tensor operator*(const Tensor& a, double b) {
    return mul(a, number(BinaryOp::mul, b, a));
}

Tensor operator/(const Tensor& a, double b) {
    return div(a, number(BinaryOp::div, b, a));
}

Tensor operator+(double a, const Tensor& b) {
    return add(number(BinaryOp::add, a, b), b);
}

Tensor operator-(double a, const Tensor& b) {
    return sub(number(BinaryOp::sub, a, b), b);
}

Tensor operator*(double a, const Tensor& b) {
    return mul(number(BinaryOp::mul, a, b), b);
}

Tensor operator/(double a, const Tensor& b) {
    return div(number(BinaryOp::div, a, b), b);
}

Tensor operator-(const Tensor& a) {
    // For floating types a product, which also turns 0 into -0; integers have no -1 when they are unsigned.
    detail::check_defined("negate", "x", a);
    return is_floating(a.dtype()) ? a * -1.0 : 0.0 - a;
}

}  // namespace fulcrum
