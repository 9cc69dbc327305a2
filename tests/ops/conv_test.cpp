#include "core/ops/conv.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/gradcheck.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace fulcrum;

namespace {

using Values = std::vector<double>;

struct Case {
    const char* name;
    std::int64_t n, c, h, w, o, kh, kw;
    Conv2dParams params;
};

/// Calls `visit(index in out, in input, in weight)` for every product that a convolution adds up; all indices
/// are row-major in the logical shapes.
template <class Visit>
void visit_products(const Case& c, const Shape& out, const Visit& visit) {
    const std::int64_t ci = c.c / c.params.groups;
    const std::int64_t co = c.o / c.params.groups;
    for (std::int64_t n = 0; n < c.n; ++n)
        for (std::int64_t o = 0; o < c.o; ++o)
            for (std::int64_t y = 0; y < out[2]; ++y)
                for (std::int64_t x = 0; x < out[3]; ++x)
                    for (std::int64_t i = 0; i < ci; ++i)
                        for (std::int64_t r = 0; r < c.kh; ++r)
                            for (std::int64_t s = 0; s < c.kw; ++s) {
                                const std::int64_t iy =
                                    y * c.params.stride[0] + r * c.params.dilation[0] - c.params.padding[0];
                                const std::int64_t ix =
                                    x * c.params.stride[1] + s * c.params.dilation[1] - c.params.padding[1];
                                if (iy < 0 || iy >= c.h || ix < 0 || ix >= c.w) continue;
                                const std::int64_t channel = o / co * ci + i;
                                visit(static_cast<std::size_t>(((n * c.o + o) * out[2] + y) * out[3] + x),
                                      static_cast<std::size_t>(((n * c.c + channel) * c.h + iy) * c.w + ix),
                                      static_cast<std::size_t>(((o * ci + i) * c.kh + r) * c.kw + s));
                            }
}

/// The largest difference, relative to the largest expected value.
double distance(const Tensor& actual, const Values& expected) {
    const Values values = actual.to_vector<double>();
    REQUIRE(values.size() == expected.size());
    double worst = 0.0;
    double scale = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double difference = std::abs(values[i] - expected[i]);
        worst =
            std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
        scale = std::max(scale, std::abs(expected[i]));
    }
    return scale > 0.0 ? worst / scale : worst;
}

double tolerance(DType dtype) {
    if (dtype == DType::f64) return 1e-13;
    if (dtype == DType::f32) return 2e-6;
    // Results are rounded once to 8 (bf16) or 11 (f16) bits; weights that were f32 are rounded once more.
    return dtype == DType::bf16 ? 1.2e-2 : 2e-3;
}

/// Forward and both gradients of one case against plain loops in double over the very same (rounded) inputs.
void check_case(const Case& c, DType dtype, DType weight_dtype, MemoryFormat input_format,
                MemoryFormat weight_format, bool with_bias, Device device) {
    Generator generator(11);
    const TensorOptions input_options{.dtype = dtype, .device = device, .format = input_format};
    const TensorOptions weight_options{.dtype = weight_dtype, .device = device, .format = weight_format};
    Tensor x = uniform({c.n, c.c, c.h, c.w}, -1, 1, input_options, generator);
    Tensor w = uniform({c.o, c.c / c.params.groups, c.kh, c.kw}, -1, 1, weight_options, generator);
    Tensor b;
    if (with_bias) b = uniform({c.o}, -1, 1, {.dtype = weight_dtype, .device = device}, generator);
    x.set_requires_grad();
    w.set_requires_grad();
    if (with_bias) b.set_requires_grad();

    const Tensor out = conv2d(x, w, b, c.params);
    REQUIRE(out.shape() == conv2d_output_shape(x.shape(), w.shape(), c.params));
    CHECK(out.dtype() == dtype);
    CHECK(out.is_channels_last());
    const Tensor grad = uniform(out.shape(), -1, 1, {.dtype = dtype, .device = device}, generator);
    out.backward(grad);
    CHECK(x.grad().dtype() == dtype);
    CHECK(w.grad().dtype() == weight_dtype);
    CHECK(w.grad().strides() == w.strides());

    const Values xs = x.to_vector<double>();
    const Values ws = w.to_vector<double>();
    const Values gs = grad.to_vector<double>();
    Values expected(gs.size(), 0.0);
    Values grad_x(xs.size(), 0.0);
    Values grad_w(ws.size(), 0.0);
    const std::int64_t pixels = out.size(2) * out.size(3);
    const auto channel_of = [&](std::size_t i) {
        return static_cast<std::size_t>(static_cast<std::int64_t>(i) / pixels % c.o);
    };
    if (with_bias) {
        const Values bs = b.to_vector<double>();
        Values grad_b(bs.size(), 0.0);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            expected[i] = bs[channel_of(i)];
            grad_b[channel_of(i)] += gs[i];
        }
        CHECK(distance(b.grad(), grad_b) <= tolerance(weight_dtype));
    }
    visit_products(c, out.shape(), [&](std::size_t at, std::size_t xi, std::size_t wi) {
        expected[at] += xs[xi] * ws[wi];
        grad_x[xi] += gs[at] * ws[wi];
        grad_w[wi] += gs[at] * xs[xi];
    });
    CHECK(distance(out, expected) <= tolerance(dtype));
    CHECK(distance(x.grad(), grad_x) <= tolerance(dtype));
    // A gradient kept in f32 beside 16-bit activations is summed in f32.
    CHECK(distance(w.grad(), grad_w) <= (weight_dtype == DType::f32 ? 2e-6 : tolerance(weight_dtype)));
}

