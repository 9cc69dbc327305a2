#include "nn/optim/adam.h"

#include "core/backend.h"
#include "nn/optim/check.h"

namespace fulcrum::optim {
namespace {

const AdamOptions& checked(const char* name, const AdamOptions& options) {
    detail::check_not_negative(name, "lr", options.lr);
    detail::check_below_one(name, "beta1", options.beta1);
    detail::check_below_one(name, "beta2", options.beta2);
    detail::check_not_negative(name, "eps", options.eps);
    detail::check_not_negative(name, "weight_decay", options.weight_decay);
    return options;
}

}  // namespace

Adam::Adam(const char* name, const ParameterList& parameters, const AdamOptions& options, bool decoupled)
    : Optimizer(name, (checked(name, options), parameters), {"exp_avg", "exp_avg_sq"}, true),
      options_(options),
      decoupled_(decoupled) {}

Adam::Adam(const ParameterList& parameters, const AdamOptions& options)
    : Adam("adam", parameters, options, false) {}

AdamW::AdamW(const ParameterList& parameters, const AdamOptions& options)
    : Adam("adamw", parameters, options, true) {}

void Adam::set_lr(double value) {
    detail::check_not_negative(name().c_str(), "lr", value);
    options_.lr = value;
}

void Adam::set_momentum(double value) {
    detail::check_below_one(name().c_str(), "beta1", value);
    options_.beta1 = value;
}

void Adam::update(std::int64_t step, Device device, std::span<OptimizerSlice> slices) {
    const AdamParams params{.lr = options_.lr,
                            .beta1 = options_.beta1,
                            .beta2 = options_.beta2,
                            .eps = options_.eps,
                            .weight_decay = options_.weight_decay,
                            .decoupled = decoupled_,
                            .step = step};
    kernels<OptimizerKernels>(device).adam(params, slices);
}

Optimizer::Settings Adam::settings() const {
    return {{"lr", options_.lr},
            {"beta1", options_.beta1},
            {"beta2", options_.beta2},
            {"eps", options_.eps},
            {"weight_decay", options_.weight_decay}};
}

void Adam::set_settings(std::span<const double> values) {
    options_ = checked(name().c_str(), {.lr = values[0],
                                        .beta1 = values[1],
                                        .beta2 = values[2],
                                        .eps = values[3],
                                        .weight_decay = values[4]});
}

}  // namespace fulcrum::optim
