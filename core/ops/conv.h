#pragma once

/// \file
/// Two-dimensional convolution (cross-correlation, as the field calls it).

#include "core/backend.h"
#include "core/tensor.h"

#include <array>
#include <cstdint>

namespace fulcrum {

/// Geometry of a convolution; each pair is (height, width).
struct Conv2dParams {
    std::array<std::int64_t, 2> stride{1, 1};
    std::array<std::int64_t, 2> padding{0, 0};  ///< zeros on both sides, up to 4095
    std::array<std::int64_t, 2> dilation{1, 1};
    std::int64_t groups = 1;
};

/// `out[n, o, y, x] = bias[o] + sum over i, r, s of input[n, i, y*stride + r*dilation - padding, ...] *
/// weight[o, i, r, s]`. \param input `[N, C, H, W]`, f64, f32, bf16 or f16; brought to channels-last when it
/// is not. \param weight `[O, C / groups, KH, KW]`, any dense layout; the input's dtype, or f32 with a 16-bit
/// input (the usual
///        way of training in bf16: master weights stay f32, and so does their gradient).
/// \param bias `[O]` with the weight's dtype, or undefined.
/// \return `[N, O, OH, OW]`, channels-last, the input's dtype.
/// \throws ShapeError, DTypeError, ValueError (stride or dilation below 1, negative padding, groups that do
/// not divide).
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              const Conv2dParams& params = {});

/// Output shape `[N, O, OH, OW]` of `conv2d`, with all of its checks.
Shape conv2d_output_shape(const Shape& input, const Shape& weight, const Conv2dParams& params);

/// What a device supplies for `conv2d`. Shapes are checked and never empty; activations and their gradients
/// are dense channels-last; weights and their gradients are dense in any order of the dimensions. Core
/// allocates all results.
struct Conv2dKernels {
    static constexpr const char* family = "conv2d";

    /// Writes `output` from `input`, `weight` and `bias` (may be undefined).
    void (*forward)(const Conv2dParams& params, const Tensor& input, const Tensor& weight, const Tensor& bias,
                    Tensor& output);
    /// Writes the gradient of the input.
    void (*backward_data)(const Conv2dParams& params, const Tensor& grad_output, const Tensor& weight,
                          Tensor& grad_input);
    /// Writes (does not add) the gradient of the weight and, when defined, of the bias.
    void (*backward_weight)(const Conv2dParams& params, const Tensor& grad_output, const Tensor& input,
                            Tensor& grad_weight, Tensor& grad_bias);
};

}  // namespace fulcrum
