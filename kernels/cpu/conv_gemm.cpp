#include "kernels/cpu/conv_paths.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/parallel.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace fulcrum::cpu::conv_gemm {

namespace {

/// The part of one tap row that a given output pixel meets inside the image: taps `tap .. tap + count - 1`
/// (numbered over the whole filter) read the input pixels `input .. input + count - 1`. Neighbouring taps are
/// neighbours in a tap-major weight, and the pixels are neighbours in a channels-last image, so the run is
/// one matrix product.
struct Run {
    std::int64_t output, input, tap, count;
};

/// One `[rows, channels]` matrix per pixel: the same pixel of all images.
struct Geometry {
    std::int64_t rows = 0;  ///< of each matrix
    std::int64_t input_leading = 0, output_leading = 0;
    std::int64_t input_pixels = 0, output_pixels = 0;
    std::vector<Run> runs;
};

Geometry geometry(const ConvSizes& s) {
    Geometry result;
    const bool pointwise = s.kh == 1 && s.kw == 1 && s.sh == 1 && s.sw == 1 && s.ph == 0 && s.pw == 0;
    if (pointwise) {
        // All pixels of all images meet the same one tap: one tall matrix.
        return {.rows = s.n * s.h * s.w,
                .input_leading = s.c,
                .output_leading = s.o,
                .input_pixels = 1,
                .output_pixels = 1,
                .runs = {{0, 0, 0, 1}}};
    }
    result.rows = s.n;
    result.input_pixels = s.h * s.w;
    result.output_pixels = s.oh * s.ow;
    result.input_leading = result.input_pixels * s.c;
    result.output_leading = result.output_pixels * s.o;
    for (std::int64_t y = 0; y < s.oh; ++y) {
        for (std::int64_t x = 0; x < s.ow; ++x) {
            const std::int64_t left = x * s.sw - s.pw;
            const std::int64_t first = std::max<std::int64_t>(0, -left);
            const std::int64_t last = std::min(s.kw, s.w - left);
            if (first >= last) continue;
            for (std::int64_t r = 0; r < s.kh; ++r) {
                const std::int64_t iy = y * s.sh - s.ph + r * s.dh;
                if (iy < 0 || iy >= s.h) continue;
                result.runs.push_back(
                    {y * s.ow + x, iy * s.w + left + first, r * s.kw + first, last - first});
            }
        }
    }
    return result;
}

/// Calls `product(run, accumulate)` for each run, cut where one part of its target has been written and
/// another has not. \param target gives the first element of the target that a run writes. \param written one
/// flag for each element, updated.
template <class Target, class Product>
void for_each_product(const std::vector<Run>& runs, std::vector<bool>& written, const Target& target,
                      const Product& product) {
    for (const Run& run : runs) {
        const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(target(run) + i); };
        std::int64_t begin = 0;
        while (begin < run.count) {
            const bool accumulate = written[at(begin)];
            std::int64_t end = begin + 1;
            while (end < run.count && written[at(end)] == accumulate)
                ++end;
            product(Run{run.output, run.input + begin, run.tap + begin, end - begin}, accumulate);
            for (std::int64_t i = begin; i < end; ++i)
                written[at(i)] = true;
            begin = end;
        }
    }
}

constexpr std::int64_t kRowGrain = 16384;

/// Sets `rows` rows of `width` values, `leading` apart, to `values`, or to zero when null.
void fill_rows(float* out, std::int64_t rows, std::int64_t leading, std::int64_t width, const float* values) {
    parallel_for(
        rows, std::max<std::int64_t>(1, kRowGrain / width), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                if (values != nullptr) {
                    std::memcpy(out + i * leading, values, static_cast<std::size_t>(width) * sizeof(float));
                } else {
                    std::memset(out + i * leading, 0, static_cast<std::size_t>(width) * sizeof(float));
                }
            }
        });
}

/// True when a dimension's stride is as expected, or says nothing.
bool matches(std::int64_t size, std::int64_t stride, std::int64_t expected) {
    return size == 1 || stride == expected;
}

}  // namespace