Conv2dParams geometry(std::array<std::int64_t, 2> stride, std::array<std::int64_t, 2> padding,
                      std::array<std::int64_t, 2> dilation = {1, 1}, std::int64_t groups = 1) {
    return {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups};
}

const std::vector<Case> kCases{
    {"one pixel, one channel", 1, 1, 1, 1, 1, 1, 1, {}},
    {"1x1", 3, 5, 4, 6, 7, 1, 1, {}},
    {"1x1, many channels", 2, 32, 3, 3, 48, 1, 1, {}},
    {"1x1, stride 2, odd size", 2, 16, 5, 7, 24, 1, 1, geometry({2, 2}, {0, 0})},
    {"3x3, padding 1", 2, 3, 6, 5, 8, 3, 3, geometry({1, 1}, {1, 1})},
    {"3x3, 16 channels", 3, 16, 8, 8, 16, 3, 3, geometry({1, 1}, {1, 1})},
    {"3x3, stride 2, uneven rest", 2, 17, 9, 8, 9, 3, 3, geometry({2, 2}, {1, 1})},
    {"3x3 over one pixel", 4, 32, 1, 1, 16, 3, 3, geometry({1, 1}, {1, 1})},
    {"3x3 over 2x2 pixels", 5, 16, 2, 2, 48, 3, 3, geometry({1, 1}, {1, 1})},
    {"3x3 over 2x2 pixels, stride 2", 5, 16, 2, 2, 32, 3, 3, geometry({2, 2}, {1, 1})},
    {"3x3 over 3x2 pixels, stride 2x1", 3, 24, 3, 2, 16, 3, 3, geometry({2, 1}, {1, 1})},
    {"3x3 over 4x4 pixels, stride 2", 3, 16, 4, 4, 32, 3, 3, geometry({2, 2}, {1, 1})},
    {"3x3 over 3x3 pixels, dilation 2", 3, 16, 3, 3, 16, 3, 3, geometry({1, 1}, {2, 2}, {2, 2})},
    {"5x5 over 2x2 pixels, padding beyond", 2, 16, 2, 2, 16, 5, 5, geometry({1, 1}, {2, 2})},
    {"1x1 over one pixel", 6, 64, 1, 1, 32, 1, 1, {}},
    {"1x1, stride 2 over 2x2 pixels", 6, 32, 2, 2, 64, 1, 1, geometry({2, 2}, {0, 0})},
    {"7x7, stride 2, padding 3", 2, 3, 12, 12, 16, 7, 7, geometry({2, 2}, {3, 3})},
    {"filter as large as the image", 2, 4, 5, 6, 3, 5, 6, {}},
    {"padding larger than the filter", 2, 3, 4, 4, 4, 1, 1, geometry({1, 1}, {2, 2})},
    {"uneven stride and padding", 2, 6, 9, 7, 5, 3, 5, geometry({3, 1}, {0, 2})},
    {"dilation", 2, 4, 11, 9, 6, 3, 3, geometry({1, 2}, {2, 1}, {2, 3})},
    {"groups", 2, 12, 7, 6, 8, 3, 3, geometry({1, 1}, {1, 1}, {1, 1}, 4)},
    {"depthwise, stride 2", 2, 8, 7, 7, 8, 3, 3, geometry({2, 2}, {1, 1}, {1, 1}, 8)},
    {"groups of many channels over 2x2 pixels", 2, 32, 2, 2, 32, 3, 3, geometry({1, 1}, {1, 1}, {1, 1}, 2)},
};

}  // namespace

