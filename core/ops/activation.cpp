#include "core/ops/activation.h"

#include "core/autograd.h"
#include "core/ops/check.h"
#include "core/ops/layout.h"

namespace fulcrum {
namespace {

Tensor activate(const char* op, Activation kind, const Tensor& x) {
    detail::check_defined(op, "x", x);
    detail::check_floating(op, "x", x);
    const Tensor input = detail::dense(x);
    Tensor output = empty_like(input);
    kernels<ActivationKernels>(x.device()).forward(kind, input, output);
    const bool keeps_input = kind == Activation::gelu || kind == Activation::silu;
    return autograd::record(
        op, output, {x}, {keeps_input ? input : output}, [kind](autograd::BackwardContext& context) {
            const Tensor& saved = context.saved(0);
            const Tensor grad = detail::with_strides(context.grad(), saved.strides());
            Tensor grad_x = context.grad_buffer(0, saved);
            kernels<ActivationKernels>(saved.device()).backward(kind, grad, saved, grad_x);
            context.set_grad(0, grad_x);
        });
}

}  // namespace

Tensor relu(const Tensor& x) {
    return activate("relu", Activation::relu, x);
}

Tensor sigmoid(const Tensor& x) {
    return activate("sigmoid", Activation::sigmoid, x);
}

Tensor tanh(const Tensor& x) {
    return activate("tanh", Activation::tanh, x);
}

Tensor gelu(const Tensor& x) {
    return activate("gelu", Activation::gelu, x);
}

Tensor silu(const Tensor& x) {
    return activate("silu", Activation::silu, x);
}

}  // namespace fulcrum
