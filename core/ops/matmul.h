#pragma once

/// \file
/// Matrix products: batched `matmul` and the `linear` layer.

#include "core/backend.h"
#include "core/tensor.h"

#include <cstdint>

namespace fulcrum {

/// Matrix product with PyTorch's rules: `[m, k] x [k, n]`, batches `[..., m, k] x [..., k, n]` that
/// broadcast, and 1-D operands as a row (left) or a column (right). \param a, b same floating dtype. \throws
/// ShapeError, DTypeError.
Tensor matmul(const Tensor& a, const Tensor& b);

/// `x * weight^T + bias`.
/// \param x `[..., in]`. \param weight `[out, in]`, x's dtype, or f32 with a 16-bit `x`. \param bias `[out]`
/// or undefined. \return `[..., out]`, x's dtype. \throws ShapeError, DTypeError.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// One batched product `C = op(A) * op(B) (+ bias)`, all matrices row-major with a leading dimension.
struct GemmParams {
    std::int64_t m = 0, n = 0, k = 0;
    bool transpose_a = false;  ///< A is stored `[k, m]`
    bool transpose_b = false;  ///< B is stored `[n, k]`
    std::int64_t lda = 0, ldb = 0, ldc = 0;
    std::int64_t batch = 1;
    std::int64_t stride_a = 0, stride_b = 0,
                 stride_c = 0;  ///< elements between the batch's matrices; 0 repeats one
    bool accumulate = false;    ///< add to C instead of writing it
    DType type_a = DType::f32, type_b = DType::f32,
          type_c = DType::f32;  ///< f64 throughout, or any mix of f32, bf16, f16
};

/// What a device supplies for matrix products.
struct MatmulKernels {
    static constexpr const char* family = "matmul";

    /// \param bias `[n]` in the type of C, added to each row, or null. `m`, `n`, `batch` > 0; with `k == 0`
    /// the product is zero. Sums in f32 (f64 for f64).
    void (*gemm)(const GemmParams& params, const void* a, const void* b, const void* bias, void* c,
                 Device device);
};

}  // namespace fulcrum
