#include "core/ops/optimizer.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/parallel.h"

#include <cmath>
#include <cstdint>

// One pass over each slice. The coefficients are worked out in double and rounded once to the slice's type.

namespace fulcrum::cpu {
namespace {

/// Elements that are worth a thread.
constexpr std::int64_t kGrain = 8192;

template <class T>
struct SgdCoefficients {
    explicit SgdCoefficients(const SgdParams& params)
        : lr(static_cast<T>(params.lr)),
          momentum(static_cast<T>(params.momentum)),
          fresh(static_cast<T>(1.0 - params.dampening)),
          decay(static_cast<T>(params.weight_decay)) {}

    T lr, momentum, fresh, decay;
};

/// What happens to the velocity.
enum class Velocity : std::uint8_t { none, first, update };

template <class T, Velocity kVelocity, bool kNesterov, bool kDecay>
void sgd_range(const SgdCoefficients<T>& k, const T* grad, T* velocity, T* param, std::int64_t begin,
               std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
        T g = grad[i];
        // Without decay the parameter is not touched: 0 times infinity would be NaN.
        if constexpr (kDecay) g += k.decay * param[i];
        T step = g;
        if constexpr (kVelocity != Velocity::none) {
            const T v = kVelocity == Velocity::first ? g : k.momentum * velocity[i] + k.fresh * g;
            velocity[i] = v;
            step = kNesterov ? g + k.momentum * v : v;
        }
        param[i] -= k.lr * step;
    }
}

template <class T, Velocity kVelocity, bool kNesterov>
auto sgd_with_decay(bool decay) {
    return decay ? sgd_range<T, kVelocity, kNesterov, true> : sgd_range<T, kVelocity, kNesterov, false>;
}

template <class T>
auto choose_sgd(const SgdParams& params, bool first_step) {
    const bool decay = params.weight_decay != 0.0;
    if (params.momentum == 0.0) return sgd_with_decay<T, Velocity::none, false>(decay);
    if (first_step) {
        return params.nesterov ? sgd_with_decay<T, Velocity::first, true>(decay)
                               : sgd_with_decay<T, Velocity::first, false>(decay);
    }
    return params.nesterov ? sgd_with_decay<T, Velocity::update, true>(decay)
                           : sgd_with_decay<T, Velocity::update, false>(decay);
}

/// Elements of `tensor`, null when undefined.
template <class T>
T* data_or_null(const Tensor& tensor) {
    return tensor.defined() ? tensor.data<T>() : nullptr;
}

template <class T>
void sgd_slice(const SgdParams& params, const OptimizerSlice& slice) {
    const SgdCoefficients<T> coefficients(params);
    const auto range = choose_sgd<T>(params, slice.first_step);
    const T* grad = slice.grad.data<T>();
    T* velocity = data_or_null<T>(slice.state1);
    T* param = slice.param.data<T>();
    parallel_for(slice.param.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        range(coefficients, grad, velocity, param, begin, end);
    });
}

template <class T>
struct AdamCoefficients {
    explicit AdamCoefficients(const AdamParams& params) {
        const double steps = static_cast<double>(params.step);
        const double correction1 = 1.0 - std::pow(params.beta1, steps);
        const double correction2 = 1.0 - std::pow(params.beta2, steps);
        beta1 = static_cast<T>(params.beta1);
        fresh1 = static_cast<T>(1.0 - params.beta1);
        beta2 = static_cast<T>(params.beta2);
        fresh2 = static_cast<T>(1.0 - params.beta2);
        lr = static_cast<T>(params.lr / correction1);
        root_scale = static_cast<T>(1.0 / std::sqrt(correction2));
        eps = static_cast<T>(params.eps);
        decay = static_cast<T>(params.weight_decay);
        keep = static_cast<T>(1.0 - params.lr * params.weight_decay);
    }

    T beta1, fresh1, beta2, fresh2;
    T lr;          ///< with the first moment's bias correction
    T root_scale;  ///< the second moment's
    T eps;
    T decay;  ///< added to the gradient
    T keep;   ///< what decoupled decay leaves of a parameter
};

/// Where the weight decay acts.
enum class Decay : std::uint8_t { none, gradient, decoupled };

template <class T, Decay kDecay>
void adam_range(const AdamCoefficients<T>& k, const T* grad, T* first, T* second, T* param,
                std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
        T p = param[i];
        T g = grad[i];
        if constexpr (kDecay == Decay::gradient) g += k.decay * p;
        if constexpr (kDecay == Decay::decoupled) p *= k.keep;
        const T m = k.beta1 * first[i] + k.fresh1 * g;
        const T v = k.beta2 * second[i] + k.fresh2 * g * g;
        first[i] = m;
        second[i] = v;
        param[i] = p - k.lr * m / (std::sqrt(v) * k.root_scale + k.eps);
    }
}

template <class T>
void adam_slice(const AdamParams& params, const OptimizerSlice& slice) {
    const AdamCoefficients<T> coefficients(params);
    const auto range = params.weight_decay == 0.0 ? adam_range<T, Decay::none>
                       : params.decoupled         ? adam_range<T, Decay::decoupled>
                                                  : adam_range<T, Decay::gradient>;
    const T* grad = slice.grad.data<T>();
    T* first = slice.state1.data<T>();
    T* second = slice.state2.data<T>();
    T* param = slice.param.data<T>();
    parallel_for(slice.param.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        range(coefficients, grad, first, second, param, begin, end);
    });
}

void sgd(const SgdParams& params, std::span<OptimizerSlice> slices) {
    for (const OptimizerSlice& slice : slices) {
        if (slice.param.dtype() == DType::f64) {
            sgd_slice<double>(params, slice);
        } else {
            sgd_slice<float>(params, slice);
        }
    }
}

void adam(const AdamParams& params, std::span<OptimizerSlice> slices) {
    for (const OptimizerSlice& slice : slices) {
        if (slice.param.dtype() == DType::f64) {
            adam_slice<double>(params, slice);
        } else {
            adam_slice<float>(params, slice);
        }
    }
}

}  // namespace

const OptimizerKernels& optimizer_kernels() {
    static constexpr OptimizerKernels kernels{sgd, adam};
    return kernels;
}

}  // namespace fulcrum::cpu
