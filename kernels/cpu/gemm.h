#pragma once

/// \file
/// The f32 matrix product that kernels build on.

#include <cstdint>

namespace fulcrum::cpu {

/// `C = op(A) * op(B) + beta * C`, row-major with leading dimensions; `op(A)` is `[m, k]`, `op(B)` `[k, n]`.
/// With `beta == 0` C is not read. Uses all threads, or one inside a parallel region. Built on oneDNN's
/// `sgemm`.
void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);

}  // namespace fulcrum::cpu
