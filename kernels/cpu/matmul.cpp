#include "core/ops/matmul.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/onednn_version.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace fulcrum::cpu {

namespace {

void sgemm_onednn(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                  const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                  std::int64_t ldc) {
    onednn::translated("matmul", [&] {
        dnnl::error::wrap_c_api(dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0F, a,
                                           lda, b, ldb, beta, c, ldc),
                                "could not multiply f32 matrices");
    });
}

}  // namespace

void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
    if (num_threads() == 1 || !transpose_b) {
        return sgemm_onednn(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
    }
    // oneDNN 2.6 splits a product with a transposed B such that two threads do half as much work again as
    // one; each thread with columns (or rows) of its own does not.
    constexpr std::int64_t kVector = 16;
    constexpr std::int64_t kGrain = 4;
    const bool by_columns = n >= m;
    const std::int64_t size = by_columns ? n : m;
    parallel_for((size + kVector - 1) / kVector, kGrain, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t first = begin * kVector;
        const std::int64_t count = std::min(size, end * kVector) - first;
        if (by_columns) {
            sgemm_onednn(transpose_a, true, m, count, k, a, lda, b + first * ldb, ldb, beta, c + first, ldc);
        } else {
            sgemm_onednn(transpose_a, true, count, n, k, a + (transpose_a ? first : first * lda), lda, b, ldb,
                         beta, c + first * ldc, ldc);
        }
    });
}

namespace {

/// Products below this many multiply-adds are not worth all threads each.
constexpr std::int64_t kSmallProduct = 1 << 20;

/// Rows of C before a product is added to them: the bias, or the bias on top of what is there.
template <class T>
void start_rows(const GemmParams& p, const T* bias, T* c) {
    for (std::int64_t i = 0; i < p.m; ++i) {
        T* row = c + i * p.ldc;
        for (std::int64_t j = 0; j < p.n; ++j) {
            const Arithmetic<T> start =
                bias != nullptr ? static_cast<Arithmetic<T>>(bias[j]) : Arithmetic<T>{0};
            row[j] = convert<T>(p.accumulate ? static_cast<Arithmetic<T>>(row[j]) + start : start);
        }
    }
}

/// Calls `product(index)` for each matrix of the batch, several at a time when they are small.
template <class Product>
void for_each_product(const GemmParams& p, const Product& product) {
    const bool small = p.batch > 1 && p.m * p.n < kSmallProduct / std::max<std::int64_t>(1, p.k);
    parallel_for(p.batch, small ? 1 : p.batch, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            product(i);
    });
}

void gemm_f32(const GemmParams& p, const float* a, const float* b, const float* bias, float* c) {
    for_each_product(p, [&](std::int64_t i) {
        float* out = c + i * p.stride_c;
        if (bias != nullptr || p.k == 0) start_rows(p, bias, out);
        if (p.k == 0) return;
        sgemm(p.transpose_a, p.transpose_b, p.m, p.n, p.k, a + i * p.stride_a, p.lda, b + i * p.stride_b,
              p.ldb, bias != nullptr || p.accumulate ? 1.0F : 0.0F, out, p.ldc);
    });
}

/// Plain loops: `C[i, :] += A[i, k] * B[k, :]`, which vectorise along the rows of B.
void gemm_f64(const GemmParams& p, const double* a, const double* b, const double* bias, double* c) {
    const bool copy_b = p.transpose_b;
    const Scratch scratch(copy_b ? static_cast<std::size_t>(p.k * p.n) * sizeof(double) : 0);
    for (std::int64_t index = 0; index < p.batch; ++index) {
        double* out = c + index * p.stride_c;
        start_rows(p, bias, out);
        if (p.k == 0) continue;
        const double* left = a + index * p.stride_a;
        const double* right = b + index * p.stride_b;
        if (copy_b) {
            double* packed = scratch.as<double>();
            parallel_for(p.k, 16, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t k = begin; k < end; ++k) {
                    for (std::int64_t j = 0; j < p.n; ++j)
                        packed[k * p.n + j] = right[j * p.ldb + k];
                }
            });
            right = packed;
        }
        const std::int64_t ldb = copy_b ? p.n : p.ldb;
        parallel_for(p.m, std::max<std::int64_t>(1, 32768 / (p.n * std::max<std::int64_t>(1, p.k))),
                     [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) {
                             double* row = out + i * p.ldc;
                             for (std::int64_t k = 0; k < p.k; ++k) {
                                 const double value =
                                     p.transpose_a ? left[k * p.lda + i] : left[i * p.lda + k];
                                 const double* from = right + k * ldb;
                                 for (std::int64_t j = 0; j < p.n; ++j)
                                     row[j] += value * from[j];
                             }
                         }
                     });
    }
}

