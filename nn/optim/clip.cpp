#include "nn/optim/clip.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/ops/binary.h"
#include "core/ops/reduce.h"

#include <cmath>
#include <string>

namespace fulcrum::optim {

double clip_grad_norm(std::span<const Tensor> parameters, double max_norm) {
    if (!(max_norm > 0.0))
        throw ValueError("clip_grad_norm: max_norm is " + std::to_string(max_norm) + " but must be above 0");
    const NoGradGuard no_grad;
    double squares = 0.0;
    for (const Tensor& parameter : parameters) {
        if (const Tensor gradient = parameter.grad(); gradient.defined()) {
            const double norm = std::sqrt(sum(mul(gradient, gradient)).item());
            squares += norm * norm;
        }
    }
    const double norm = std::sqrt(squares);
    if (std::isfinite(norm) && norm > max_norm) {
        for (const Tensor& parameter : parameters) {
            if (const Tensor gradient = parameter.grad(); gradient.defined()) gradient.mul_(max_norm / norm);
        }
    }
    return norm;
}

}  // namespace fulcrum::optim
