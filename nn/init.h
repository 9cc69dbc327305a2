#pragma once

/// \file
/// Initial values of parameters. Numbers are drawn on the host in row-major order of the logical shape and
/// then copied, so that the same seed gives the same bits on every device and in every memory layout. Each
/// call takes one stream of the generator.

#include "core/random.h"
#include "core/tensor.h"

#include <cstdint>

namespace fulcrum::nn {

/// How a layer draws its weight.
enum class WeightInit : std::uint8_t {
    kaiming_uniform,         ///< uniform within 1 / sqrt(fan_in): PyTorch's default for Conv2d and Linear
    kaiming_normal_fan_out,  ///< normal with deviation sqrt(2 / fan_out): torchvision's for ResNet
                             ///< convolutions
};

/// Inputs that feed one output, and outputs that one input feeds.
struct Fans {
    std::int64_t in = 0, out = 0;
};

/// Fans of a `[out, in]` or `[O, I, KH, KW]` weight: `I * KH * KW` and `O * KH * KW`. \throws ShapeError for
/// a rank below 2.
Fans fans(const Shape& weight);

/// Fills `weight` by `init`. \throws ShapeError for a rank below 2.
void init_weight(const Tensor& weight, WeightInit init, Generator& generator = default_generator());

/// Uniform within `sqrt(6 / ((1 + a^2) * fan_in))` (He et al., 2015, for a leaky ReLU of slope `a`).
/// \throws ShapeError for a rank below 2.
void init_kaiming_uniform(const Tensor& weight, double a, Generator& generator = default_generator());

/// Normal with mean 0 and deviation `sqrt(2 / fan_out)` (He et al., 2015, for a ReLU). \throws ShapeError for
/// a rank below 2.
void init_kaiming_normal_fan_out(const Tensor& weight, Generator& generator = default_generator());

/// Uniform in [low, high).
void init_uniform(const Tensor& tensor, double low, double high, Generator& generator = default_generator());

/// Normal.
void init_normal(const Tensor& tensor, double mean, double deviation,
                 Generator& generator = default_generator());

/// All `value`.
void init_constant(const Tensor& tensor, double value);

}  // namespace fulcrum::nn