TEST_CASE("conv2d gives the sums of products and their gradients", "[conv2d]") {
    const Case c = GENERATE(from_range(kCases));
    INFO(c.name);
    test::for_each_device([&](Device device) {
        for (const DType dtype : {DType::f64, DType::f32}) {
            INFO(name_of(dtype));
            check_case(c, dtype, dtype, MemoryFormat::channels_last, MemoryFormat::tap_major, true, device);
            check_case(c, dtype, dtype, MemoryFormat::contiguous, MemoryFormat::contiguous, false, device);
        }
        check_case(c, DType::f32, DType::f32, MemoryFormat::channels_last, MemoryFormat::channels_last, true,
                   device);
    });
}

TEST_CASE("conv2d computes in 16 bits with f32 master weights or with 16-bit ones", "[conv2d]") {
    const Case c = GENERATE(from_range(kCases));
    INFO(c.name);
    test::for_each_device([&](Device device) {
        for (const DType dtype : {DType::bf16, DType::f16}) {
            INFO(name_of(dtype));
            check_case(c, dtype, DType::f32, MemoryFormat::channels_last, MemoryFormat::tap_major, true,
                       device);
            check_case(c, dtype, dtype, MemoryFormat::contiguous, MemoryFormat::contiguous, true, device);
        }
    });
}

TEST_CASE("conv2d passes the finite-difference check", "[conv2d]") {
    const Case c =
        GENERATE(Case{"stride, padding", 2, 3, 5, 6, 4, 3, 3, geometry({2, 1}, {1, 1})},
                 Case{"dilation, groups", 2, 4, 7, 5, 6, 3, 2, geometry({1, 2}, {1, 0}, {2, 3}, 2)});
    INFO(c.name);
    test::for_each_device([&](Device device) {
        Generator generator(5);
        const TensorOptions options{.dtype = DType::f64, .device = device, .requires_grad = true};
        const GradcheckResult result =
            gradcheck([&](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], in[2], c.params); },
                      {uniform({c.n, c.c, c.h, c.w}, -1, 1, options, generator),
                       uniform({c.o, c.c / c.params.groups, c.kh, c.kw}, -1, 1, options, generator),
                       uniform({c.o}, -1, 1, options, generator)});
        INFO(result.message);
        CHECK(result.passed);
    });
}

TEST_CASE("conv2d's strided input gradient is right up to the far border", "[conv2d]") {
    test::for_each_device([](Device device) {
        const TensorOptions options{.device = device, .requires_grad = true};
        const Tensor x = ones({1, 9, 32, 32}, options);
        const Tensor w = ones({3, 9, 5, 5}, options);
        const Tensor out = conv2d(x, w, {}, geometry({3, 3}, {1, 1}));
        out.backward(ones(out.shape(), {.device = device}));
        const Values dx = x.grad().to_vector<double>();
        double total = 0.0;
        for (const double value : dx)
            total += value;
        CHECK(total == 64827.0);
        for (std::size_t row = 28; row < 32; ++row) {
            for (std::size_t column = 28; column < 32; ++column) {
                CHECK(dx[row * 32 + column] == (row < 31 && column < 31 ? 3.0 : 0.0));
            }
        }
        const Values dw = w.grad().to_vector<double>();
        for (std::size_t filter = 0; filter < 27; ++filter) {
            for (std::size_t tap = 0; tap < 25; ++tap) {
                const bool row0 = tap / 5 == 0;
                const bool column0 = tap % 5 == 0;
                CHECK(dw[filter * 25 + tap] == (row0 && column0 ? 81.0 : row0 || column0 ? 90.0 : 100.0));
            }
        }
    });
}