bool fits(const ConvSizes& s, const Tensor& weight) {
    if (weight.dtype() != DType::f32 || s.groups != 1) return false;
    const Strides& strides = weight.strides();
    const bool tap_major = matches(s.o, strides[0], 1) && matches(s.c, strides[1], s.o) &&
                           matches(s.kw, strides[3], s.c * s.o) &&
                           matches(s.kh, strides[2], s.kw * s.c * s.o);
    return tap_major && (s.dw == 1 || s.kw == 1);
}

void forward(const ConvSizes& s, const Tensor& input, const Tensor& weight, const Tensor& bias,
             Tensor& output) {
    const Geometry g = geometry(s);
    const float* x = input.data<float>();
    const float* w = weight.data<float>();
    float* out = output.data<float>();
    std::vector<bool> written(static_cast<std::size_t>(g.output_pixels), false);
    if (bias.defined()) {
        fill_rows(out, g.rows * g.output_pixels, s.o, s.o, bias.data<float>());
        written.assign(written.size(), true);
    }
    for (const Run& run : g.runs) {
        const auto pixel = static_cast<std::size_t>(run.output);
        sgemm(false, false, g.rows, s.o, run.count * s.c, x + run.input * s.c, g.input_leading,
              w + run.tap * s.c * s.o, s.o, written[pixel] ? 1.0F : 0.0F, out + run.output * s.o,
              g.output_leading);
        written[pixel] = true;
    }
    for (std::int64_t pixel = 0; pixel < g.output_pixels; ++pixel) {
        if (!written[static_cast<std::size_t>(pixel)]) {
            fill_rows(out + pixel * s.o, g.rows, g.output_leading, s.o, nullptr);
        }
    }
}

void backward_data(const ConvSizes& s, const Tensor& grad_output, const Tensor& weight, Tensor& grad_input) {
    const Geometry g = geometry(s);
    const float* grad = grad_output.data<float>();
    const float* w = weight.data<float>();
    float* out = grad_input.data<float>();
    std::vector<bool> written(static_cast<std::size_t>(g.input_pixels), false);
    for_each_product(
        g.runs, written, [](const Run& run) { return run.input; },
        [&](const Run& run, bool accumulate) {
            sgemm(false, true, g.rows, run.count * s.c, s.o, grad + run.output * s.o, g.output_leading,
                  w + run.tap * s.c * s.o, s.o, accumulate ? 1.0F : 0.0F, out + run.input * s.c,
                  g.input_leading);
        });
    for (std::int64_t pixel = 0; pixel < g.input_pixels; ++pixel) {
        if (!written[static_cast<std::size_t>(pixel)]) {
            fill_rows(out + pixel * s.c, g.rows, g.input_leading, s.c, nullptr);
        }
    }
}

void backward_weight(const ConvSizes& s, const Tensor& grad_output, const Tensor& input,
                     Tensor& grad_weight) {
    const Geometry g = geometry(s);
    const float* grad = grad_output.data<float>();
    const float* x = input.data<float>();
    float* out = grad_weight.data<float>();
    const std::int64_t taps = s.kh * s.kw;
    std::vector<bool> written(static_cast<std::size_t>(taps), false);
    for_each_product(
        g.runs, written, [](const Run& run) { return run.tap; },
        [&](const Run& run, bool accumulate) {
            sgemm(true, false, run.count * s.c, s.o, g.rows, x + run.input * s.c, g.input_leading,
                  grad + run.output * s.o, g.output_leading, accumulate ? 1.0F : 0.0F,
                  out + run.tap * s.c * s.o, s.o);
        });
    // Taps that only ever met padding have no gradient.
    for (std::int64_t tap = 0; tap < taps; ++tap) {
        if (!written[static_cast<std::size_t>(tap)]) fill_rows(out + tap * s.c * s.o, s.c, s.o, s.o, nullptr);
    }
}

}  // namespace fulcrum::cpu::conv_gemm
