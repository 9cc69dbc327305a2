#include "nn/batch_norm.h"

#include "core/autograd.h"
#include "core/error.h"

#include <cmath>
#include <string>

namespace fulcrum::nn {

BatchNorm::BatchNorm(const BatchNormOptions& options, std::int64_t rank) : options_(options), rank_(rank) {
    if (options.features() < 1) {
        throw ValueError("BatchNorm: features is " + std::to_string(options.features()) +
                         " but must be at least 1");
    }
    if (!(options.eps() >= 0.0) || !std::isfinite(options.eps())) {
        throw ValueError("BatchNorm: eps is " + std::to_string(options.eps()) + " but must be at least 0");
    }
    if (!(options.momentum() >= 0.0 && options.momentum() <= 1.0)) {
        throw ValueError("BatchNorm: momentum is " + std::to_string(options.momentum()) +
                         " but must be in [0, 1]");
    }
    const Shape shape{options.features()};
    if (options.affine()) {
        weight_ = register_parameter("weight", ones(shape));
        bias_ = register_parameter("bias", zeros(shape));
    }
    if (options.track_running_stats()) {
        running_mean_ = register_buffer("running_mean", zeros(shape));
        running_var_ = register_buffer("running_var", ones(shape));
        num_batches_tracked_ =
            register_buffer("num_batches_tracked", zeros({}, {.dtype = DType::i64}), false);
    }
}

Tensor BatchNorm::forward(const Tensor& x) {
    return apply(x, {}, false);
}

Tensor BatchNorm::forward_fused(const Tensor& x, const Tensor& residual, bool relu) {
    return traced(x, [&] { return apply(x, residual, relu); });
}

Tensor BatchNorm::apply(const Tensor& x, const Tensor& residual, bool relu) {
    if (x.dim() != rank_) {
        throw ShapeError(type_name() + ": takes " + (rank_ == 4 ? "[N, C, H, W]" : "[N, C]") +
                         " but the input is " + to_string(x.shape()));
    }
    const bool use_batch = is_training() || !options_.track_running_stats();
    const BatchNormParams params{
        .training = use_batch, .momentum = options_.momentum(), .eps = options_.eps(), .relu = relu};
    Tensor output = batch_norm(x, weight_, bias_, running_mean_, running_var_, params, residual);
    if (is_training() && num_batches_tracked_.defined()) {
        if (!one_.defined() || one_.device() != num_batches_tracked_.device())
            one_ = ones({}, {.dtype = DType::i64, .device = num_batches_tracked_.device()});
        num_batches_tracked_.add_(one_);
    }
    return output;
}

}  // namespace fulcrum::nn
