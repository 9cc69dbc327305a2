#include "nn/conv.h"

#include "core/error.h"

#include <cmath>
#include <string>

namespace fulcrum::nn {
namespace {

void require(bool holds, const std::string& what) {
    if (!holds) throw ValueError("Conv2d: " + what);
}

void require_at_least(const char* name, Pair value, std::int64_t least) {
    require(value.height() >= least && value.width() >= least,
            std::string(name) + " is [" + std::to_string(value.height()) + ", " +
                std::to_string(value.width()) + "] but both must be at least " + std::to_string(least));
}

void check(const Conv2dOptions& options) {
    require(options.in_channels() >= 1 && options.out_channels() >= 1,
            "channels are " + std::to_string(options.in_channels()) + " in and " +
                std::to_string(options.out_channels()) + " out but both must be at least 1");
    require_at_least("kernel_size", options.kernel_size(), 1);
    require_at_least("stride", options.stride(), 1);
    require_at_least("dilation", options.dilation(), 1);
    require_at_least("padding", options.padding(), 0);
    const std::int64_t groups = options.groups();
    require(groups >= 1 && options.in_channels() % groups == 0 && options.out_channels() % groups == 0,
            "groups is " + std::to_string(groups) + " but must divide " +
                std::to_string(options.in_channels()) + " and " + std::to_string(options.out_channels()));
}

/// Pairs of an output position and a tap that meet a pixel, along one dimension.
std::int64_t useful_taps(std::int64_t input, std::int64_t output, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation) {
    std::int64_t count = 0;
    for (std::int64_t y = 0; y < output; ++y) {
        for (std::int64_t tap = 0; tap < kernel; ++tap) {
            const std::int64_t at = y * stride + tap * dilation - padding;
            if (at >= 0 && at < input) ++count;
        }
    }
    return count;
}

}  // namespace

Conv2d::Conv2d(const Conv2dOptions& options) : options_(options) {
    check(options);
    params_ = {.stride = options.stride().array(),
               .padding = options.padding().array(),
               .dilation = options.dilation().array(),
               .groups = options.groups()};
    const Shape shape{options.out_channels(), options.in_channels() / options.groups(),
                      options.kernel_size().height(), options.kernel_size().width()};
    weight_ = register_parameter("weight", empty(shape, {.format = MemoryFormat::tap_major}));
    init_weight(weight_, options.init());
    if (options.bias()) {
        bias_ = register_parameter("bias", empty({options.out_channels()}));
        const double bound = 1.0 / std::sqrt(static_cast<double>(fans(shape).in));
        init_uniform(bias_, -bound, bound);
    }
}

Tensor Conv2d::forward(const Tensor& x) {
    return conv2d(x, weight_, bias_, params_);
}

MultiplyAdds conv2d_multiply_adds(const Shape& input, const Shape& weight, const Shape& output,
                                  const Conv2dParams& params) {
    const std::int64_t channels = output[0] * weight[0] * weight[1];
    std::int64_t usual = channels;
    std::int64_t useful = channels;
    for (std::size_t i = 0; i < 2; ++i) {
        usual *= output[2 + i] * weight[2 + i];
        useful *= useful_taps(input[2 + i], output[2 + i], weight[2 + i], params.stride[i], params.padding[i],
                              params.dilation[i]);
    }
    return {usual, useful};
}

MultiplyAdds Conv2d::multiply_adds(const Shape& input, const Shape& output) const {
    return conv2d_multiply_adds(input, weight_.shape(), output, params_);
}

}  // namespace fulcrum::nn