TEST_CASE("conv2d takes views with gaps and weights in any order", "[conv2d]") {
    test::for_each_device([](Device device) {
        Generator generator(3);
        const TensorOptions options{.device = device};
        const Tensor wide = uniform({2, 6, 5, 9}, -1, 1, options, generator);
        const Tensor x = narrow(wide, 3, 2, 6);
        const Tensor w = uniform({3, 6, 3, 3}, -1, 1, options, generator);
        const Tensor plain = conv2d(x.contiguous(), w);
        CHECK(distance(conv2d(x, w), plain.to_vector<double>()) <= 1e-6);
        // The same filter values, stored column by column and with a gap.
        const Tensor turned = permute(permute(w, {3, 2, 1, 0}).contiguous(), {3, 2, 1, 0});
        CHECK(distance(conv2d(x, turned), plain.to_vector<double>()) <= 1e-6);
        Tensor spacious = zeros({3, 6, 3, 5}, options);
        const Tensor inside = narrow(spacious, 3, 1, 3);
        inside.copy_(w);
        CHECK(distance(conv2d(x, inside), plain.to_vector<double>()) <= 1e-6);
    });
}

TEST_CASE("conv2d lets NaN and infinity through, and only where they belong", "[conv2d]") {
    test::for_each_device([](Device device) {
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
            INFO(name_of(dtype));
            for (const std::int64_t size : {1, 2, 5}) {
                Tensor x = zeros({2, 16, size, size}, {.dtype = dtype, .device = device});
                const Tensor first = narrow(narrow(narrow(narrow(x, 0, 0, 1), 1, 3, 1), 2, 0, 1), 3, 0, 1);
                const Tensor w = zeros({16, 16, 3, 3}, {.dtype = dtype, .device = device});
                for (const double bad : {std::nan(""), HUGE_VAL}) {
                    first.fill_(bad);
                    const Tensor out = conv2d(x, w, {}, geometry({1, 1}, {1, 1}));
                    const Values values = out.to_vector<double>();
                    // A zero weight times infinity is NaN; the first pixel reaches rows and columns 0 and 1.
                    for (std::size_t i = 0; i < values.size(); ++i) {
                        const auto at = static_cast<std::int64_t>(i);
                        const bool reached =
                            at / (16 * size * size) == 0 && at / size % size < 2 && at % size < 2;
                        CHECK(std::isnan(values[i]) == reached);
                    }
                }
            }
        }
    });
}

TEST_CASE("conv2d leaves out the gradients that nobody asked for", "[conv2d]") {
    Generator generator(8);
    const Tensor x = uniform({2, 4, 5, 5}, -1, 1, {}, generator);
    const Tensor b = uniform({6}, -1, 1, {.requires_grad = true}, generator);
    const Tensor w = uniform({6, 4, 3, 3}, -1, 1, {}, generator);
    const Tensor out = conv2d(x, w, b);
    out.backward(ones(out.shape()));
    CHECK_FALSE(x.grad().defined());
    CHECK_FALSE(w.grad().defined());
    CHECK(b.grad().to_vector<double>() == Values(6, 18.0));
}

TEST_CASE("conv2d is defined for batches and channels of size zero", "[conv2d]") {
    test::for_each_device([](Device device) {
        const TensorOptions options{.device = device, .requires_grad = true};
        const Tensor x = zeros({0, 3, 5, 5}, options);
        const Tensor w = ones({4, 3, 3, 3}, options);
        const Tensor b = ones({4}, options);
        const Tensor out = conv2d(x, w, b);
        CHECK(out.shape() == Shape{0, 4, 3, 3});
        out.backward(zeros(out.shape(), {.device = device}));
        CHECK(x.grad().shape() == x.shape());
        CHECK(w.grad().to_vector<double>() == Values(108, 0.0));
        CHECK(b.grad().to_vector<double>() == Values(4, 0.0));

        const Tensor no_channels = conv2d(zeros({2, 0, 5, 5}, options), zeros({4, 0, 3, 3}, options), b);
        CHECK(no_channels.to_vector<double>() == Values(2 * 4 * 9, 1.0));
        CHECK(conv2d(zeros({2, 3, 5, 5}, options), zeros({0, 3, 3, 3}, options)).shape() ==
              Shape{2, 0, 3, 3});
    });
}

