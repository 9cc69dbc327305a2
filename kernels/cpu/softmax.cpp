#include "core/ops/softmax.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fulcrum::cpu {
namespace {

/// Columns that are reduced side by side where the dimension is not the innermost one.
constexpr std::int64_t kColumns = 64;
/// Elements that are worth a thread.
constexpr std::int64_t kGrain = 4096;

/// One dense row. A NaN is lost in the maximum but comes back through the sum.
template <class T>
void forward_row(const T* x, std::int64_t length, bool logarithm, T* output) {
    using C = Arithmetic<T>;
    C top = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : top)
    for (std::int64_t i = 0; i < length; ++i)
        top = std::max(top, static_cast<C>(x[i]));
    C total{0};
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < length; ++i)
        total += vector_exp(static_cast<C>(x[i]) - top);
    if (logarithm) {
        const C log_total = std::log(total);
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i)
            output[i] = static_cast<T>((static_cast<C>(x[i]) - top) - log_total);
    } else {
        const C inverse = C{1} / total;
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i)
            output[i] = static_cast<T>(vector_exp(static_cast<C>(x[i]) - top) * inverse);
    }
}

template <class T>
void backward_row(const T* grad, const T* output, std::int64_t length, bool logarithm, T* grad_x) {
    using C = Arithmetic<T>;
    C total{0};
    if (logarithm) {
#pragma omp simd reduction(+ : total)
        for (std::int64_t i = 0; i < length; ++i)
            total += static_cast<C>(grad[i]);
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i)
            grad_x[i] =
                static_cast<T>(static_cast<C>(grad[i]) - vector_exp(static_cast<C>(output[i])) * total);
    } else {
#pragma omp simd reduction(+ : total)
        for (std::int64_t i = 0; i < length; ++i)
            total += static_cast<C>(grad[i]) * static_cast<C>(output[i]);
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i)
            grad_x[i] = static_cast<T>((static_cast<C>(grad[i]) - total) * static_cast<C>(output[i]));
    }
}

/// `columns` neighbouring columns of a `[length, stride]` matrix.
template <class T>
void forward_columns(const T* x, std::int64_t length, std::int64_t stride, std::int64_t columns,
                     bool logarithm, T* output) {
    using C = Arithmetic<T>;
    std::array<C, kColumns> top;
    std::array<C, kColumns> total;
    top.fill(-std::numeric_limits<C>::infinity());
    total.fill(C{0});
    for (std::int64_t i = 0; i < length; ++i) {
        const T* row = x + i * stride;
#pragma omp simd
        for (std::int64_t c = 0; c < columns; ++c)
            top[c] = std::max(top[c], static_cast<C>(row[c]));
    }
    for (std::int64_t i = 0; i < length; ++i) {
        const T* row = x + i * stride;
#pragma omp simd
        for (std::int64_t c = 0; c < columns; ++c)
            total[c] += vector_exp(static_cast<C>(row[c]) - top[c]);
    }
    for (std::int64_t c = 0; c < columns; ++c)
        total[c] = logarithm ? std::log(total[c]) : C{1} / total[c];
    for (std::int64_t i = 0; i < length; ++i) {
        const T* row = x + i * stride;
        T* to = output + i * stride;
        if (logarithm) {
#pragma omp simd
            for (std::int64_t c = 0; c < columns; ++c)
                to[c] = static_cast<T>((static_cast<C>(row[c]) - top[c]) - total[c]);
        } else {
#pragma omp simd
            for (std::int64_t c = 0; c < columns; ++c)
                to[c] = static_cast<T>(vector_exp(static_cast<C>(row[c]) - top[c]) * total[c]);
        }
    }
}

template <class T>
void backward_columns(const T* grad, const T* output, std::int64_t length, std::int64_t stride,
                      std::int64_t columns, bool logarithm, T* grad_x) {
    using C = Arithmetic<T>;
    std::array<C, kColumns> total;
    total.fill(C{0});
    for (std::int64_t i = 0; i < length; ++i) {
        const T* g = grad + i * stride;
        const T* y = output + i * stride;
        if (logarithm) {
#pragma omp simd
            for (std::int64_t c = 0; c < columns; ++c)
                total[c] += static_cast<C>(g[c]);
        } else {
#pragma omp simd
            for (std::int64_t c = 0; c < columns; ++c)
                total[c] += static_cast<C>(g[c]) * static_cast<C>(y[c]);
        }
    }
    for (std::int64_t i = 0; i < length; ++i) {
        const T* g = grad + i * stride;
        const T* y = output + i * stride;
        T* to = grad_x + i * stride;
        if (logarithm) {
#pragma omp simd
            for (std::int64_t c = 0; c < columns; ++c)
                to[c] = static_cast<T>(static_cast<C>(g[c]) - vector_exp(static_cast<C>(y[c])) * total[c]);
        } else {
#pragma omp simd
            for (std::int64_t c = 0; c < columns; ++c)
                to[c] = static_cast<T>((static_cast<C>(g[c]) - total[c]) * static_cast<C>(y[c]));
        }
    }
}

/// Calls `row(offset)` for every dense row, or `columns(offset, count)` for every group of columns.
template <class Row, class Columns>
void for_each_slice(const SoftmaxParams& params, const Row& row, const Columns& columns) {
    if (params.inner == 1) {
        const std::int64_t grain = std::max<std::int64_t>(1, kGrain / params.length);
        parallel_for(params.outer, grain, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
                row(i * params.length);
        });
        return;
    }
    const std::int64_t groups = (params.inner + kColumns - 1) / kColumns;
    const std::int64_t grain =
        std::max<std::int64_t>(1, kGrain / (params.length * std::min(params.inner, kColumns)));
    parallel_for(params.outer * groups, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = i % groups * kColumns;
            columns(i / groups * params.length * params.inner + first,
                    std::min(kColumns, params.inner - first));
        }
    });
}

void forward(const SoftmaxParams& params, const Tensor& x, Tensor& output) {
    visit_floating(x.dtype(), SoftmaxKernels::family, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* from = x.data<T>();
        T* to = output.data<T>();
        for_each_slice(
            params,
            [&](std::int64_t at) { forward_row(from + at, params.length, params.logarithm, to + at); },
            [&](std::int64_t at, std::int64_t columns) {
                forward_columns(from + at, params.length, params.inner, columns, params.logarithm, to + at);
            });
    });
}

void backward(const SoftmaxParams& params, const Tensor& grad_output, const Tensor& output, Tensor& grad_x) {
    visit_floating(output.dtype(), SoftmaxKernels::family, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* grad = grad_output.data<T>();
        const T* result = output.data<T>();
        T* to = grad_x.data<T>();
        for_each_slice(
            params,
            [&](std::int64_t at) {
                backward_row(grad + at, result + at, params.length, params.logarithm, to + at);
            },
            [&](std::int64_t at, std::int64_t columns) {
                backward_columns(grad + at, result + at, params.length, params.inner, columns,
                                 params.logarithm, to + at);
            });
    });
}

}  // namespace

const SoftmaxKernels& softmax_kernels() {
    static constexpr SoftmaxKernels kernels{forward, backward};
    return kernels;
}

}  // namespace fulcrum::cpu
