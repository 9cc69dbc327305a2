#include "nn/optim/clip.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/ops/binary.h"
#include "core/ops/reduce.h"

#include <cmath>
#include <string>
#include <unordered_set>
#include <vector>

namespace fulcrum::optim {

namespace {

/// The Euclidean norm; squares that overflow or vanish in f32 are taken in f64.
double norm_of(const Tensor& gradient) {
    const double squares = sum(mul(gradient, gradient)).item();
    constexpr double kSmallest = 1e-30;
    if (gradient.dtype() == DType::f64 || (std::isfinite(squares) && squares > kSmallest)) {
        return std::sqrt(squares);
    }
    const Tensor wide = gradient.to(DType::f64);
    return std::sqrt(sum(mul(wide, wide)).item());
}

/// Each tensor once, as a shared parameter has one gradient.
std::vector<Tensor> gradients_of(std::span<const Tensor> parameters) {
    std::vector<Tensor> gradients;
    std::unordered_set<const autograd::Meta*> seen;
    for (const Tensor& parameter : parameters) {
        const Tensor gradient = parameter.grad();
        if (gradient.defined() && seen.insert(parameter.autograd_meta()).second)
            gradients.push_back(gradient);
    }
    return gradients;
}

}  // namespace

double clip_grad_norm(std::span<const Tensor> parameters, double max_norm) {
    if (!(max_norm > 0.0))
        throw ValueError("clip_grad_norm: max_norm is " + std::to_string(max_norm) + " but must be above 0");
    const NoGradGuard no_grad;
    double squares = 0.0;
    const std::vector<Tensor> gradients = gradients_of(parameters);
    for (const Tensor& gradient : gradients) {
        const double norm = norm_of(gradient);
        squares += norm * norm;
    }
    const double norm = std::sqrt(squares);
    if (std::isfinite(norm) && norm > max_norm) {
        for (const Tensor& gradient : gradients)
            gradient.mul_(max_norm / norm);
    }
    return norm;
}

}  // namespace fulcrum::optim
