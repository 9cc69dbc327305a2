#include "nn/optim/sgd.h"

#include "core/backend.h"
#include "core/error.h"
#include "nn/optim/check.h"

namespace fulcrum::optim {
namespace {

const SgdOptions& checked(const SgdOptions& options) {
    detail::check_not_negative("sgd", "lr", options.lr);
    detail::check_below_one("sgd", "momentum", options.momentum);
    detail::check_fraction("sgd", "dampening", options.dampening);
    detail::check_not_negative("sgd", "weight_decay", options.weight_decay);
    if (options.nesterov && (options.momentum == 0.0 || options.dampening != 0.0))
        throw ValueError("sgd: nesterov needs a momentum above 0 and a dampening of 0");
    return options;
}

}  // namespace

SGD::SGD(const ParameterList& parameters, const SgdOptions& options)
    : Optimizer("sgd", (checked(options), parameters), {"momentum_buffer"}, false), options_(options) {}

void SGD::set_lr(double value) {
    detail::check_not_negative("sgd", "lr", value);
    options_.lr = value;
}

void SGD::set_momentum(double value) {
    SgdOptions changed = options_;
    changed.momentum = value;
    options_ = checked(changed);
}

void SGD::update(std::int64_t /*step*/, Device device, std::span<OptimizerSlice> slices) {
    const SgdParams params{.lr = options_.lr,
                           .momentum = options_.momentum,
                           .dampening = options_.dampening,
                           .weight_decay = options_.weight_decay,
                           .nesterov = options_.nesterov};
    kernels<OptimizerKernels>(device).sgd(params, slices);
}

Optimizer::Settings SGD::settings() const {
    return {{"lr", options_.lr},
            {"momentum", options_.momentum},
            {"dampening", options_.dampening},
            {"weight_decay", options_.weight_decay},
            {"nesterov", options_.nesterov ? 1.0 : 0.0}};
}

void SGD::set_settings(std::span<const double> values) {
    options_ = checked({.lr = values[0],
                        .momentum = values[1],
                        .dampening = values[2],
                        .weight_decay = values[3],
                        .nesterov = values[4] != 0.0});
}

}  // namespace fulcrum::optim
