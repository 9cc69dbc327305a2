#include "core/ops/pool.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/ops/check.h"

#include <limits>
#include <string>
#include <utility>

namespace fulcrum {

namespace {

// Sizes and parameters stay below 2^31, so that the sums and products of the geometry fit 64 bits.
constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
// The largest window whose positions fit a u8, one value being left for "no winner".
constexpr std::int64_t kByteWindow = 255;

std::string pair_text(const std::array<std::int64_t, 2>& pair) {
    return "[" + std::to_string(pair[0]) + ", " + std::to_string(pair[1]) + "]";
}

void check_range(const char* op, const std::array<std::int64_t, 2>& pair, std::int64_t least,
                 const char* name) {
    for (const std::int64_t value : pair) {
        if (value < least || value > kLargest) {
            throw ValueError(std::string(op) + ": " + name + " " + pair_text(pair) + " must be from " +
                             std::to_string(least) + " to " + std::to_string(kLargest));
        }
    }
}

void check_images(const char* op, const Shape& shape) {
    if (shape.size() != 4) {
        throw ShapeError(std::string(op) + ": x " + to_string(shape) + " must be 4-D [N, C, H, W]");
    }
    if (shape[2] < 1 || shape[3] < 1 || shape[2] > kLargest || shape[3] > kLargest) {
        throw ShapeError(std::string(op) + ": height and width of x " + to_string(shape) +
                         " must be from 1 to " + std::to_string(kLargest));
    }
}

void check_input(const char* op, const Tensor& x) {
    detail::check_defined(op, "x", x);
    detail::check_floating(op, "x", x);
    check_images(op, x.shape());
}

Tensor channels_last(const Tensor& x) {
    return x.detach().contiguous(MemoryFormat::channels_last);
}

Tensor empty_images(const Shape& shape, const Tensor& like, DType dtype) {
    return empty(shape, {.dtype = dtype, .device = like.device(), .format = MemoryFormat::channels_last});
}

Shape output_shape(const Shape& input, const std::array<std::int64_t, 2>& size) {
    Shape shape{input[0], input[1], size[0], size[1]};
    element_count(shape);
    return shape;
}

/// Records a pooling op whose backward needs only the gradient: `compute(grad, grad_x)` writes the gradient
/// of x.
template <class Compute>
Tensor record_pool(const char* op, Tensor output, const Tensor& x, Compute compute) {
    return autograd::record(
        op, std::move(output), {x}, {},
        [compute = std::move(compute), shape = x.shape()](autograd::BackwardContext& context) {
            const Tensor grad = channels_last(context.grad());
            Tensor grad_x = empty_images(shape, grad, grad.dtype());
            if (grad_x.numel() > 0) compute(grad, grad_x);
            context.set_grad(0, std::move(grad_x));
        });
}

}  // namespace

std::array<std::int64_t, 2> pool2d_output_size(const Shape& input, const Pool2dParams& params,
                                               const char* op) {
    check_images(op, input);
    check_range(op, params.kernel, 1, "kernel");
    check_range(op, params.stride, 1, "stride");
    check_range(op, params.padding, 0, "padding");
    check_range(op, params.dilation, 1, "dilation");
    std::array<std::int64_t, 2> size{};
    for (std::size_t d = 0; d < 2; ++d) {
        if (params.padding[d] > params.kernel[d] / 2) {
            throw ValueError(std::string(op) + ": padding " + pair_text(params.padding) +
                             " must be at most half of kernel " + pair_text(params.kernel));
        }
        const std::int64_t padded = input[d + 2] + 2 * params.padding[d];
        const std::int64_t extent = params.dilation[d] * (params.kernel[d] - 1) + 1;
        if (extent > padded) {
            throw ShapeError(std::string(op) + ": kernel " + pair_text(params.kernel) + " with dilation " +
                             pair_text(params.dilation) + " spans " + std::to_string(extent) +
                             (d == 0 ? " rows" : " columns") + ", but x " + to_string(input) + " has only " +
                             std::to_string(padded) + " with padding " + pair_text(params.padding));
        }
        const std::int64_t room = padded - extent;
        const std::int64_t stride = params.stride[d];
        size[d] = (params.ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
        // The last window must start inside the image or the near padding.
        if ((size[d] - 1) * stride >= input[d + 2] + params.padding[d]) --size[d];
    }
    return size;
}

Tensor max_pool2d(const Tensor& x, const Pool2dParams& params) {
    constexpr const char* kOp = "max_pool2d";
    check_input(kOp, x);
    const Shape shape = output_shape(x.shape(), pool2d_output_size(x.shape(), params, kOp));
    if (params.kernel[0] * params.kernel[1] > kLargest) {
        throw ValueError(std::string(kOp) + ": kernel " + pair_text(params.kernel) + " must have at most " +
                         std::to_string(kLargest) + " elements");
    }
    Tensor output = empty_images(shape, x, x.dtype());
    Tensor positions;
    if (autograd::should_record({x})) {
        const bool byte = params.kernel[0] * params.kernel[1] <= kByteWindow;
        positions = empty_images(shape, x, byte ? DType::u8 : DType::i32);
    }
    if (output.numel() > 0) {
        kernels<Pool2dKernels>(x.device()).max_forward(params, channels_last(x), output, positions);
    }
    return record_pool(kOp, output, x, [params, positions](const Tensor& grad, Tensor& grad_x) {
        kernels<Pool2dKernels>(grad.device()).max_backward(params, grad, positions, grad_x);
    });
}

Tensor avg_pool2d(const Tensor& x, const Pool2dParams& params) {
    constexpr const char* kOp = "avg_pool2d";
    check_input(kOp, x);
    if (params.dilation != std::array<std::int64_t, 2>{1, 1}) {
        throw ValueError("avg_pool2d: dilation " + pair_text(params.dilation) + " must be [1, 1]");
    }
    const Shape shape = output_shape(x.shape(), pool2d_output_size(x.shape(), params, kOp));
    Tensor output = empty_images(shape, x, x.dtype());
    if (output.numel() > 0) {
        kernels<Pool2dKernels>(x.device()).avg_forward(params, channels_last(x), output);
    }
    return record_pool(kOp, output, x, [params](const Tensor& grad, Tensor& grad_x) {
        kernels<Pool2dKernels>(grad.device()).avg_backward(params, grad, grad_x);
    });
}

Tensor adaptive_avg_pool2d(const Tensor& x, std::array<std::int64_t, 2> size) {
    constexpr const char* kOp = "adaptive_avg_pool2d";
    check_input(kOp, x);
    check_range(kOp, size, 1, "output size");
    Tensor output = empty_images(output_shape(x.shape(), size), x, x.dtype());
    if (output.numel() > 0) {
        kernels<Pool2dKernels>(x.device()).adaptive_avg_forward(channels_last(x), output);
    }
    return record_pool(kOp, output, x, [](const Tensor& grad, Tensor& grad_x) {
        kernels<Pool2dKernels>(grad.device()).adaptive_avg_backward(grad, grad_x);
    });
}

}  // namespace fulcrum
