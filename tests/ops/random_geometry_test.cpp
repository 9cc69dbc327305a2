#include "core/autograd.h"
#include "core/ops/batch_norm.h"
#include "core/ops/conv.h"
#include "core/ops/matmul.h"
#include "core/ops/pool.h"
#include "core/ops/shape.h"
#include "core/random.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/ops/elements.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace fulcrum;

namespace {

using Values = std::vector<double>;

/// Draws sizes and tensors.
class Dice {
  public:
    explicit Dice(std::uint64_t stream) : stream_(20260, stream) {}

    std::int64_t from(std::int64_t low, std::int64_t high) {
        return low + stream_.below(static_cast<std::uint32_t>(high - low + 1));
    }
    bool coin() { return stream_.below(2) == 1; }

    /// Values that `dtype` holds, in a random order in memory, a leaf with gradients.
    Tensor variable(const Shape& shape, DType dtype, Device device) {
        Tensor x = any_layout(shape, dtype, device);
        return x.set_requires_grad();
    }
    /// The same without gradients.
    Tensor any_layout(const Shape& shape, DType dtype, Device device) {
        Values values(static_cast<std::size_t>(element_count(shape)));
        for (double& value : values)
            value = 2.0 * stream_.uniform() - 1.0;
        const auto rank = static_cast<std::int64_t>(shape.size());
        if (rank < 2 || coin()) return from_data<double>(values, shape, {.dtype = dtype, .device = device});
        const std::int64_t a = from(0, rank - 1);
        const std::int64_t b = from(0, rank - 1);
        Shape swapped = shape;
        std::swap(swapped[static_cast<std::size_t>(a)], swapped[static_cast<std::size_t>(b)]);
        const Tensor stored = from_data<double>(values, swapped, {.dtype = dtype, .device = device});
        return transpose(stored, a, b).detach();
    }

  private:
    RandomStream stream_;
};

/// Sums of products and, for the tolerance, of their magnitudes.
struct Sums {
    explicit Sums(std::size_t count) : value(count, 0.0), size(count, 0.0) {}
    void add(std::int64_t at, double term) {
        value[static_cast<std::size_t>(at)] += term;
        size[static_cast<std::size_t>(at)] += std::abs(term);
    }
    Values value, size;
};

constexpr double kSumError = 4e-6;

/// One rounding of the result's type beside the error of the sum, relative to the magnitude of its terms.
void check(const std::string& what, const Tensor& got, const Sums& want, double sum_error = kSumError) {
    REQUIRE(got.defined());
    const Values values = test::read_by_strides(got);
    REQUIRE(values.size() == want.value.size());
    const double rounding = got.dtype() == DType::bf16 ? 0x1p-8 : 0x1p-23;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double allowed = rounding * std::abs(want.value[i]) + sum_error * want.size[i] + 1e-7;
        if (!(std::abs(values[i] - want.value[i]) <= allowed)) {
            FAIL_CHECK(what << "[" << i << "] is " << values[i] << ", not " << want.value[i]);
            return;
        }
    }
}

