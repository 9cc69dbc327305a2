#include "core/ops/conv.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/ops/check.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

#include <limits>
#include <string>
#include <utility>

namespace fulcrum {

namespace {

constexpr const char* kOp = "conv2d";
// Sizes and parameters stay below 2^31, so that the products and sums of the geometry fit 64 bits.
constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
// oneDNN's time grows with the padding that a dilated filter spans: minutes at 2^16, hours at 2^30.
constexpr std::int64_t kLargestReach = 4'095;

std::string pair_text(const std::array<std::int64_t, 2>& pair) {
    return "[" + std::to_string(pair[0]) + ", " + std::to_string(pair[1]) + "]";
}

void check_range(const std::array<std::int64_t, 2>& pair, std::int64_t least, std::int64_t most,
                 const char* name) {
    for (const std::int64_t value : pair) {
        if (value < least || value > most) {
            throw ValueError(std::string(kOp) + ": " + name + " " + pair_text(pair) + " must be from " +
                             std::to_string(least) + " to " + std::to_string(most));
        }
    }
}

void check_params(const Shape& input, const Shape& weight, const Conv2dParams& params) {
    if (input.size() != 4) {
        throw ShapeError(std::string(kOp) + ": input " + to_string(input) + " must be 4-D [N, C, H, W]");
    }
    if (weight.size() != 4) {
        throw ShapeError(std::string(kOp) + ": weight " + to_string(weight) +
                         " must be 4-D [O, C / groups, KH, KW]");
    }
    check_range(params.stride, 1, kLargest, "stride");
    check_range(params.padding, 0, kLargestReach, "padding");
    check_range(params.dilation, 1, kLargestReach, "dilation");
    if (params.groups < 1) {
        throw ValueError(std::string(kOp) + ": groups must be at least 1, not " +
                         std::to_string(params.groups));
    }
    if (input[1] % params.groups != 0 || weight[0] % params.groups != 0) {
        throw ValueError(std::string(kOp) + ": groups " + std::to_string(params.groups) +
                         " must divide the " + std::to_string(input[1]) + " input channels and the " +
                         std::to_string(weight[0]) + " output channels");
    }
    // Divided, not multiplied: a hostile weight shape must not overflow.
    if (weight[1] != input[1] / params.groups) {
        std::string message = std::string(kOp) + ": input has " + std::to_string(input[1]) +
                              " channels but weight " + to_string(weight) + " expects " +
                              std::to_string(weight[1]);
        if (params.groups > 1) message += " in each of " + std::to_string(params.groups) + " groups";
        throw ShapeError(message);
    }
    for (const std::size_t d : {2U, 3U}) {
        if (weight[d] < 1 || weight[d] > kLargest || input[d] > kLargest) {
            throw ShapeError(std::string(kOp) + ": height and width of weight " + to_string(weight) +
                             " must be from 1 and those of input " + to_string(input) + " from 0 to " +
                             std::to_string(kLargest));
        }
    }
}

void check_operands(const Tensor& input, const Tensor& weight, const Tensor& bias) {
    detail::check_defined(kOp, "input", input);
    detail::check_defined(kOp, "weight", weight);
    detail::check_floating(kOp, "input", input);
    const bool half = input.dtype() == DType::bf16 || input.dtype() == DType::f16;
    // Master weights stay f32 beside 16-bit activations.
    if (!(half && weight.dtype() == DType::f32)) {
        detail::check_same_dtype(kOp, "input", input, "weight", weight);
    }
    detail::check_same_device(kOp, "input", input, "weight", weight);
    if (!bias.defined()) return;
    detail::check_same_dtype(kOp, "weight", weight, "bias", bias);
    detail::check_same_device(kOp, "input", input, "bias", bias);
    if (bias.shape() != Shape{weight.size(0)}) {
        throw ShapeError(std::string(kOp) + ": bias " + to_string(bias.shape()) + " must be [" +
                         std::to_string(weight.size(0)) + "], one value for each output channel of weight " +
                         to_string(weight.shape()));
    }
}

Tensor channels_last(const Tensor& x) {
    return x.detach().contiguous(MemoryFormat::channels_last);
}

/// The backward pass of `conv2d`. Saved are the input (channels-last), the weight and the bias.
void backward(const Conv2dParams& params, autograd::BackwardContext& context) {
    const Tensor& input = context.saved(0);
    const Tensor& weight = context.saved(1);
    const Tensor& bias = context.saved(2);
    const Tensor grad = channels_last(context.grad());
    const bool empty_product = input.numel() == 0 || weight.numel() == 0 || grad.numel() == 0;
    const auto& device = kernels<Conv2dKernels>(input.device());
    if (context.needs(0)) {
        Tensor grad_input = context.grad_buffer(0, input);
        if (empty_product) {
            grad_input.zero_();
        } else {
            device.backward_data(params, grad, weight, grad_input);
        }
        context.set_grad(0, std::move(grad_input));
    }
    Tensor grad_bias;
    if (context.needs(2)) grad_bias = context.grad_buffer(2, bias);
    if (context.needs(1)) {
        Tensor grad_weight = context.grad_buffer(1, weight);
        if (empty_product) {
            grad_weight.zero_();
        } else {
            device.backward_weight(params, grad, input, grad_weight, grad_bias);
        }
        context.set_grad(1, std::move(grad_weight));
    }
    if (context.needs(2)) {
        // The kernel that writes the weight's gradient has written this one in passing.
        if (!context.needs(1) || empty_product) grad_bias.copy_(sum(grad.to(bias.dtype()), {0, 2, 3}));
        context.set_grad(2, std::move(grad_bias));
    }
}

}  // namespace

Shape conv2d_output_shape(const Shape& input, const Shape& weight, const Conv2dParams& params) {
    check_params(input, weight, params);
    Shape output{input[0], weight[0]};
    for (std::size_t d = 0; d < 2; ++d) {
        const std::int64_t padded = input[d + 2] + 2 * params.padding[d];
        const std::int64_t extent = params.dilation[d] * (weight[d + 2] - 1) + 1;
        // The vendors' libraries count pixels of the padded image in 32 bits.
        if (padded > kLargest) {
            throw ShapeError(std::string(kOp) + ": input " + to_string(input) + " with padding " +
                             pair_text(params.padding) + " has " + std::to_string(padded) +
                             (d == 0 ? " rows" : " columns") + "; it may have at most " +
                             std::to_string(kLargest));
        }
        if (extent > padded) {
            throw ShapeError(std::string(kOp) + ": the filter of weight " + to_string(weight) + " spans " +
                             std::to_string(extent) + (d == 0 ? " rows" : " columns") + " with dilation " +
                             pair_text(params.dilation) + ", but input " + to_string(input) + " has only " +
                             std::to_string(padded) + " with padding " + pair_text(params.padding));
        }
        output.push_back((padded - extent) / params.stride[d] + 1);
    }
    element_count(output);
    return output;
}

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Conv2dParams& params) {
    check_operands(input, weight, bias);
    const Shape shape = conv2d_output_shape(input.shape(), weight.shape(), params);
    const Tensor x = channels_last(input);
    // A dense layout of the caller's is kept: the gradient is written in the same one.
    const Tensor w = weight.is_dense() ? weight.detach() : weight.detach().contiguous();
    const Tensor b = bias.defined() ? bias.detach().contiguous() : Tensor();
    Tensor output =
        empty(shape, {.dtype = x.dtype(), .device = x.device(), .format = MemoryFormat::channels_last});
    if (x.numel() > 0 && w.numel() > 0 && output.numel() > 0) {
        kernels<Conv2dKernels>(x.device()).forward(params, x, w, b, output);
    } else if (b.defined()) {
        output.copy_(reshape(b, {1, shape[1], 1, 1}));
    } else {
        output.zero_();
    }
    return autograd::record(kOp, output, {input, weight, bias}, {x, w, b},
                            [params](autograd::BackwardContext& context) { backward(params, context); });
}

}  // namespace fulcrum
