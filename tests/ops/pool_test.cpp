#include "core/ops/pool.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/gradcheck.h"
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

enum class Kind { max, avg };

struct Case {
    const char* name;
    Shape shape;
    Pool2dParams params;
};

/// Output and input gradient by plain loops over windows.
struct Naive {
    Values out, grad_x;

    Naive(Kind kind, const Case& c, const Shape& out_shape, const Values& x, const Values& grad)
        : out(grad.size()), grad_x(x.size(), 0.0) {
        const Pool2dParams& p = c.params;
        const std::int64_t height = c.shape[2];
        const std::int64_t width = c.shape[3];
        std::size_t at = 0;
        for (std::int64_t plane = 0; plane < c.shape[0] * c.shape[1]; ++plane)
            for (std::int64_t oy = 0; oy < out_shape[2]; ++oy)
                for (std::int64_t ox = 0; ox < out_shape[3]; ++ox, ++at) {
                    std::vector<std::size_t> inside;
                    double counted = 0.0;
                    for (std::int64_t r = 0; r < p.kernel[0]; ++r)
                        for (std::int64_t s = 0; s < p.kernel[1]; ++s) {
                            const std::int64_t y = oy * p.stride[0] - p.padding[0] + r * p.dilation[0];
                            const std::int64_t xx = ox * p.stride[1] - p.padding[1] + s * p.dilation[1];
                            if (y < height + p.padding[0] && xx < width + p.padding[1]) counted += 1.0;
                            if (y < 0 || y >= height || xx < 0 || xx >= width) continue;
                            inside.push_back(static_cast<std::size_t>((plane * height + y) * width + xx));
                        }
                    if (kind == Kind::max) {
                        out[at] = -std::numeric_limits<double>::infinity();
                        if (inside.empty()) continue;
                        std::size_t winner = inside.front();
                        for (const std::size_t i : inside) {
                            if (x[i] > x[winner] || (std::isnan(x[i]) && !std::isnan(x[winner]))) winner = i;
                        }
                        out[at] = x[winner];
                        grad_x[winner] += grad[at];
                    } else {
                        const double divisor =
                            p.count_include_pad ? counted : static_cast<double>(inside.size());
                        for (const std::size_t i : inside) {
                            out[at] += x[i] / divisor;
                            grad_x[i] += grad[at] / divisor;
                        }
                    }
                }
    }
};

Tensor pool(Kind kind, const Tensor& x, const Pool2dParams& params) {
    return kind == Kind::max ? max_pool2d(x, params) : avg_pool2d(x, params);
}

void check_close(const Tensor& actual, const Values& expected, double tolerance) {
    const Values values = actual.to_vector<double>();
    REQUIRE(values.size() == expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const bool same = values[i] == expected[i] || std::abs(values[i] - expected[i]) <=
                                                          tolerance * std::max(1.0, std::abs(expected[i]));
        if (!same) {
            INFO("element " << i << ": " << values[i] << ", expected " << expected[i]);
            CHECK(same);
            return;
        }
    }
    CHECK(true);
}

double tolerance(DType dtype) {
    if (dtype == DType::f64) return 1e-13;
    if (dtype == DType::f32) return 2e-6;
    return dtype == DType::bf16 ? 4e-2 : 5e-3;
}

const std::vector<Case> kCases{
    {"2x2", {2, 3, 6, 8}, {}},
    {"2x2, odd size", {2, 5, 7, 5}, {}},
    {"3x3, stride 2, padding 1", {2, 70, 9, 8}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {"3x3, stride 1, overlapping", {1, 17, 5, 4}, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}},
    {"2x3, stride 1x2", {2, 4, 5, 7}, {.kernel = {2, 3}, .stride = {1, 2}}},
    {"stride beyond the kernel", {1, 3, 9, 9}, {.kernel = {2, 2}, .stride = {3, 4}}},
    {"whole image", {2, 130, 4, 3}, {.kernel = {4, 3}, .stride = {4, 3}}},
    {"rounded up", {2, 3, 6, 5}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}},
    {"rounded up, last window dropped",
     {1, 2, 5, 5},
     {.kernel = {2, 2}, .stride = {4, 2}, .padding = {1, 0}, .ceil_mode = true}},
    {"one pixel", {3, 2, 1, 1}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {"a window of 256 elements", {1, 2, 20, 18}, {.kernel = {16, 16}, .stride = {2, 1}}},
    {"a window of 255 elements", {1, 2, 18, 18}, {.kernel = {17, 15}, .stride = {1, 1}}},
};

}  // namespace