Sums exactly(const Values& values) {
    Sums sums(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        sums.add(static_cast<std::int64_t>(i), values[i]);
    return sums;
}

std::size_t count(const Tensor& x) {
    return static_cast<std::size_t>(x.numel());
}

std::string text(const std::array<std::int64_t, 2>& pair) {
    return std::to_string(pair[0]) + "x" + std::to_string(pair[1]);
}

void convolve(Dice& dice, Device device) {
    const DType dtype = dice.coin() ? DType::f32 : DType::bf16;
    const DType weight_dtype = dtype == DType::bf16 && dice.coin() ? DType::bf16 : DType::f32;
    Conv2dParams p;
    p.groups = dice.from(0, 3) == 0 ? dice.from(2, 3) : 1;
    p.stride = {dice.from(1, 3), dice.from(1, 3)};
    p.padding = {dice.from(0, 4), dice.from(0, 4)};
    p.dilation = {dice.from(1, 3), dice.from(1, 3)};
    const std::int64_t ci = dice.from(1, dice.coin() ? 3 : 19);
    const std::int64_t co = dice.from(1, dice.coin() ? 3 : 19);
    const std::array<std::int64_t, 2> k{dice.from(1, 4), dice.from(1, 4)};
    std::array<std::int64_t, 2> size{};
    for (std::size_t d = 0; d < 2; ++d) {
        const std::int64_t least = p.dilation[d] * (k[d] - 1) + 1 - 2 * p.padding[d];
        size[d] = std::max<std::int64_t>(1, least) + dice.from(0, 6);
    }
    const Tensor x = dice.variable({dice.from(1, 3), ci * p.groups, size[0], size[1]}, dtype, device);
    const Tensor w = dice.variable({co * p.groups, ci, k[0], k[1]}, weight_dtype, device);
    const Tensor b = dice.coin() ? dice.variable({co * p.groups}, weight_dtype, device) : Tensor();
    const Tensor out = conv2d(x, w, b, p);
    const Tensor upstream = dice.any_layout(out.shape(), dtype, device);
    out.backward(upstream);

    INFO("conv2d " << to_string(x.shape()) << " " << name_of(dtype) << ", weight " << to_string(w.shape())
                   << " " << name_of(weight_dtype) << ", stride " << text(p.stride) << ", padding "
                   << text(p.padding) << ", dilation " << text(p.dilation) << ", groups " << p.groups);
    const Values xs = test::read_by_strides(x);
    const Values ws = test::read_by_strides(w);
    const Values bs = b.defined() ? test::read_by_strides(b) : Values();
    const Values gs = test::read_by_strides(upstream);
    Sums y(count(out));
    Sums dx(count(x));
    Sums dw(count(w));
    Sums db(static_cast<std::size_t>(w.size(0)));
    for (std::int64_t at = 0; at < out.numel(); ++at) {
        const std::int64_t ox = at % out.size(3);
        const std::int64_t oy = at / out.size(3) % out.size(2);
        const std::int64_t o = at / out.size(3) / out.size(2) % out.size(1);
        const std::int64_t n = at / out.size(3) / out.size(2) / out.size(1);
        const double g = gs[static_cast<std::size_t>(at)];
        db.add(o, g);
        if (b.defined()) y.add(at, bs[static_cast<std::size_t>(o)]);
        for (std::int64_t i = 0; i < ci; ++i) {
            for (std::int64_t r = 0; r < k[0]; ++r) {
                for (std::int64_t s = 0; s < k[1]; ++s) {
                    const std::int64_t iy = oy * p.stride[0] + r * p.dilation[0] - p.padding[0];
                    const std::int64_t ix = ox * p.stride[1] + s * p.dilation[1] - p.padding[1];
                    if (iy < 0 || iy >= size[0] || ix < 0 || ix >= size[1]) continue;
                    const std::int64_t c = o / co * ci + i;
                    const std::int64_t xi = ((n * x.size(1) + c) * size[0] + iy) * size[1] + ix;
                    const std::int64_t wi = ((o * ci + i) * k[0] + r) * k[1] + s;
                    y.add(at, xs[static_cast<std::size_t>(xi)] * ws[static_cast<std::size_t>(wi)]);
                    dx.add(xi, g * ws[static_cast<std::size_t>(wi)]);
                    dw.add(wi, g * xs[static_cast<std::size_t>(xi)]);
                }
            }
        }
    }
    // Weights of f32 beside 16-bit activations may be rounded to the activations' type.
    const double sum_error = weight_dtype == dtype ? kSumError : 0x1p-8;
    check("y", out, y, sum_error);
    check("dx", x.grad(), dx, sum_error);
    check("dw", w.grad(), dw);
    if (b.defined()) check("db", b.grad(), db);
}

/// `[..., m, k] x [..., k, n]`, either batch with sizes of 1 or without its outer dimension.
void multiply(Dice& dice, Device device) {
    const DType dtype = dice.coin() ? DType::f32 : DType::bf16;
    const std::int64_t m = dice.from(1, 17);
    const std::int64_t k = dice.from(1, 33);
    const std::int64_t n = dice.from(1, 17);
    const std::array<std::int64_t, 2> batch{dice.from(1, 3), dice.from(1, 3)};
    const auto draw = [&](std::int64_t rows, std::int64_t columns) {
        Shape shape{dice.coin() ? batch[0] : 1, dice.coin() ? batch[1] : 1, rows, columns};
        const std::int64_t dropped = dice.from(0, 2);
        for (std::int64_t d = 0; d < dropped; ++d)
            shape.erase(0);
        return dice.variable(shape, dtype, device);
    };
    const Tensor a = draw(m, k);
    const Tensor b = draw(k, n);
    const Tensor out = matmul(a, b);
    const Tensor upstream = dice.any_layout(out.shape(), dtype, device);
    out.backward(upstream);

    INFO("matmul " << to_string(a.shape()) << " x " << to_string(b.shape()) << " " << name_of(dtype));
    const Values as = test::read_by_strides(a);
    const Values bs = test::read_by_strides(b);
    const Values gs = test::read_by_strides(upstream);
    const auto matrix_of = [&](const Tensor& x, std::int64_t matrix) {
        std::array<std::int64_t, 2> outer{1, 1};
        for (std::int64_t d = 0; d < 2; ++d) {
            if (out.dim() - 4 + d >= 0) outer[static_cast<std::size_t>(d)] = out.size(out.dim() - 4 + d);
        }
        const std::int64_t last = x.dim() < 3 || x.size(-3) == 1 ? 0 : matrix % outer[1];
        const std::int64_t first = x.dim() < 4 || x.size(0) == 1 ? 0 : matrix / outer[1];
        return first * (x.dim() < 3 ? 1 : x.size(-3)) + last;
    };
    Sums y(count(out));
    Sums da(count(a));
    Sums db(count(b));
    for (std::int64_t at = 0; at < out.numel(); ++at) {
        const std::int64_t row = at / n % m;
        const std::int64_t matrix = at / n / m;
        for (std::int64_t i = 0; i < k; ++i) {
            const std::int64_t ai = (matrix_of(a, matrix) * m + row) * k + i;
            const std::int64_t bi = (matrix_of(b, matrix) * k + i) * n + at % n;
            y.add(at, as[static_cast<std::size_t>(ai)] * bs[static_cast<std::size_t>(bi)]);
            da.add(ai, gs[static_cast<std::size_t>(at)] * bs[static_cast<std::size_t>(bi)]);
            db.add(bi, gs[static_cast<std::size_t>(at)] * as[static_cast<std::size_t>(ai)]);
        }
    }
    check("y", out, y);
    check("da", a.grad(), da);
    check("db", b.grad(), db);
}

void project(Dice& dice, Device device) {
    const DType dtype = dice.coin() ? DType::f32 : DType::bf16;
    const DType weight_dtype = dtype == DType::bf16 && dice.coin() ? DType::bf16 : DType::f32;
    const std::int64_t in = dice.from(1, 40);
    const std::int64_t out_features = dice.from(1, 20);
    Shape shape{dice.from(1, 4), dice.from(1, 5), in};
    const std::int64_t dropped = dice.from(0, 2);
    for (std::int64_t d = 0; d < dropped; ++d)
        shape.erase(0);
    const Tensor x = dice.variable(shape, dtype, device);
    const Tensor w = dice.variable({out_features, in}, weight_dtype, device);
    const Tensor out = linear(x, w);
    const Tensor upstream = dice.any_layout(out.shape(), dtype, device);
    out.backward(upstream);

    INFO("linear " << to_string(x.shape()) << " " << name_of(dtype) << ", weight " << to_string(w.shape())
                   << " " << name_of(weight_dtype));
    const Values xs = test::read_by_strides(x);
    const Values ws = test::read_by_strides(w);
    const Values gs = test::read_by_strides(upstream);
    Sums y(count(out));
    Sums dx(count(x));
    Sums dw(count(w));
    for (std::int64_t at = 0; at < out.numel(); ++at) {
        for (std::int64_t i = 0; i < in; ++i) {
            const auto xi = static_cast<std::size_t>(at / out_features * in + i);
            const auto wi = static_cast<std::size_t>(at % out_features * in + i);
            y.add(at, xs[xi] * ws[wi]);
            dx.add(static_cast<std::int64_t>(xi), gs[static_cast<std::size_t>(at)] * ws[wi]);
            dw.add(static_cast<std::int64_t>(wi), gs[static_cast<std::size_t>(at)] * xs[xi]);
        }
    }
    check("y", out, y);
    check("dx", x.grad(), dx);
    check("dw", w.grad(), dw);
}

void normalise(Dice& dice, Device device) {
    const DType dtype = dice.coin() ? DType::f32 : DType::bf16;
    const std::int64_t channels = dice.from(1, 35);
    const std::int64_t pixels = dice.coin() ? 1 : dice.from(1, 6);
    const Shape shape = pixels == 1 && dice.coin()
                            ? Shape{dice.from(4, 9), channels}
                            : Shape{dice.from(4, 9), channels, pixels, dice.from(1, 4)};
    const Tensor x = dice.variable(shape, dtype, device);
    const Tensor w = dice.variable({channels}, DType::f32, device);
    const Tensor b = dice.variable({channels}, DType::f32, device);
    const Tensor residual = dice.coin() ? dice.variable(shape, dtype, device) : Tensor();
    const Tensor mean = zeros({channels}, {.device = device});
    const Tensor variance = ones({channels}, {.device = device});
    const BatchNormParams params{.momentum = 0.3, .eps = 0.05, .relu = dice.coin()};
    const Tensor out = batch_norm(x, w, b, mean, variance, params, residual);
    const Tensor upstream = dice.any_layout(shape, dtype, device);
    out.backward(upstream);

    INFO("batch_norm " << to_string(shape) << " " << name_of(dtype) << ", relu " << params.relu
                       << ", residual " << residual.defined());
    const Values xs = test::read_by_strides(x);
    const Values ws = test::read_by_strides(w);
    const Values bs = test::read_by_strides(b);
    const Values rs = residual.defined() ? test::read_by_strides(residual) : Values(xs.size(), 0.0);
    const Values gs = test::read_by_strides(upstream);
    // The mask is the one that was rounded: a value that rounds to zero has no gradient.
    const Values ys = test::read_by_strides(out);
    const std::int64_t inner = x.numel() / shape[0] / channels;
    const double n = static_cast<double>(x.numel() / channels);
    const auto channel = [&](std::size_t i) {
        return i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(channels);
    };
    const auto cs = static_cast<std::size_t>(channels);
    Values m(cs, 0.0);
    Values v(cs, 0.0);
    for (std::size_t i = 0; i < xs.size(); ++i)
        m[channel(i)] += xs[i] / n;
    for (std::size_t i = 0; i < xs.size(); ++i)
        v[channel(i)] += (xs[i] - m[channel(i)]) * (xs[i] - m[channel(i)]) / n;
    Sums y(xs.size());
    Sums dx(xs.size());
    Sums dr(xs.size());
    Sums dw(cs);
    Sums db(cs);
    const auto masked = [&](std::size_t i) { return params.relu && !(ys[i] > 0.0) ? 0.0 : gs[i]; };
    const auto normal = [&](std::size_t i) {
        return (xs[i] - m[channel(i)]) / std::sqrt(v[channel(i)] + params.eps);
    };
    for (std::size_t i = 0; i < xs.size(); ++i) {
        const std::size_t c = channel(i);
        const double value = normal(i) * ws[c] + bs[c] + rs[i];
        y.value[i] = params.relu ? std::max(0.0, value) : value;
        y.size[i] = std::abs(normal(i) * ws[c]) + std::abs(bs[c]) + std::abs(rs[i]);
        dr.add(static_cast<std::int64_t>(i), masked(i));
        dw.add(static_cast<std::int64_t>(c), masked(i) * normal(i));
        db.add(static_cast<std::int64_t>(c), masked(i));
    }
    for (std::size_t i = 0; i < xs.size(); ++i) {
        const std::size_t c = channel(i);
        const double factor = ws[c] / std::sqrt(v[c] + params.eps);
        dx.add(static_cast<std::int64_t>(i), factor * masked(i));
        dx.add(static_cast<std::int64_t>(i), -factor * db.value[c] / n);
        dx.add(static_cast<std::int64_t>(i), -factor * normal(i) * dw.value[c] / n);
    }
    check("y", out, y);
    check("dx", x.grad(), dx);
    check("dw", w.grad(), dw);
    check("db", b.grad(), db);
    if (residual.defined()) check("dr", residual.grad(), dr);
    Values new_mean(cs);
    Values new_variance(cs);
    for (std::size_t c = 0; c < cs; ++c) {
        new_mean[c] = 0.3 * m[c];
        new_variance[c] = 0.7 + 0.3 * v[c] * n / (n - 1.0);
    }
    check("running mean", mean, exactly(new_mean));
    check("running variance", variance, exactly(new_variance));
}

enum class Pool : std::uint8_t { maximum, average, adaptive };

/// The pixels `begin, begin + step, ...` below `end` that one output looks at, and what its mean divides by.
struct Window {
    std::int64_t begin, end, step, divisor;
};

void pool(Dice& dice, Device device) {
    const DType dtype = dice.coin() ? DType::f32 : DType::bf16;
    const Pool kind = std::array{Pool::maximum, Pool::average, Pool::adaptive}.at(
        static_cast<std::size_t>(dice.from(0, 2)));
    Pool2dParams p;
    std::array<std::int64_t, 2> size{};
    std::array<std::int64_t, 2> outputs{dice.from(1, 6), dice.from(1, 6)};
    for (std::size_t d = 0; d < 2; ++d) {
        p.kernel[d] = dice.from(1, 5);
        p.stride[d] = dice.from(1, 4);
        p.padding[d] = dice.from(0, p.kernel[d] / 2);
        p.dilation[d] = kind == Pool::maximum ? dice.from(1, 3) : 1;
        const std::int64_t least = p.dilation[d] * (p.kernel[d] - 1) + 1 - 2 * p.padding[d];
        size[d] = std::max<std::int64_t>(1, least) + dice.from(0, 7);
    }
    p.ceil_mode = dice.coin();
    p.count_include_pad = dice.coin();
    const Tensor x = dice.variable({dice.from(1, 3), dice.from(1, 19), size[0], size[1]}, dtype, device);
    const Tensor out = kind == Pool::maximum   ? max_pool2d(x, p)
                       : kind == Pool::average ? avg_pool2d(x, p)
                                               : adaptive_avg_pool2d(x, outputs);
    const Tensor upstream = dice.any_layout(out.shape(), dtype, device);
    out.backward(upstream);

    INFO((kind == Pool::maximum   ? "max"
          : kind == Pool::average ? "avg"
                                  : "adaptive_avg")
         << "_pool2d " << to_string(x.shape()) << " " << name_of(dtype) << " to " << to_string(out.shape())
         << ", kernel " << text(p.kernel) << ", stride " << text(p.stride) << ", padding " << text(p.padding)
         << ", dilation " << text(p.dilation) << ", ceil " << p.ceil_mode << ", counted "
         << p.count_include_pad);
    const auto window = [&](std::size_t d, std::int64_t output) -> Window {
        if (kind == Pool::adaptive) {
            const std::int64_t all = out.size(static_cast<std::int64_t>(d) + 2);
            const std::int64_t begin = output * size[d] / all;
            const std::int64_t end = ((output + 1) * size[d] + all - 1) / all;
            return {begin, end, 1, end - begin};
        }
        const std::int64_t start = output * p.stride[d] - p.padding[d];
        const std::int64_t stop = start + p.dilation[d] * (p.kernel[d] - 1) + 1;
        std::int64_t begin = start;
        while (begin < 0)
            begin += p.dilation[d];
        const std::int64_t end = std::min(stop, size[d]);
        const std::int64_t counted = std::min(stop, size[d] + p.padding[d]) - start;
        return {begin, end, p.dilation[d], p.count_include_pad ? counted : end - begin};
    };
    const Values xs = test::read_by_strides(x);
    const Values gs = test::read_by_strides(upstream);
    Sums y(count(out));
    Sums dx(count(x));
    for (std::int64_t at = 0; at < out.numel(); ++at) {
        const Window rows = window(0, at / out.size(3) % out.size(2));
        const Window columns = window(1, at % out.size(3));
        const std::int64_t plane = at / out.size(3) / out.size(2) * size[0] * size[1];
        const double divisor = static_cast<double>(rows.divisor * columns.divisor);
        std::int64_t best = -1;
        for (std::int64_t r = rows.begin; r < rows.end; r += rows.step) {
            for (std::int64_t c = columns.begin; c < columns.end; c += columns.step) {
                const std::int64_t i = plane + r * size[1] + c;
                const double value = xs[static_cast<std::size_t>(i)];
                if (best < 0 || value > xs[static_cast<std::size_t>(best)]) best = i;
                if (kind == Pool::maximum) continue;
                y.add(at, value / divisor);
                dx.add(i, gs[static_cast<std::size_t>(at)] / divisor);
            }
        }
        if (kind != Pool::maximum) continue;
        y.add(at, best < 0 ? -test::kInfinity : xs[static_cast<std::size_t>(best)]);
        if (best >= 0) dx.add(best, gs[static_cast<std::size_t>(at)]);
    }
    if (kind == Pool::maximum) {
        CHECK(test::read_by_strides(out) == y.value);
    } else {
        check("y", out, y);
    }
    check("dx", x.grad(), dx);
}

/// `cases` draws, each from a stream of its own, so that a failing one can be run alone.
template <class Case>
void repeat(std::uint64_t family, std::uint64_t cases, Case run) {
    test::for_each_device([&](Device device) {
        for (std::uint64_t i = 0; i < cases; ++i) {
            INFO("case " << i);
            Dice dice(family * 1000 + i);
            run(dice, device);
        }
    });
}

}  // namespace

TEST_CASE("conv2d of random geometries agrees with plain loops", "[conv2d][random]") {
    repeat(1, 100, convolve);
}

TEST_CASE("matmul and linear of random sizes agree with plain loops", "[matmul][random]") {
    repeat(2, 60, multiply);
    repeat(3, 40, project);
}

TEST_CASE("batch_norm of random sizes agrees with plain loops", "[batch_norm][random]") {
    repeat(4, 60, normalise);
}

TEST_CASE("pooling of random geometries agrees with plain loops", "[pool][random]") {
    repeat(5, 90, pool);
}
