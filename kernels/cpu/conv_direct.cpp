#include "kernels/cpu/conv_paths.h"
#include "kernels/cpu/parallel.h"

#include <algorithm>
#include <vector>

namespace fulcrum::cpu::conv_direct {

namespace {

/// Where the weight of one output and one input channel lies in a packed copy.
enum class Inner : std::uint8_t { output_channel, input_channel };

/// Calls `visit(packed index, offset in the weight)` for every weight element; packed order is
/// `[group][tap row][tap column][...]` with `inner` running fastest.
template <class Visit>
void visit_packed(const ConvSizes& s, const Strides& strides, Inner inner, const Visit& visit) {
    const bool outputs = inner == Inner::output_channel;
    const std::int64_t slow = outputs ? s.ci : s.co;
    const std::int64_t fast = outputs ? s.co : s.ci;
    const std::int64_t slow_stride = outputs ? strides[1] : strides[0];
    const std::int64_t fast_stride = outputs ? strides[0] : strides[1];
    std::int64_t at = 0;
    for (std::int64_t g = 0; g < s.groups; ++g) {
        for (std::int64_t r = 0; r < s.kh; ++r) {
            for (std::int64_t t = 0; t < s.kw; ++t) {
                const std::int64_t tap = g * s.co * strides[0] + r * strides[2] + t * strides[3];
                for (std::int64_t i = 0; i < slow; ++i) {
                    for (std::int64_t j = 0; j < fast; ++j) {
                        visit(at++, tap + i * slow_stride + j * fast_stride);
                    }
                }
            }
        }
    }
}

std::vector<double> pack(const ConvSizes& s, const Tensor& weight, Inner inner) {
    std::vector<double> packed(static_cast<std::size_t>(weight.numel()));
    const double* values = weight.data<double>();
    visit_packed(s, weight.strides(), inner, [&](std::int64_t at, std::int64_t offset) {
        packed[static_cast<std::size_t>(at)] = values[offset];
    });
    return packed;
}

/// `sum[j] += a * row[j]`.
inline void add_scaled(double* sum, double a, const double* row, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j)
        sum[j] += a * row[j];
}

/// How many pieces of `products` multiply-adds are worth a thread.
std::int64_t grain(std::int64_t products) {
    return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, products));
}

}  // namespace

void forward(const ConvSizes& s, const Tensor& input, const Tensor& weight, const Tensor& bias,
             Tensor& output) {
    const std::vector<double> packed = pack(s, weight, Inner::output_channel);
    const double* x = input.data<double>();
    const double* b = bias.defined() ? bias.data<double>() : nullptr;
    double* out = output.data<double>();
    parallel_for(
        s.n * s.oh, grain(s.ow * s.o * s.ci * s.kh * s.kw), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t n = row / s.oh;
                const std::int64_t y = row % s.oh;
                for (std::int64_t column = 0; column < s.ow; ++column) {
                    double* pixel = out + (row * s.ow + column) * s.o;
                    if (b != nullptr) {
                        std::copy(b, b + s.o, pixel);
                    } else {
                        std::fill(pixel, pixel + s.o, 0.0);
                    }
                    for (std::int64_t r = 0; r < s.kh; ++r) {
                        const std::int64_t iy = y * s.sh - s.ph + r * s.dh;
                        if (iy < 0 || iy >= s.h) continue;
                        for (std::int64_t t = 0; t < s.kw; ++t) {
                            const std::int64_t ix = column * s.sw - s.pw + t * s.dw;
                            if (ix < 0 || ix >= s.w) continue;
                            const double* source = x + ((n * s.h + iy) * s.w + ix) * s.c;
                            for (std::int64_t g = 0; g < s.groups; ++g) {
                                const double* taps =
                                    packed.data() + ((g * s.kh + r) * s.kw + t) * s.ci * s.co;
                                for (std::int64_t i = 0; i < s.ci; ++i) {
                                    add_scaled(pixel + g * s.co, source[g * s.ci + i], taps + i * s.co, s.co);
                                }
                            }
                        }
                    }
                }
            }
        });
}

void backward_data(const ConvSizes& s, const Tensor& grad_output, const Tensor& weight, Tensor& grad_input) {
    const std::vector<double> packed = pack(s, weight, Inner::input_channel);
    const double* grad = grad_output.data<double>();
    double* out = grad_input.data<double>();
    parallel_for(s.n * s.h, grain(s.w * s.c * s.co * s.kh * s.kw), [&](std::int64_t begin, std::int64_t end) {
        std::fill(out + begin * s.w * s.c, out + end * s.w * s.c, 0.0);
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t n = row / s.h;
            for (std::int64_t r = 0; r < s.kh; ++r) {
                // The output row that read this input row through tap row r, when there is one.
                const std::int64_t from = row % s.h + s.ph - r * s.dh;
                if (from < 0 || from % s.sh != 0 || from / s.sh >= s.oh) continue;
                const double* grad_row = grad + (n * s.oh + from / s.sh) * s.ow * s.o;
                for (std::int64_t column = 0; column < s.ow; ++column) {
                    for (std::int64_t t = 0; t < s.kw; ++t) {
                        const std::int64_t ix = column * s.sw - s.pw + t * s.dw;
                        if (ix < 0 || ix >= s.w) continue;
                        for (std::int64_t o = 0; o < s.o; ++o) {
                            const std::int64_t g = o / s.co;
                            const std::int64_t tap = ((g * s.kh + r) * s.kw + t) * s.co + o % s.co;
                            add_scaled(out + (row * s.w + ix) * s.c + g * s.ci, grad_row[column * s.o + o],
                                       packed.data() + tap * s.ci, s.ci);
                        }
                    }
                }
            }
        }
    });
}

void backward_weight(const ConvSizes& s, const Tensor& grad_output, const Tensor& input,
                     Tensor& grad_weight) {
    std::vector<double> packed(static_cast<std::size_t>(grad_weight.numel()), 0.0);
    const double* grad = grad_output.data<double>();
    const double* x = input.data<double>();
    // One row of `packed` holds all output channels of a (group, tap, input channel).
    parallel_for(s.groups * s.kh * s.kw * s.ci, grain(s.n * s.oh * s.ow * s.co),
                 [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                         const std::int64_t i = row % s.ci;
                         const std::int64_t t = row / s.ci % s.kw;
                         const std::int64_t r = row / s.ci / s.kw % s.kh;
                         const std::int64_t g = row / s.ci / s.kw / s.kh;
                         double* sum = packed.data() + row * s.co;
                         for (std::int64_t n = 0; n < s.n; ++n) {
                             for (std::int64_t y = 0; y < s.oh; ++y) {
                                 const std::int64_t iy = y * s.sh - s.ph + r * s.dh;
                                 if (iy < 0 || iy >= s.h) continue;
                                 for (std::int64_t column = 0; column < s.ow; ++column) {
                                     const std::int64_t ix = column * s.sw - s.pw + t * s.dw;
                                     if (ix < 0 || ix >= s.w) continue;
                                     add_scaled(sum, x[((n * s.h + iy) * s.w + ix) * s.c + g * s.ci + i],
                                                grad + ((n * s.oh + y) * s.ow + column) * s.o + g * s.co,
                                                s.co);
                                 }
                             }
                         }
                     }
                 });
    double* out = grad_weight.data<double>();
    visit_packed(s, grad_weight.strides(), Inner::output_channel, [&](std::int64_t at, std::int64_t offset) {
        out[offset] = packed[static_cast<std::size_t>(at)];
    });
}

}  // namespace fulcrum::cpu::conv_direct