TEST_CASE("pooling agrees with plain loops over windows", "[pool]") {
    const Case c = GENERATE(from_range(kCases));
    const Kind kind = GENERATE(Kind::max, Kind::avg);
    const bool count_padding = GENERATE(true, false);
    if (kind == Kind::max && !count_padding) return;
    INFO(c.name << (kind == Kind::max ? ", max" : ", average"));
    Case counted = c;
    counted.params.count_include_pad = count_padding;
    test::for_each_device([&](Device device) {
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
            INFO(name_of(dtype));
            Generator generator(21);
            const Tensor x =
                uniform(c.shape, -2, 2, {.dtype = dtype, .device = device, .requires_grad = true}, generator);
            const Tensor out = pool(kind, x, counted.params);
            CHECK(out.dtype() == dtype);
            CHECK(out.is_channels_last());
            const auto size = pool2d_output_size(c.shape, counted.params, "pool");
            REQUIRE(out.shape() == Shape{c.shape[0], c.shape[1], size[0], size[1]});
            const Tensor grad = uniform(out.shape(), -1, 1, {.dtype = dtype, .device = device}, generator);
            out.backward(grad);
            const Naive expected(kind, counted, out.shape(), x.to_vector<double>(), grad.to_vector<double>());
            check_close(out, expected.out, kind == Kind::max ? 0.0 : tolerance(dtype));
            check_close(x.grad(), expected.grad_x, tolerance(dtype));
        }
    });
}

TEST_CASE("max_pool2d gives the gradient to the first of equal elements", "[pool]") {
    test::for_each_device([](Device device) {
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
            const Case c{"ties", {2, 67, 6, 6}, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}}};
            Generator generator(2);
            Tensor x = uniform(c.shape, 0, 3, {.device = device}, generator);
            x = x.to(DType::u8).to(dtype);  // whole numbers, so most windows have ties
            x.set_requires_grad();
            const Tensor out = max_pool2d(x, c.params);
            const Tensor grad = ones(out.shape(), {.dtype = dtype, .device = device});
            out.backward(grad);
            const Naive expected(Kind::max, c, out.shape(), x.to_vector<double>(), grad.to_vector<double>());
            check_close(x.grad(), expected.grad_x, 0.0);
        }
    });
}

TEST_CASE("max_pool2d answers NaN for a window with NaN, whatever the number of channels", "[pool]") {
    test::for_each_device([](Device device) {
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
            INFO(name_of(dtype));
            for (std::int64_t channels = 1; channels <= 70; channels += channels < 9 ? 1 : 20) {
                INFO(channels << " channels");
                Values values;
                for (std::int64_t i = 0; i < channels; ++i)
                    values.insert(values.end(), {1, 2, 3, std::nan("")});
                const Tensor x = from_data<double>(values, {1, channels, 2, 2},
                                                   {.dtype = dtype, .device = device, .requires_grad = true});
                const Tensor out = max_pool2d(x, {});
                for (const double value : out.to_vector<double>())
                    CHECK(std::isnan(value));
                out.backward(ones(out.shape(), {.dtype = dtype, .device = device}));
                const Values grad = x.grad().to_vector<double>();
                for (std::size_t i = 0; i < grad.size(); ++i)
                    CHECK(grad[i] == (i % 4 == 3 ? 1.0 : 0.0));
            }
        }
    });
}

