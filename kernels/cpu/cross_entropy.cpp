#include "core/ops/cross_entropy.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace fulcrum::cpu {
namespace {

/// Elements that are worth a thread.
constexpr std::int64_t kGrain = 4096;

/// The labels as a pointer. \throws ValueError for the first one that names no class.
const std::int64_t* checked_labels(const char* op, const Tensor& labels, std::int64_t classes) {
    const auto* values = labels.data<std::int64_t>();
    for (std::int64_t i = 0; i < labels.numel(); ++i) {
        if (values[i] >= 0 && values[i] < classes) continue;
        throw ValueError(std::string(op) + ": label " + std::to_string(values[i]) + " at position " +
                         std::to_string(i) + " is out of range for " + std::to_string(classes) +
                         " classes; labels must be in 0.." + std::to_string(classes - 1));
    }
    return values;
}

template <class Body>
void for_each_row(const Tensor& matrix, const Body& body) {
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / matrix.size(1));
    parallel_for(matrix.size(0), grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
            body(row);
    });
}

/// Writes one row's log-probabilities and returns its loss. Differences are taken from the largest logit
/// before anything else, so that large logits lose nothing.
template <class T, class C>
C forward_row(const T* logits, std::int64_t classes, std::int64_t label, double smoothing, C* log_probs) {
    C top = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : top)
    for (std::int64_t c = 0; c < classes; ++c)
        top = std::max(top, static_cast<C>(logits[c]));
    C total{0};
#pragma omp simd reduction(+ : total)
    for (std::int64_t c = 0; c < classes; ++c)
        total += vector_exp(static_cast<C>(logits[c]) - top);
    const C log_total = std::log(total);
#pragma omp simd
    for (std::int64_t c = 0; c < classes; ++c)
        log_probs[c] = (static_cast<C>(logits[c]) - top) - log_total;
    if (smoothing == 0.0) return -log_probs[label];
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < classes; ++c)
        sum += static_cast<double>(log_probs[c]);
    return static_cast<C>(-(1.0 - smoothing) * static_cast<double>(log_probs[label]) -
                          smoothing / static_cast<double>(classes) * sum);
}

void forward(const CrossEntropyParams& params, const Tensor& logits, const Tensor& labels, Tensor& losses,
             Tensor& log_probs) {
    visit_floating(logits.dtype(), CrossEntropyKernels::family, [&](auto tag) {
        using T = typename decltype(tag)::type;
        using C = Arithmetic<T>;
        const std::int64_t classes = logits.size(1);
        const std::int64_t* label = checked_labels("cross_entropy", labels, classes);
        const T* from = logits.data<T>();
        C* loss = losses.data<C>();
        C* to = log_probs.data<C>();
        for_each_row(logits, [&](std::int64_t row) {
            loss[row] = forward_row(from + row * classes, classes, label[row], params.label_smoothing,
                                    to + row * classes);
        });
    });
}

void backward(const CrossEntropyParams& params, const Tensor& log_probs, const Tensor& labels,
              const Tensor& scale, Tensor& grad_logits) {
    visit_floating(grad_logits.dtype(), CrossEntropyKernels::family, [&](auto tag) {
        using T = typename decltype(tag)::type;
        using C = Arithmetic<T>;
        const std::int64_t classes = log_probs.size(1);
        const auto* label = labels.data<std::int64_t>();
        const C* from = log_probs.data<C>();
        const C* scales = scale.data<C>();
        const std::int64_t scale_stride = scale.numel() == 1 ? 0 : 1;
        T* to = grad_logits.data<T>();
        const C others = static_cast<C>(params.label_smoothing / static_cast<double>(classes));
        const C own = static_cast<C>(1.0 - params.label_smoothing);
        for_each_row(log_probs, [&](std::int64_t row) {
            const C factor = scales[row * scale_stride];
            const C* logs = from + row * classes;
            T* grad = to + row * classes;
#pragma omp simd
            for (std::int64_t c = 0; c < classes; ++c)
                grad[c] = static_cast<T>(factor * (vector_exp(logs[c]) - others));
            const std::int64_t target = label[row];
            grad[target] = static_cast<T>(factor * ((vector_exp(logs[target]) - own) - others));
        });
    });
}

void nll_forward(const Tensor& log_probs, const Tensor& labels, Tensor& losses) {
    visit_floating(log_probs.dtype(), CrossEntropyKernels::family, [&](auto tag) {
        using T = typename decltype(tag)::type;
        using C = Arithmetic<T>;
        const std::int64_t classes = log_probs.size(1);
        const std::int64_t* label = checked_labels("nll_loss", labels, classes);
        const T* from = log_probs.data<T>();
        C* loss = losses.data<C>();
        for (std::int64_t row = 0; row < labels.numel(); ++row)
            loss[row] = -static_cast<C>(from[row * classes + label[row]]);
    });
}

void nll_backward(const Tensor& labels, const Tensor& scale, Tensor& grad_log_probs) {
    visit_floating(grad_log_probs.dtype(), CrossEntropyKernels::family, [&](auto tag) {
        using T = typename decltype(tag)::type;
        using C = Arithmetic<T>;
        const std::int64_t classes = grad_log_probs.size(1);
        const auto* label = labels.data<std::int64_t>();
        const C* scales = scale.data<C>();
        const std::int64_t scale_stride = scale.numel() == 1 ? 0 : 1;
        T* to = grad_log_probs.data<T>();
        for_each_row(grad_log_probs, [&](std::int64_t row) {
            std::fill_n(to + row * classes, classes, static_cast<T>(C{0}));
            to[row * classes + label[row]] = static_cast<T>(-scales[row * scale_stride]);
        });
    });
}

void count_correct(const Tensor& logits, const Tensor& labels, Tensor& count) {
    visit_floating(logits.dtype(), CrossEntropyKernels::family, [&](auto tag) {
        using T = typename decltype(tag)::type;
        using C = Arithmetic<T>;
        const std::int64_t classes = logits.size(1);
        const std::int64_t* label = checked_labels("count_correct", labels, classes);
        const T* from = logits.data<T>();
        std::atomic<std::int64_t> correct{0};
        for_each_row(logits, [&](std::int64_t row) {
            // Comparisons with NaN are false, which makes such a row wrong.
            const T* values = from + row * classes;
            const C own = static_cast<C>(values[label[row]]);
            bool wins = true;
            for (std::int64_t c = 0; c < label[row]; ++c)
                wins = wins && static_cast<C>(values[c]) < own;
            for (std::int64_t c = label[row]; c < classes; ++c)
                wins = wins && static_cast<C>(values[c]) <= own;
            if (wins) correct.fetch_add(1, std::memory_order_relaxed);
        });
        *count.data<std::int64_t>() += correct.load();
    });
}

}  // namespace

const CrossEntropyKernels& cross_entropy_kernels() {
    static constexpr CrossEntropyKernels kernels{forward, backward, nll_forward, nll_backward, count_correct};
    return kernels;
}

}  // namespace fulcrum::cpu