/// A matmul primitive and the descriptions of its memory.
struct MatmulPlan {
    dnnl::primitive primitive;
    dnnl::memory::desc a, b, bias, c, scratchpad;
};

dnnl::memory::desc stack(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool transposed,
                         std::int64_t leading, std::int64_t step, DType type) {
    // A step of 0 is a batch of one that oneDNN repeats.
    const std::int64_t count = step == 0 ? 1 : batch;
    const std::int64_t outer = step == 0 ? (transposed ? columns : rows) * leading : step;
    return onednn::strided({count, rows, columns}, type,
                           transposed ? Strides{outer, 1, leading} : Strides{outer, leading, 1});
}

void gemm_onednn(const GemmParams& p, const void* a, const void* b, const void* bias, void* c) {
    onednn::translated("matmul", [&] {
        static onednn::Cache<MatmulPlan> plans;
        const onednn::Key key{p.m,
                              p.n,
                              p.k,
                              p.transpose_a,
                              p.transpose_b,
                              p.lda,
                              p.ldb,
                              p.ldc,
                              p.batch,
                              p.stride_a,
                              p.stride_b,
                              p.stride_c,
                              p.accumulate,
                              bias != nullptr,
                              static_cast<std::int64_t>(p.type_a),
                              static_cast<std::int64_t>(p.type_b),
                              static_cast<std::int64_t>(p.type_c)};
        const auto plan = plans.get(key, [&] {
            MatmulPlan made;
            made.a = stack(p.batch, p.m, p.k, p.transpose_a, p.lda, p.stride_a, p.type_a);
            made.b = stack(p.batch, p.k, p.n, p.transpose_b, p.ldb, p.stride_b, p.type_b);
            made.c =
                stack(p.batch, p.m, p.n, false, p.ldc, p.batch == 1 ? p.m * p.ldc : p.stride_c, p.type_c);
            if (bias != nullptr) made.bias = onednn::strided({1, 1, p.n}, p.type_c, {p.n, p.n, 1});
            dnnl::primitive_attr attributes = onednn::attributes();
            if (p.accumulate) {
                dnnl::post_ops sum;
                sum.append_sum();
                attributes.set_post_ops(sum);
            }
            const auto desc = onednn::matmul_desc(made.a, made.b, made.bias, made.c, attributes);
            made.primitive = dnnl::matmul(desc);
            made.scratchpad = desc.scratchpad_desc();
            return made;
        });
        const Scratch scratchpad(plan->scratchpad.get_size());
        std::unordered_map<int, dnnl::memory> arguments{
            {DNNL_ARG_SRC, onednn::view(plan->a, a)},
            {DNNL_ARG_WEIGHTS, onednn::view(plan->b, b)},
            {DNNL_ARG_DST, onednn::view(plan->c, c)},
            {DNNL_ARG_SCRATCHPAD, onednn::view(plan->scratchpad, scratchpad.data())}};
        if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, onednn::view(plan->bias, bias));
        plan->primitive.execute(onednn::stream(), arguments);
    });
}

/// A batch in which neither operand moves, which oneDNN takes for a batch of one.
void gemm_repeated(const GemmParams& p, const void* a, const void* b, const void* bias, void* c) {
    GemmParams single = p;
    single.batch = 1;
    for (std::int64_t i = 0; i < p.batch; ++i) {
        gemm_onednn(
            single, a, b, bias,
            static_cast<std::byte*>(c) + i * p.stride_c * static_cast<std::int64_t>(size_of(p.type_c)));
    }
}