TEST_CASE("max_pool2d finds a maximum of minus infinity, and none in a window outside the image", "[pool]") {
    test::for_each_device([](Device device) {
        const double low = -std::numeric_limits<double>::infinity();
        const Tensor x = full({1, 3, 2, 2}, low, {.device = device, .requires_grad = true});
        const Tensor out = max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
        CHECK(out.to_vector<double>() == Values(3, low));
        out.backward(ones(out.shape(), {.device = device}));
        CHECK(x.grad().to_vector<double>() == Values{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0});

        // Both rows of taps fall into the padding above and below.
        const Tensor y = ones({1, 1, 4, 2}, {.device = device, .requires_grad = true});
        const Tensor nothing =
            max_pool2d(y, {.kernel = {2, 1}, .stride = {1, 1}, .padding = {1, 0}, .dilation = {5, 1}});
        CHECK(nothing.to_vector<double>() == Values(2, low));
        nothing.backward(ones(nothing.shape(), {.device = device}));
        CHECK(y.grad().to_vector<double>() == Values(8, 0.0));
    });
}

TEST_CASE("max_pool2d looks through a dilated window", "[pool]") {
    test::for_each_device([](Device device) {
        const Case c{"dilated",
                     {2, 19, 9, 8},
                     {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .dilation = {2, 3}}};
        Generator generator(6);
        const Tensor x = uniform(c.shape, -1, 1, {.device = device, .requires_grad = true}, generator);
        const Tensor out = max_pool2d(x, c.params);
        const Tensor grad = uniform(out.shape(), -1, 1, {.device = device}, generator);
        out.backward(grad);
        const Naive expected(Kind::max, c, out.shape(), x.to_vector<double>(), grad.to_vector<double>());
        check_close(out, expected.out, 0.0);
        check_close(x.grad(), expected.grad_x, 1e-6);
    });
}

TEST_CASE("avg_pool2d counts the padding or leaves it out", "[pool]") {
    test::for_each_device([](Device device) {
        const Tensor x = tensor<float>({1, 2, 3, 4}, {1, 1, 2, 2}, device);
        Pool2dParams params{.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
        for (const double value : avg_pool2d(x, params).to_vector<double>())
            CHECK(value == Catch::Approx(1.1111111).epsilon(1e-6));
        params.count_include_pad = false;
        for (const double value : avg_pool2d(x, params).to_vector<double>())
            CHECK(value == 2.5);
    });
}

TEST_CASE("adaptive_avg_pool2d averages the windows that its output size implies", "[pool]") {
    const Shape shape =
        GENERATE(Shape{2, 5, 7, 7}, Shape{3, 130, 1, 1}, Shape{1, 3, 5, 8}, Shape{2, 2, 3, 2});
    const std::array<std::int64_t, 2> size =
        GENERATE(std::array<std::int64_t, 2>{1, 1}, std::array<std::int64_t, 2>{2, 3},
                 std::array<std::int64_t, 2>{5, 8});
    INFO(to_string(shape) << " to " << size[0] << " x " << size[1]);
    test::for_each_device([&](Device device) {
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
            Generator generator(14);
            const Tensor x =
                uniform(shape, -2, 2, {.dtype = dtype, .device = device, .requires_grad = true}, generator);
            const Tensor out = adaptive_avg_pool2d(x, size);
            REQUIRE(out.shape() == Shape{shape[0], shape[1], size[0], size[1]});
            const Tensor grad = uniform(out.shape(), -1, 1, {.dtype = dtype, .device = device}, generator);
            out.backward(grad);
            const Values xs = x.to_vector<double>();
            const Values gs = grad.to_vector<double>();
            Values expected(gs.size(), 0.0);
            Values grad_x(xs.size(), 0.0);
            std::size_t at = 0;
            for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
                for (std::int64_t oy = 0; oy < size[0]; ++oy)
                    for (std::int64_t ox = 0; ox < size[1]; ++ox, ++at) {
                        const auto low = [](std::int64_t i, std::int64_t n, std::int64_t outs) {
                            return i * n / outs;
                        };
                        const auto high = [](std::int64_t i, std::int64_t n, std::int64_t outs) {
                            return static_cast<std::int64_t>(
                                std::ceil(static_cast<double>((i + 1) * n) / static_cast<double>(outs)));
                        };
                        const std::int64_t y0 = low(oy, shape[2], size[0]);
                        const std::int64_t y1 = high(oy, shape[2], size[0]);
                        const std::int64_t x0 = low(ox, shape[3], size[1]);
                        const std::int64_t x1 = high(ox, shape[3], size[1]);
                        const auto count = static_cast<double>((y1 - y0) * (x1 - x0));
                        for (std::int64_t y = y0; y < y1; ++y)
                            for (std::int64_t xx = x0; xx < x1; ++xx) {
                                const auto i =
                                    static_cast<std::size_t>((plane * shape[2] + y) * shape[3] + xx);
                                expected[at] += xs[i] / count;
                                grad_x[i] += gs[at] / count;
                            }
                    }
            check_close(out, expected, tolerance(dtype));
            check_close(x.grad(), grad_x, tolerance(dtype));
        }
    });
}

