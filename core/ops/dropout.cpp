#include "core/ops/dropout.h"

#include "core/autograd.h"
#include "core/ops/check.h"
#include "core/ops/layout.h"

#include <cmath>
#include <string>

namespace fulcrum {

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
    detail::check_defined("dropout", "x", x);
    detail::check_floating("dropout", "x", x);
    if (!(p >= 0.0 && p <= 1.0)) {
        throw ValueError("dropout: the probability p is " + std::to_string(p) + "; it takes 0 to 1");
    }
    if (!training || p == 0.0) return x;
    DropoutParams params;
    params.seed = generator.seed();
    params.stream = generator.take_stream();
    params.threshold = static_cast<std::uint64_t>(std::ceil(p * 0x1p32));
    params.scale = p < 1.0 ? 1.0 / (1.0 - p) : 0.0;
    const Tensor input = detail::dense(x);
    Tensor output = empty_like(input);
    kernels<DropoutKernels>(x.device()).apply(params, input, output);
    return autograd::record("dropout", output, {x}, {},
                            [params, strides = output.strides()](autograd::BackwardContext& context) {
                                const Tensor grad = detail::with_strides(context.grad(), strides);
                                Tensor grad_x = context.grad_buffer(0, grad);
                                kernels<DropoutKernels>(grad.device()).apply(params, grad, grad_x);
                                context.set_grad(0, grad_x);
                            });
}

}  // namespace fulcrum
