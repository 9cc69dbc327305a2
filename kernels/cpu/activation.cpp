#include "core/ops/activation.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace fulcrum::cpu {
namespace {

/// Fewest elements that are worth a thread: some of the functions take long.
constexpr std::int64_t kGrain = 16384;

/// Phi(x), the normal distribution function. By erfc, since 1 + erf(x) loses the lower tail.
template <class A>
A normal_cdf(A x) {
    return A(0.5) * std::erfc(-x * A(std::numbers::sqrt2 / 2));
}

/// phi(x), the normal density.
template <class A>
A normal_density(A x) {
    constexpr A factor = A(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return factor * vector_exp(A(-0.5) * x * x);
}

template <Activation Kind, class A>
A activate(A x) {
    // Written so that NaN, which compares false, passes through.
    if constexpr (Kind == Activation::relu) return x < A(0) ? A(0) : x;
    if constexpr (Kind == Activation::sigmoid) return vector_sigmoid(x);
    if constexpr (Kind == Activation::tanh) return vector_tanh(x);
    if constexpr (Kind == Activation::gelu) return x * normal_cdf(x);
    if constexpr (Kind == Activation::silu) return x * vector_sigmoid(x);
}

/// The derivative from what the op saved: the output `s` of relu, sigmoid and tanh, the input of the others.
template <Activation Kind, class A>
A derivative(A s) {
    if constexpr (Kind == Activation::sigmoid) return s * (A(1) - s);
    if constexpr (Kind == Activation::tanh) return A(1) - s * s;
    if constexpr (Kind == Activation::gelu) return normal_cdf(s) + s * normal_density(s);
    if constexpr (Kind == Activation::silu) {
        const A sigmoid = vector_sigmoid(s);
        return sigmoid * (A(1) + s * (A(1) - sigmoid));
    }
}

/// One element of the gradient. Relu selects: its gradient at a zero is 0 whatever arrives.
template <Activation Kind, class A>
A gradient(A grad_output, A saved) {
    if constexpr (Kind == Activation::relu) {
        return saved <= A(0) ? A(0) : grad_output;
    } else {
        return grad_output * derivative<Kind>(saved);
    }
}

/// Carries an `Activation` into a generic lambda.
template <Activation Kind>
struct KindTag {
    static constexpr Activation kind = Kind;
};

template <class Function>
void visit_kind(Activation kind, const Function& function) {
    switch (kind) {
        case Activation::relu:
            return function(KindTag<Activation::relu>{});
        case Activation::sigmoid:
            return function(KindTag<Activation::sigmoid>{});
        case Activation::tanh:
            return function(KindTag<Activation::tanh>{});
        case Activation::gelu:
            return function(KindTag<Activation::gelu>{});
        case Activation::silu:
            return function(KindTag<Activation::silu>{});
    }
}

void forward(Activation kind, const Tensor& x, Tensor& output) {
    visit_floating(x.dtype(), "activation", [&](auto type) {
        using T = typename decltype(type)::type;
        const auto* from = static_cast<const T*>(x.raw_data());
        auto* to = static_cast<T*>(output.raw_data());
        visit_kind(kind, [&](auto tag) {
            parallel_for(x.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                    to[i] = T(activate<decltype(tag)::kind>(Arithmetic<T>(from[i])));
                }
            });
        });
    });
}

void backward(Activation kind, const Tensor& grad_output, const Tensor& saved, Tensor& grad_x) {
    visit_floating(saved.dtype(), "activation", [&](auto type) {
        using T = typename decltype(type)::type;
        const auto* grad = static_cast<const T*>(grad_output.raw_data());
        const auto* kept = static_cast<const T*>(saved.raw_data());
        auto* to = static_cast<T*>(grad_x.raw_data());
        visit_kind(kind, [&](auto tag) {
            parallel_for(saved.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                    to[i] = T(gradient<decltype(tag)::kind>(Arithmetic<T>(grad[i]), Arithmetic<T>(kept[i])));
                }
            });
        });
    });
}

}  // namespace

const ActivationKernels& activation_kernels() {
    static constexpr ActivationKernels kKernels{forward, backward};
    return kKernels;
}

}  // namespace fulcrum::cpu
