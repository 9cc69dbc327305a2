#include "core/ops/layout.h"

#include "core/ops/copy.h"

#include <cstddef>

namespace fulcrum::detail {

Strides dense_strides(const Tensor& x) {
    return x.is_dense() ? x.strides() : contiguous_strides(x.shape());
}

Tensor dense(const Tensor& x) {
    return with_strides(x, dense_strides(x));
}

Tensor with_strides(const Tensor& x, const Strides& strides) {
    bool same = true;
    for (std::size_t d = 0; d < strides.size(); ++d) {
        same = same && (x.shape()[d] == 1 || x.strides()[d] == strides[d]);
    }
    if (same || x.numel() == 0) return x.detach();
    Tensor output = empty_strided(x.shape(), strides, {.dtype = x.dtype(), .device = x.device()});
    kernels<CopyKernels>(x.device()).copy(x, output);
    return output;
}

}  // namespace fulcrum::detail
