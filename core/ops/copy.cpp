#include "core/ops/copy.h"

#include "core/autograd.h"
#include "core/ops/check.h"

namespace fulcrum {

Tensor cast(const Tensor& x, DType dtype) {
    detail::check_defined("cast", "x", x);
    if (x.dtype() == dtype) return x;
    Tensor output = empty_like(x, dtype);
    kernels<CopyKernels>(x.device()).copy(x, output);
    // Integers carry no gradients.
    if (!is_floating(dtype)) return output;
    return autograd::record("cast", output, {x}, {}, [dtype = x.dtype()](autograd::BackwardContext& context) {
        context.set_grad(0, cast(context.grad(), dtype));
    });
}

}  // namespace fulcrum