/// Copies `[rows, columns]` with conversion; both row-major with a leading dimension.
void convert_rows(std::int64_t rows, std::int64_t columns, DType from_type, const void* from,
                  std::int64_t from_leading, DType to_type, void* to, std::int64_t to_leading) {
    visit_floating(from_type, "matmul", [&](auto from_tag) {
        visit_floating(to_type, "matmul", [&](auto to_tag) {
            using From = typename decltype(from_tag)::type;
            using To = typename decltype(to_tag)::type;
            parallel_for(rows, std::max<std::int64_t>(1, 32768 / columns),
                         [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t i = begin; i < end; ++i) {
                                 const From* source = static_cast<const From*>(from) + i * from_leading;
                                 To* target = static_cast<To*>(to) + i * to_leading;
                                 for (std::int64_t j = 0; j < columns; ++j)
                                     target[j] = convert<To>(source[j]);
                             }
                         });
        });
    });
}

const std::byte* advance(const void* data, std::int64_t elements, DType type) {
    return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(type));
}

/// Every other mix of f32, bf16 and f16: one matrix at a time through dense f32 copies.
void gemm_through_f32(const GemmParams& p, const void* a, const void* b, const void* bias, void* c) {
    GemmParams wide = p;
    wide.batch = 1;
    wide.type_a = wide.type_b = wide.type_c = DType::f32;
    wide.lda = p.transpose_a ? p.m : p.k;
    wide.ldb = p.transpose_b ? p.k : p.n;
    wide.ldc = p.n;
    const auto floats = [](std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); };
    const Scratch wide_a(floats(p.m * p.k));
    const Scratch wide_b(floats(p.k * p.n));
    const Scratch wide_c(floats(p.m * p.n));
    const Scratch wide_bias(bias != nullptr ? floats(p.n) : 0);
    if (bias != nullptr) convert_rows(1, p.n, p.type_c, bias, p.n, DType::f32, wide_bias.data(), p.n);
    for (std::int64_t i = 0; i < p.batch; ++i) {
        if (p.k > 0) {
            convert_rows(p.transpose_a ? p.k : p.m, wide.lda, p.type_a, advance(a, i * p.stride_a, p.type_a),
                         p.lda, DType::f32, wide_a.data(), wide.lda);
            convert_rows(p.transpose_b ? p.n : p.k, wide.ldb, p.type_b, advance(b, i * p.stride_b, p.type_b),
                         p.ldb, DType::f32, wide_b.data(), wide.ldb);
        }
        std::byte* out =
            static_cast<std::byte*>(c) + i * p.stride_c * static_cast<std::int64_t>(size_of(p.type_c));
        if (p.accumulate) convert_rows(p.m, p.n, p.type_c, out, p.ldc, DType::f32, wide_c.data(), p.n);
        gemm_f32(wide, wide_a.as<float>(), wide_b.as<float>(), wide_bias.as<float>(), wide_c.as<float>());
        convert_rows(p.m, p.n, DType::f32, wide_c.data(), p.n, p.type_c, out, p.ldc);
    }
}

void gemm(const GemmParams& p, const void* a, const void* b, const void* bias, void* c, Device) {
    const bool f32 = p.type_a == DType::f32 && p.type_b == DType::f32 && p.type_c == DType::f32;
    const bool bf16 = p.type_a == DType::bf16 && p.type_b == DType::bf16 &&
                      (p.type_c == DType::bf16 || p.type_c == DType::f32);
    if (p.type_a == DType::f64) {
        gemm_f64(p, static_cast<const double*>(a), static_cast<const double*>(b),
                 static_cast<const double*>(bias), static_cast<double*>(c));
    } else if (f32) {
        gemm_f32(p, static_cast<const float*>(a), static_cast<const float*>(b),
                 static_cast<const float*>(bias), static_cast<float*>(c));
    } else if (bf16 && p.k > 0 && onednn::has_fast_bf16()) {
        if (p.batch > 1 && p.stride_a == 0 && p.stride_b == 0) {
            gemm_repeated(p, a, b, bias, c);
        } else {
            gemm_onednn(p, a, b, bias, c);
        }
    } else {
        gemm_through_f32(p, a, b, bias, c);
    }
}

}  // namespace

const MatmulKernels& matmul_kernels() {
    static constexpr MatmulKernels kKernels{.gemm = gemm};
    return kKernels;
}

}  // namespace fulcrum::cpu