TEST_CASE("conv2d writes every element of a gradient, also of taps that only met padding", "[conv2d]") {
    test::for_each_device([](Device device) {
        const auto check = [&](std::int64_t size, std::int64_t kernel, const Conv2dParams& params) {
            INFO(size << " pixels, filter " << kernel);
            Generator generator(12);
            const Tensor x = ones({4, 16, size, size}, {.device = device, .requires_grad = true});
            const TensorOptions tap_major{.device = device, .format = MemoryFormat::tap_major};
            Tensor w = uniform({16, 16, kernel, kernel}, -1, 1, tap_major, generator);
            w.set_requires_grad();
            const Tensor slot = full(w.shape(), std::nan(""), tap_major);
            w.set_grad_slot(slot);
            const Tensor out = conv2d(x, w, {}, params);
            out.backward(ones(out.shape(), {.device = device}));
            CHECK(w.grad().storage() == slot.storage());
            for (const double value : w.grad().to_vector<double>())
                REQUIRE(std::isfinite(value));
            for (const double value : x.grad().to_vector<double>())
                REQUIRE(std::isfinite(value));
        };
        check(1, 3, geometry({1, 1}, {1, 1}));
        check(2, 5, geometry({2, 2}, {2, 2}));
        check(4, 1, geometry({2, 2}, {0, 0}));
        check(7, 1, geometry({4, 4}, {0, 0}));
        check(3, 2, geometry({3, 3}, {0, 0}));
    });
}

TEST_CASE("conv2d is right with the largest padding and dilation", "[conv2d]") {
    constexpr std::int64_t kMost = 4'095;
    test::for_each_device([](Device device) {
        for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
            for (const std::int64_t groups : {1, 2}) {
                INFO(name_of(dtype) << ", " << groups << " groups");
                const TensorOptions variable{.dtype = dtype, .device = device, .requires_grad = true};
                const Tensor x = full({1, groups, 1, 1}, 3.0, variable);
                const Tensor w = full({groups, 1, 1, 1}, 2.0, variable);
                const Tensor y = conv2d(x, w, {}, geometry({kMost, kMost}, {kMost, kMost}, {1, 1}, groups));
                CHECK(y.shape() == Shape{1, groups, 3, 3});
                sum(y).backward();
                CHECK(narrow(narrow(y.detach(), 2, 1, 1), 3, 1, 1).contiguous().to_vector<double>()[0] ==
                      6.0);
                CHECK(sum(y.detach()).item() == 6.0 * static_cast<double>(groups));
                CHECK(x.grad().to_vector<double>()[0] == 2.0);
                CHECK(w.grad().to_vector<double>()[0] == 3.0);

                const Tensor taps = full({groups, 1, 3, 3}, 2.0, variable);
                const Tensor wide =
                    conv2d(x, taps, {}, geometry({1, 1}, {kMost, kMost}, {kMost, kMost}, groups));
                CHECK(wide.shape() == Shape{1, groups, 1, 1});
                CHECK(wide.to_vector<double>()[0] == 6.0);
            }
        }
    });
}

TEST_CASE("conv2d gives the same bits twice", "[conv2d]") {
    Generator generator(4);
    for (const std::int64_t size : {1, 2, 8}) {
        const Tensor x = uniform({16, 32, size, size}, -1, 1, {.requires_grad = true}, generator);
        const Tensor w = uniform({32, 32, 3, 3}, -1, 1, {.requires_grad = true}, generator);
        const auto run = [&] {
            x.zero_grad();
            w.zero_grad();
            const Tensor out = conv2d(x, w, {}, geometry({1, 1}, {1, 1}));
            out.backward(out.detach());
            return std::vector{out.to_vector<float>(), x.grad().to_vector<float>(),
                               w.grad().to_vector<float>()};
        };
        CHECK(run() == run());
    }
}

