#include "core/ops/softmax.h"

#include "core/autograd.h"
#include "core/ops/check.h"

#include <cstddef>
#include <utility>

namespace fulcrum {
namespace {

Tensor apply(const char* op, const Tensor& x, std::int64_t dim, bool logarithm) {
    detail::check_defined(op, "x", x);
    detail::check_floating(op, "x", x);
    const std::size_t axis = normalize_dim(dim, x.shape().size(), op);

    const Tensor input = x.contiguous();
    Tensor output = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
    SoftmaxParams params;
    params.logarithm = logarithm;
    for (std::size_t i = 0; i < x.shape().size() && x.numel() > 0; ++i) {
        std::int64_t& part = i < axis ? params.outer : i == axis ? params.length : params.inner;
        part *= x.shape()[i];
    }
    if (x.numel() > 0) kernels<SoftmaxKernels>(x.device()).forward(params, input, output);

    return autograd::record(op, output, {input}, {output}, [params](autograd::BackwardContext& context) {
        const Tensor& result = context.saved(0);
        Tensor grad_x = context.grad_buffer(0, result);
        if (result.numel() > 0) {
            kernels<SoftmaxKernels>(result.device())
                .backward(params, context.grad().contiguous(), result, grad_x);
        }
        context.set_grad(0, grad_x);
    });
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim) {
    return apply("softmax", x, dim, false);
}

Tensor log_softmax(const Tensor& x, std::int64_t dim) {
    return apply("log_softmax", x, dim, true);
}

}  // namespace fulcrum
