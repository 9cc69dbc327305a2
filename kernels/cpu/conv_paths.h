#pragma once

/// \file
/// The ways in which the CPU computes a convolution; `conv.cpp` chooses among them. All take what
/// `Conv2dKernels` promises: checked shapes, dense channels-last activations, dense weights in any order.

#include "core/ops/conv.h"

#include <cstdint>

namespace fulcrum::cpu {

/// The sizes of one convolution, spelled out.
struct ConvSizes {
    std::int64_t n, c, h, w;              ///< input `[N, C, H, W]`
    std::int64_t o, oh, ow;               ///< output `[N, O, OH, OW]`
    std::int64_t kh, kw;                  ///< filter
    std::int64_t groups, ci, co;          ///< channels of one group: `C / groups`, `O / groups`
    std::int64_t sh, sw, ph, pw, dh, dw;  ///< stride, padding, dilation
};

/// Reads the sizes off the tensors.
ConvSizes conv_sizes(const Conv2dParams& params, const Tensor& input, const Tensor& weight,
                     const Tensor& output);

/// Plain loops for f64: the reference that everything else is measured against.
namespace conv_direct {
void forward(const ConvSizes& sizes, const Tensor& input, const Tensor& weight, const Tensor& bias,
             Tensor& output);
void backward_data(const ConvSizes& sizes, const Tensor& grad_output, const Tensor& weight,
                   Tensor& grad_input);
void backward_weight(const ConvSizes& sizes, const Tensor& grad_output, const Tensor& input,
                     Tensor& grad_weight);
}  // namespace conv_direct

/// oneDNN: f32, and bf16 activations with f32 or bf16 weights.
namespace conv_onednn {
void forward(const ConvSizes& sizes, const Tensor& input, const Tensor& weight, const Tensor& bias,
             Tensor& output);
void backward_data(const ConvSizes& sizes, const Tensor& grad_output, const Tensor& weight,
                   Tensor& grad_input);
void backward_weight(const ConvSizes& sizes, const Tensor& grad_output, const Tensor& input,
                     Tensor& grad_weight);
}  // namespace conv_onednn

/// f32 matrix products over single pixels: for images so small that most taps of a filter meet padding.
///
/// In a channels-last batch the same pixel of all images is a matrix `[N, C]` with leading dimension `H * W *
/// C`, and in a tap-major weight each tap is a dense matrix `[C, O]`. So a convolution is one product for
/// each pair of an output pixel and a tap inside the image, without a copy; neighbouring taps of a row join
/// into one product.
namespace conv_gemm {
/// True when the weight is one that this path takes: f32, one group, tap-major.
bool fits(const ConvSizes& sizes, const Tensor& weight);
void forward(const ConvSizes& sizes, const Tensor& input, const Tensor& weight, const Tensor& bias,
             Tensor& output);
void backward_data(const ConvSizes& sizes, const Tensor& grad_output, const Tensor& weight,
                   Tensor& grad_input);
void backward_weight(const ConvSizes& sizes, const Tensor& grad_output, const Tensor& input,
                     Tensor& grad_weight);
}  // namespace conv_gemm

}  // namespace fulcrum::cpu