TEST_CASE("conv2d refuses what does not fit and says what would", "[conv2d]") {
    const Tensor x = zeros({2, 16, 8, 8});
    const Tensor w = zeros({64, 3, 3, 3});
    CHECK_THROWS_WITH(conv2d(x, w), "conv2d: input has 16 channels but weight [64, 3, 3, 3] expects 3");
    CHECK_THROWS_AS(conv2d(x, w), ShapeError);
    CHECK_THROWS_WITH(conv2d(x, zeros({8, 3, 3, 3}), {}, geometry({1, 1}, {0, 0}, {1, 1}, 4)),
                      "conv2d: input has 16 channels but weight [8, 3, 3, 3] expects 3 in each of 4 groups");
    CHECK_THROWS_AS(conv2d({}, w), ValueError);
    CHECK_THROWS_AS(conv2d(x, {}), ValueError);
    CHECK_THROWS_WITH(conv2d(zeros({16, 8, 8}), w), "conv2d: input [16, 8, 8] must be 4-D [N, C, H, W]");
    CHECK_THROWS_AS(conv2d(x, zeros({64, 16, 3})), ShapeError);

    const Tensor fits = zeros({4, 16, 3, 3});
    CHECK_THROWS_WITH(
        conv2d(x, fits, zeros({5})),
        "conv2d: bias [5] must be [4], one value for each output channel of weight [4, 16, 3, 3]");
    CHECK_THROWS_WITH(conv2d(x, fits, {}, geometry({0, 1}, {0, 0})),
                      "conv2d: stride [0, 1] must be from 1 to 2147483647");
    CHECK_THROWS_AS(conv2d(x, fits, {}, geometry({1, 1}, {-1, 0})), ValueError);
    CHECK_THROWS_AS(conv2d(x, fits, {}, geometry({1, 1}, {0, 0}, {0, 1})), ValueError);
    CHECK_THROWS_AS(conv2d(x, fits, {}, geometry({1, 1}, {0, 0}, {1, 1}, 0)), ValueError);
    CHECK_THROWS_AS(conv2d(x, fits, {}, geometry({1, 1}, {0, 0}, {1, 1}, 3)), ValueError);
    CHECK_THROWS_WITH(
        conv2d(x, zeros({4, 16, 9, 3})),
        "conv2d: the filter of weight [4, 16, 9, 3] spans 9 rows with dilation [1, 1], but input "
        "[2, 16, 8, 8] has only 8 with padding [0, 0]");
    CHECK_THROWS_AS(conv2d(x, fits, {}, geometry({1, 1}, {0, 0}, {1, 4})), ShapeError);

    const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    CHECK_THROWS_AS(conv2d(x, fits, {}, geometry({1, 1}, {huge, huge})), ValueError);
    CHECK_THROWS_AS(conv2d(x, fits, {}, geometry({1, 1}, {2147483647, 2147483647})), Error);
    // Every element type has the same limits.
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
        const Tensor pixel = ones({1, 1, 1, 1}, {.dtype = dtype});
        CHECK_THROWS_WITH(conv2d(pixel, pixel, {}, geometry({1, 1}, {4096, 0})),
                          "conv2d: padding [4096, 0] must be from 0 to 4095");
        CHECK_THROWS_WITH(conv2d(pixel, pixel, {}, geometry({1, 1}, {0, 0}, {1, 4096})),
                          "conv2d: dilation [1, 4096] must be from 1 to 4095");
    }

    CHECK_THROWS_WITH(conv2d(x, zeros({4, 16, 3, 3}, {.dtype = DType::f64})),
                      "conv2d: input is f32 but weight is f64; cast one of them");
    CHECK_THROWS_AS(conv2d(x, fits, zeros({4}, {.dtype = DType::bf16})), DTypeError);
    CHECK_THROWS_AS(
        conv2d(zeros({1, 1, 3, 3}, {.dtype = DType::i64}), zeros({1, 1, 1, 1}, {.dtype = DType::i64})),
        DTypeError);
}