TEST_CASE("pooling passes the finite-difference check", "[pool]") {
    test::for_each_device([](Device device) {
        Generator generator(3);
        const TensorOptions options{.dtype = DType::f64, .device = device, .requires_grad = true};
        const Tensor x = uniform({2, 3, 6, 5}, -1, 1, options, generator);
        const Pool2dParams params{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
        for (const GradcheckResult& result :
             {gradcheck([&](const std::vector<Tensor>& in) { return max_pool2d(in[0], params); }, {x}),
              gradcheck([&](const std::vector<Tensor>& in) { return avg_pool2d(in[0], params); }, {x}),
              gradcheck(
                  [&](const std::vector<Tensor>& in) {
                      return adaptive_avg_pool2d(in[0], {2, 4});
                  },
                  {x})}) {
            INFO(result.message);
            CHECK(result.passed);
        }
    });
}

TEST_CASE("pooling is defined for batches of zero and refuses images of zero", "[pool]") {
    test::for_each_device([](Device device) {
        const Tensor x = zeros({0, 3, 4, 4}, {.device = device, .requires_grad = true});
        const Tensor out = max_pool2d(x, {});
        CHECK(out.shape() == Shape{0, 3, 2, 2});
        out.backward(zeros(out.shape(), {.device = device}));
        CHECK(x.grad().shape() == x.shape());
        CHECK(avg_pool2d(x, {}).shape() == Shape{0, 3, 2, 2});
        CHECK(adaptive_avg_pool2d(x, {1, 1}).shape() == Shape{0, 3, 1, 1});
        CHECK_THROWS_AS(max_pool2d(zeros({1, 3, 0, 4}), {.kernel = {2, 2}, .padding = {1, 1}}), ShapeError);
        CHECK_THROWS_AS(adaptive_avg_pool2d(zeros({1, 3, 0, 4}), {1, 1}), ShapeError);
    });
}

TEST_CASE("pooling refuses what does not fit and says what would", "[pool]") {
    const Tensor x = zeros({1, 2, 4, 4});
    CHECK_THROWS_WITH(max_pool2d(zeros({2, 4, 4}), {}), "max_pool2d: x [2, 4, 4] must be 4-D [N, C, H, W]");
    CHECK_THROWS_WITH(
        max_pool2d(x, {.kernel = {5, 2}}),
        "max_pool2d: kernel [5, 2] with dilation [1, 1] spans 5 rows, but x [1, 2, 4, 4] has only 4 "
        "with padding [0, 0]");
    CHECK_THROWS_WITH(avg_pool2d(x, {.kernel = {2, 2}, .padding = {2, 0}}),
                      "avg_pool2d: padding [2, 0] must be at most half of kernel [2, 2]");
    CHECK_THROWS_AS(max_pool2d(x, {.kernel = {0, 2}}), ValueError);
    CHECK_THROWS_AS(max_pool2d(x, {.stride = {1, 0}}), ValueError);
    CHECK_THROWS_AS(max_pool2d(x, {.padding = {-1, 0}}), ValueError);
    CHECK_THROWS_AS(max_pool2d(x, {.dilation = {0, 1}}), ValueError);
    CHECK_THROWS_WITH(avg_pool2d(x, {.dilation = {2, 1}}), "avg_pool2d: dilation [2, 1] must be [1, 1]");
    CHECK_THROWS_WITH(adaptive_avg_pool2d(x, {0, 1}),
                      "adaptive_avg_pool2d: output size [0, 1] must be from 1 to 2147483647");
    CHECK_THROWS_AS(max_pool2d({}, {}), ValueError);
    CHECK_THROWS_AS(max_pool2d(x.to(DType::i32), {}), DTypeError);
}
