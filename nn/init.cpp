#include "nn/init.h"

#include "core/autograd.h"
#include "core/error.h"

#include <cmath>
#include <string>

namespace fulcrum::nn {

Fans fans(const Shape& weight) {
    if (weight.size() < 2) {
        throw ShapeError("fans: a weight of shape " + to_string(weight) +
                         " has no inputs and outputs; at least two dimensions are needed");
    }
    std::int64_t taps = 1;
    for (std::size_t i = 2; i < weight.size(); ++i)
        taps *= weight[i];
    return {weight[1] * taps, weight[0] * taps};
}

void init_weight(const Tensor& weight, WeightInit init, Generator& generator) {
    switch (init) {
        case WeightInit::kaiming_uniform:
            // With this slope the bound is 1 / sqrt(fan_in).
            return init_kaiming_uniform(weight, std::sqrt(5.0), generator);
        case WeightInit::kaiming_normal_fan_out:
            return init_kaiming_normal_fan_out(weight, generator);
    }
}

void init_kaiming_uniform(const Tensor& weight, double a, Generator& generator) {
    const auto fan_in = static_cast<double>(fans(weight.shape()).in);
    const double bound = fan_in > 0.0 ? std::sqrt(6.0 / ((1.0 + a * a) * fan_in)) : 0.0;
    init_uniform(weight, -bound, bound, generator);
}

void init_kaiming_normal_fan_out(const Tensor& weight, Generator& generator) {
    const auto fan_out = static_cast<double>(fans(weight.shape()).out);
    init_normal(weight, 0.0, fan_out > 0.0 ? std::sqrt(2.0 / fan_out) : 0.0, generator);
}

void init_uniform(const Tensor& tensor, double low, double high, Generator& generator) {
    const NoGradGuard no_grad;
    tensor.copy_(uniform(tensor.shape(), low, high, {.dtype = tensor.dtype()}, generator));
}

void init_normal(const Tensor& tensor, double mean, double deviation, Generator& generator) {
    const NoGradGuard no_grad;
    tensor.copy_(normal(tensor.shape(), mean, deviation, {.dtype = tensor.dtype()}, generator));
}

void init_constant(const Tensor& tensor, double value) {
    const NoGradGuard no_grad;
    tensor.fill_(value);
}

}  // namespace fulcrum::nn
