#include "core/ops/conv.h"

#include "core/implementation.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/conv_paths.h"
#include "kernels/cpu/onednn.h"

namespace fulcrum::cpu {

ConvSizes conv_sizes(const Conv2dParams& params, const Tensor& input, const Tensor& weight,
                     const Tensor& output) {
    const Shape& in = input.shape();
    const Shape& filter = weight.shape();
    const Shape& out = output.shape();
    return {.n = in[0],
            .c = in[1],
            .h = in[2],
            .w = in[3],
            .o = out[1],
            .oh = out[2],
            .ow = out[3],
            .kh = filter[2],
            .kw = filter[3],
            .groups = params.groups,
            .ci = in[1] / params.groups,
            .co = out[1] / params.groups,
            .sh = params.stride[0],
            .sw = params.stride[1],
            .ph = params.padding[0],
            .pw = params.padding[1],
            .dh = params.dilation[0],
            .dw = params.dilation[1]};
}

namespace {

/// The ways to compute a convolution.
enum class Path : std::uint8_t {
    direct,   ///< plain loops
    onednn,   ///< oneDNN's convolution
    gemm,     ///< f32 matrix products over single pixels
    widened,  ///< in f32, by the path that suits it, between conversions
};

enum class Pass : std::uint8_t { forward, backward_data, backward_weight };

// Measured on a Zen 4 core with batches of 1 to 128, in GFLOP/s of the products inside the image, where sgemm
// reaches 90 to 110. In f32 a 3x3 filter over 2x2 pixels makes 46, 61 and 36 in oneDNN's three passes, over
// one pixel 18, 17 and 5; from 4x4 pixels on the two draw level going forwards, but oneDNN's weight gradient
// stays at 50 to 75 up to there, and it loses to one tall product on every 1x1 filter. Its input gradient is
// as good as ours beyond 2x2 pixels. In bf16 oneDNN reaches 200 on large images, but 66, 105 and 48 on 2x2
// pixels and 12, 16 and 7 on one, so that f32 products are faster there, with two small conversions.
constexpr std::int64_t kSmallOutput = 16;
constexpr std::int64_t kTinyOutput = 4;

Path choose(Pass pass, const ConvSizes& s, DType activation, const Tensor& weight) {
    if (activation == DType::f64) return Path::direct;
    const std::int64_t pixels = s.oh * s.ow;
    const bool product = conv_gemm::fits(s, weight);
    const bool one_tap = s.kh == 1 && s.kw == 1;
    if (activation == DType::f32) {
        const bool tall = one_tap && s.sh == 1 && s.sw == 1 && s.ph == 0 && s.pw == 0;
        const bool better =
            pass == Pass::backward_data ? pixels <= kTinyOutput : tall || pixels <= kSmallOutput;
        return product && better ? Path::gemm : Path::onednn;
    }
    if (activation == DType::f16 || !onednn::has_fast_bf16()) return Path::widened;
    const bool better = pixels == 1 || (pass != Pass::backward_data && pixels <= kTinyOutput && !one_tap);
    return product && better ? Path::widened : Path::onednn;
}

/// Notes the path for reports, and hands it on; oneDNN's adds which of its own ways it takes, and what is
/// widened notes the path that computes it.
Path noted(Path path) {
    if (path == Path::direct) note_implementation("plain loops");
    if (path == Path::gemm) note_implementation("products over pixels");
    return path;
}

/// `tensor` in f32 with the same layout; itself when it is f32 already or undefined.
Tensor as_f32(const Tensor& tensor) {
    if (!tensor.defined() || tensor.dtype() == DType::f32) return tensor;
    Tensor result = empty_like(tensor, DType::f32);
    copy_kernels().copy(tensor, result);
    return result;
}

/// Calls `compute` with an f32 tensor in place of `result` and converts what it wrote.
template <class Compute>
void with_f32_result(Tensor& result, const Compute& compute) {
    if (result.dtype() == DType::f32) {
        compute(result);
        return;
    }
    Tensor wide = empty_like(result, DType::f32);
    compute(wide);
    copy_kernels().copy(wide, result);
}

void forward(const Conv2dParams& params, const Tensor& input, const Tensor& weight, const Tensor& bias,
             Tensor& output) {
    const ConvSizes sizes = conv_sizes(params, input, weight, output);
    switch (noted(choose(Pass::forward, sizes, input.dtype(), weight))) {
        case Path::direct:
            return conv_direct::forward(sizes, input, weight, bias, output);
        case Path::onednn:
            return conv_onednn::forward(sizes, input, weight, bias, output);
        case Path::gemm:
            return conv_gemm::forward(sizes, input, weight, bias, output);
        case Path::widened:
            break;
    }
    with_f32_result(
        output, [&](Tensor& wide) { forward(params, as_f32(input), as_f32(weight), as_f32(bias), wide); });
}

void backward_data(const Conv2dParams& params, const Tensor& grad_output, const Tensor& weight,
                   Tensor& grad_input) {
    const ConvSizes sizes = conv_sizes(params, grad_input, weight, grad_output);
    switch (noted(choose(Pass::backward_data, sizes, grad_output.dtype(), weight))) {
        case Path::direct:
            return conv_direct::backward_data(sizes, grad_output, weight, grad_input);
        case Path::onednn:
            return conv_onednn::backward_data(sizes, grad_output, weight, grad_input);
        case Path::gemm:
            return conv_gemm::backward_data(sizes, grad_output, weight, grad_input);
        case Path::widened:
            break;
    }
    with_f32_result(grad_input,
                    [&](Tensor& wide) { backward_data(params, as_f32(grad_output), as_f32(weight), wide); });
}

/// Sums over images and pixels into `grad_bias`.
void backward_bias(const Tensor& grad_output, Tensor& grad_bias) {
    const std::int64_t channels = grad_output.size(1);
    const std::int64_t pixels = grad_output.numel() / channels;
    visit_floating(grad_output.dtype(), "conv2d", [&](auto from) {
        visit_floating(grad_bias.dtype(), "conv2d", [&](auto to) {
            using From = typename decltype(from)::type;
            using To = typename decltype(to)::type;
            column_sums(grad_output.data<From>(), pixels, channels, grad_bias.data<To>());
        });
    });
}

void backward_weight(const Conv2dParams& params, const Tensor& grad_output, const Tensor& input,
                     Tensor& grad_weight, Tensor& grad_bias) {
    if (grad_bias.defined()) backward_bias(grad_output, grad_bias);
    const ConvSizes sizes = conv_sizes(params, input, grad_weight, grad_output);
    switch (noted(choose(Pass::backward_weight, sizes, input.dtype(), grad_weight))) {
        case Path::direct:
            return conv_direct::backward_weight(sizes, grad_output, input, grad_weight);
        case Path::onednn:
            return conv_onednn::backward_weight(sizes, grad_output, input, grad_weight);
        case Path::gemm:
            return conv_gemm::backward_weight(sizes, grad_output, input, grad_weight);
        case Path::widened:
            break;
    }
    with_f32_result(grad_weight, [&](Tensor& wide) {
        Tensor no_bias;
        backward_weight(params, as_f32(grad_output), as_f32(input), wide, no_bias);
    });
}

}  // namespace

const Conv2dKernels& conv2d_kernels() {
    static constexpr Conv2dKernels kKernels{
        .forward = forward, .backward_data = backward_data, .backward_weight = backward_weight};
    return kKernels;
}

}  // namespace fulcrum::cpu
