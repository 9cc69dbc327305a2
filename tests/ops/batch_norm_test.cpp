#include "core/ops/batch_norm.h"

#include "core/gradcheck.h"
#include "core/ops/shape.h"
#include "core/random.h"
#include "core/threads.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace fulcrum;
using test::for_each_device;
using Values = std::vector<double>;

namespace {

/// What the op must give, by plain loops over logical `[N, C, P]` values in double.
struct Naive {
    std::int64_t samples, channels, pixels;
    Values mean, variance;  // biased
    Values output;
    Values grad_x, grad_weight, grad_bias, grad_residual;

    std::size_t at(std::int64_t n, std::int64_t c, std::int64_t p) const {
        return static_cast<std::size_t>((n * channels + c) * pixels + p);
    }

    /// Calls `body(index)` on every value of channel `c`.
    template <class Body>
    void each(std::int64_t c, const Body& body) const {
        for (std::int64_t n = 0; n < samples; ++n) {
            for (std::int64_t p = 0; p < pixels; ++p)
                body(at(n, c, p));
        }
    }
};

struct Inputs {
    Tensor x, weight, bias, running_mean, running_var, residual, grad;
};

double or_else(const Values& values, std::size_t i, double otherwise) {
    return values.empty() ? otherwise : values[i];
}

Values values_of(const Tensor& tensor) {
    return tensor.defined() ? tensor.to_vector<double>() : Values{};
}

Naive naive(const Inputs& inputs, const BatchNormParams& params) {
    const Shape shape = inputs.x.shape();
    Naive r{shape[0], shape[1], inputs.x.numel() / (shape[0] * shape[1]), {}, {}, {}, {}, {}, {}, {}};
    const Values x = values_of(inputs.x);
    const Values weight = values_of(inputs.weight);
    const Values bias = values_of(inputs.bias);
    const Values residual = values_of(inputs.residual);
    const Values grad = values_of(inputs.grad);
    const double count = static_cast<double>(r.samples * r.pixels);
    r.output.resize(x.size());
    r.grad_x.resize(x.size());
    r.grad_residual.resize(x.size());
    for (std::int64_t c = 0; c < r.channels; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        double mean = 0.0;
        double variance = 0.0;
        r.each(c, [&](std::size_t i) { mean += x[i] / count; });
        r.each(c, [&](std::size_t i) { variance += (x[i] - mean) * (x[i] - mean) / count; });
        r.mean.push_back(mean);
        r.variance.push_back(variance);
        if (!params.training) {
            mean = values_of(inputs.running_mean)[channel];
            variance = values_of(inputs.running_var)[channel];
        }
        const double inverse = 1.0 / std::sqrt(variance + params.eps);
        const double scale = or_else(weight, channel, 1.0);
        double grad_weight = 0.0;
        double grad_bias = 0.0;
        r.each(c, [&](std::size_t i) {
            const double normalised = (x[i] - mean) * inverse;
            const double y = normalised * scale + or_else(bias, channel, 0.0) + or_else(residual, i, 0.0);
            r.output[i] = params.relu ? std::max(y, 0.0) : y;
            r.grad_residual[i] = params.relu && y <= 0.0 ? 0.0 : or_else(grad, i, 0.0);
            grad_weight += r.grad_residual[i] * normalised;
            grad_bias += r.grad_residual[i];
        });
        r.grad_weight.push_back(grad_weight);
        r.grad_bias.push_back(grad_bias);
        r.each(c, [&](std::size_t i) {
            double g = r.grad_residual[i];
            if (params.training) g -= (grad_bias + (x[i] - mean) * inverse * grad_weight) / count;
            r.grad_x[i] = g * scale * inverse;
        });
    }
    return r;
}

/// max|a - b| / max|b|, infinite where a NaN came out.
double distance(const Tensor& tensor, const Values& expected) {
    const Values actual = tensor.to_vector<double>();
    REQUIRE(actual.size() == expected.size());
    double error = 0.0;
    double largest = 0.0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
        if (std::isnan(actual[i])) return std::numeric_limits<double>::infinity();
        error = std::max(error, std::abs(actual[i] - expected[i]));
        largest = std::max(largest, std::abs(expected[i]));
    }
    return largest > 0.0 ? error / largest : error;
}

Inputs make_inputs(const Shape& shape, DType dtype, bool residual, Device device) {
    Generator generator(7);
    const MemoryFormat format = shape.size() == 4 ? MemoryFormat::channels_last : MemoryFormat::contiguous;
    const TensorOptions like_x = {.dtype = dtype, .device = device, .format = format};
    const TensorOptions per_channel = {.dtype = dtype == DType::f64 ? DType::f64 : DType::f32,
                                       .device = device};
    Inputs inputs;
    inputs.x = normal(shape, 0.5, 2.0, like_x, generator);
    inputs.grad = normal(shape, 0.0, 1.0, like_x, generator);
    if (residual) inputs.residual = normal(shape, 0.0, 1.0, like_x, generator);
    inputs.weight = uniform({shape[1]}, 0.5, 1.5, per_channel, generator);
    inputs.bias = uniform({shape[1]}, -0.5, 0.5, per_channel, generator);
    inputs.running_mean = uniform({shape[1]}, -1.0, 1.0, per_channel, generator);
    inputs.running_var = uniform({shape[1]}, 0.5, 2.0, per_channel, generator);
    return inputs;
}

Tensor run(const Inputs& inputs, const BatchNormParams& params) {
    return batch_norm(inputs.x, inputs.weight, inputs.bias, inputs.running_mean, inputs.running_var, params,
                      inputs.residual);
}

void check_against_naive(Inputs inputs, const BatchNormParams& params, double tolerance) {
    const Naive expected = naive(inputs, params);
    Values mean_after = values_of(inputs.running_mean);
    Values var_after = values_of(inputs.running_var);
    if (params.training) {
        const double count = static_cast<double>(expected.samples * expected.pixels);
        for (std::size_t c = 0; c < mean_after.size(); ++c) {
            mean_after[c] += params.momentum * (expected.mean[c] - mean_after[c]);
            var_after[c] += params.momentum * (expected.variance[c] * count / (count - 1.0) - var_after[c]);
        }
    }
    for (const Tensor& variable : {inputs.x, inputs.weight, inputs.bias, inputs.residual}) {
        if (Tensor leaf = variable; leaf.defined()) leaf.set_requires_grad();
    }
    const Tensor output = run(inputs, params);
    output.backward(inputs.grad);
    CHECK(output.dtype() == inputs.x.dtype());
    CHECK(distance(output, expected.output) < tolerance);
    CHECK(distance(inputs.running_mean, mean_after) < tolerance);
    CHECK(distance(inputs.running_var, var_after) < tolerance);
    CHECK(distance(inputs.x.grad(), expected.grad_x) < tolerance);
    CHECK(distance(inputs.weight.grad(), expected.grad_weight) < tolerance);
    CHECK(distance(inputs.bias.grad(), expected.grad_bias) < tolerance);
    if (inputs.residual.defined()) {
        CHECK(distance(inputs.residual.grad(), expected.grad_residual) < tolerance);
    }
}

}  // namespace

TEST_CASE("batch_norm and its gradients agree with plain loops", "[ops]") {
    const auto shape = GENERATE(Shape{4, 3, 5, 5}, Shape{2, 17, 7, 3}, Shape{8, 33, 1, 1}, Shape{16, 12},
                                Shape{3, 300, 2, 2}, Shape{20, 40, 6, 6}, Shape{3, 160, 5, 3});
    const bool training = GENERATE(true, false);
    const bool relu = GENERATE(true, false);
    const bool residual = GENERATE(true, false);
    CAPTURE(to_string(shape), training, relu, residual);
    const BatchNormParams params = {.training = training, .momentum = 0.3, .relu = relu};
    for_each_device([&](Device device) {
        check_against_naive(make_inputs(shape, DType::f64, residual, device), params, 1e-12);
        // One residual of a sum close to zero may fall on the other side of the ReLU in f32; the seed has
        // none.
        check_against_naive(make_inputs(shape, DType::f32, residual, device), params, 2e-6);
    });
}

TEST_CASE("batch_norm of 16-bit activations computes in f32", "[ops]") {
    const auto dtype = GENERATE(DType::bf16, DType::f16);
    const bool training = GENERATE(true, false);
    const bool relu = GENERATE(true, false);
    const BatchNormParams params = {.training = training, .relu = relu};
    for_each_device([&](Device device) {
        Inputs inputs = make_inputs({6, 32, 4, 4}, dtype, true, device);
        const Naive expected = naive(inputs, params);
        inputs.x.set_requires_grad();
        inputs.weight.set_requires_grad();
        const Tensor output = run(inputs, params);
        output.backward(inputs.grad);
        const double half_unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
        CHECK(output.dtype() == dtype);
        CHECK(distance(output, expected.output) < 1.01 * half_unit);
        CHECK(inputs.x.grad().dtype() == dtype);
        CHECK(distance(inputs.x.grad(), expected.grad_x) < 1.01 * half_unit);
        CHECK(inputs.weight.grad().dtype() == DType::f32);
        CHECK(distance(inputs.weight.grad(), expected.grad_weight) < 2e-6);
    });
}

TEST_CASE("batch_norm's gradients pass finite differences", "[ops][gradcheck]") {
    const bool training = GENERATE(true, false);
    const bool relu = GENERATE(true, false);
    const auto shape = GENERATE(Shape{3, 4, 3, 2}, Shape{5, 3});
    const BatchNormParams params = {.training = training, .relu = relu};
    for_each_device([&](Device device) {
        Inputs inputs = make_inputs(shape, DType::f64, true, device);
        for (Tensor variable : {inputs.x, inputs.weight, inputs.bias, inputs.residual})
            variable.set_requires_grad();
        const GradcheckResult result = gradcheck(
            [&](const std::vector<Tensor>& in) {
                return batch_norm(in[0], in[1], in[2], inputs.running_mean, inputs.running_var, params,
                                  in[3]);
            },
            {inputs.x, inputs.weight, inputs.bias, inputs.residual});
        INFO(result.message);
        CHECK(result.passed);
    });
}

TEST_CASE("batch_norm divides by n to normalise and by n - 1 for the running variance", "[ops]") {
    for_each_device([](Device device) {
        const Tensor x = tensor<float>({2, 15, 2, 1, 2, 17, 2, 1, -4, -2, -2, -1}, {3, 4, 1, 1}, device);
        const Tensor mean = zeros({4}, {.device = device});
        const Tensor variance = ones({4}, {.device = device});
        const Tensor output = batch_norm(x, {}, {}, mean, variance, {.momentum = 1.0});
        CHECK(distance(mean, {0.0, 10.0, 2.0 / 3.0, 1.0 / 3.0}) < 1e-6);
        CHECK(distance(variance, {12.0, 109.0, 16.0 / 3.0, 4.0 / 3.0}) < 1e-6);
        const Values values = output.to_vector<double>();
        CHECK(values[0] == Catch::Approx(0.7071063).epsilon(1e-6));
        CHECK(values[4] == Catch::Approx(0.7071063).epsilon(1e-6));
        CHECK(values[8] == Catch::Approx(-1.4142127).epsilon(1e-6));
    });
}

TEST_CASE("batch_norm keeps its precision under a mean much larger than the deviation", "[ops]") {
    for_each_device([](Device device) {
        Generator generator(3);
        Inputs inputs;
        inputs.x = normal({16, 5, 9, 9}, 1000.0, 0.5,
                          {.device = device, .format = MemoryFormat::channels_last}, generator);
        const Naive expected = naive(inputs, {});
        CHECK(distance(run(inputs, {}), expected.output) < 2e-6);
    });
}

TEST_CASE("batch_norm sees a jump inside a channel", "[ops]") {
    for_each_device([](Device device) {
        // The first rows say nothing of the rest: sums around a poor centre must not cancel.
        std::vector<float> values(1024, 0.25F);
        for (std::size_t i = 9; i < values.size(); ++i)
            values[i] = 5000.0F + static_cast<float>(i % 7);
        Inputs inputs;
        inputs.x = from_data<float>(values, {1024, 1}, {.device = device});
        const Naive expected = naive(inputs, {});
        CHECK(distance(run(inputs, {}), expected.output) < 2e-6);
    });
}

TEST_CASE("batch_norm of a constant channel gives the bias", "[ops]") {
    for_each_device([](Device device) {
        Inputs inputs = make_inputs({5, 3, 4, 4}, DType::f32, false, device);
        inputs.x = full({5, 3, 4, 4}, 3.3, {.device = device});
        const Values bias = values_of(inputs.bias);
        const Values output = run(inputs, {}).to_vector<double>();
        for (std::size_t i = 0; i < output.size(); ++i)
            CHECK(output[i] == Catch::Approx(bias[i / 16 % 3]).margin(1e-6));
    });
}

TEST_CASE("batch_norm does not depend on the layout it is given", "[ops]") {
    for_each_device([](Device device) {
        Inputs inputs = make_inputs({3, 5, 4, 6}, DType::f32, true, device);
        const BatchNormParams params = {.training = false, .relu = true};
        const Values expected = run(inputs, params).to_vector<double>();
        inputs.x = inputs.x.contiguous();
        inputs.residual = inputs.residual.contiguous();
        const Tensor output = run(inputs, params);
        CHECK(output.is_channels_last());
        CHECK(output.to_vector<double>() == expected);
    });
}

TEST_CASE("batch_norm works without parameters and without running statistics", "[ops]") {
    for_each_device([](Device device) {
        Inputs inputs = make_inputs({4, 6, 3, 3}, DType::f64, false, device);
        inputs.weight = inputs.bias = inputs.running_mean = inputs.running_var = {};
        inputs.x.set_requires_grad();
        const Naive expected = naive(inputs, {});
        const Tensor output = run(inputs, {});
        output.backward(inputs.grad);
        CHECK(distance(output, expected.output) < 1e-12);
        CHECK(distance(inputs.x.grad(), expected.grad_x) < 1e-12);
    });
}

TEST_CASE("batch_norm of a large tensor is that of its parts", "[ops]") {
    for_each_device([](Device device) {
        // 17 MB: large results may be written in another way than small ones.
        Inputs inputs = make_inputs({2, 64, 184, 184}, DType::f32, true, device);
        const BatchNormParams params = {.training = false, .relu = true};
        const auto gradients = [&](const Tensor& x, const Tensor& residual, const Tensor& grad) {
            Tensor leaf = x.detach();
            Tensor added = residual.detach();
            leaf.set_requires_grad();
            added.set_requires_grad();
            const Tensor output = batch_norm(leaf, inputs.weight, inputs.bias, inputs.running_mean,
                                             inputs.running_var, params, added);
            output.backward(grad);
            return std::array<std::vector<float>, 3>{
                output.to_vector<float>(), leaf.grad().to_vector<float>(), added.grad().to_vector<float>()};
        };
        const auto whole = gradients(inputs.x, inputs.residual, inputs.grad);
        for (std::int64_t part = 0; part < 2; ++part) {
            const auto half = gradients(narrow(inputs.x, 0, part, 1), narrow(inputs.residual, 0, part, 1),
                                        narrow(inputs.grad, 0, part, 1));
            for (std::size_t i = 0; i < half.size(); ++i) {
                const auto begin = whole[i].begin() + part * static_cast<std::ptrdiff_t>(half[i].size());
                CHECK(std::equal(half[i].begin(), half[i].end(), begin));
            }
        }
    });
}

TEST_CASE("batch_norm gives the same bits with any number of threads", "[ops]") {
    for_each_device([](Device device) {
        const int before = num_threads();
        std::vector<Values> results;
        for (const int threads : {1, 2, 3}) {
            set_num_threads(threads);
            const Inputs inputs = make_inputs({40, 24, 9, 9}, DType::f32, true, device);
            Tensor x = inputs.x;
            Tensor weight = inputs.weight;
            x.set_requires_grad();
            weight.set_requires_grad();
            run(inputs, {.relu = true}).backward(inputs.grad);
            results.push_back(x.grad().to_vector<double>());
            const Values of_weight = weight.grad().to_vector<double>();
            results.back().insert(results.back().end(), of_weight.begin(), of_weight.end());
        }
        set_num_threads(before);
        CHECK(results[0] == results[1]);
        CHECK(results[0] == results[2]);
    });
}

TEST_CASE("batch_norm's ReLU lets NaN through", "[ops]") {
    for_each_device([](Device device) {
        Inputs inputs = make_inputs({2, 2, 1, 1}, DType::f32, false, device);
        inputs.x = tensor<float>({std::numeric_limits<float>::quiet_NaN(), 1, 2, 3}, {2, 2, 1, 1}, device);
        const Values output = run(inputs, {.training = false, .relu = true}).to_vector<double>();
        CHECK(std::isnan(output[0]));
        CHECK_FALSE(std::isnan(output[1]));
    });
}

TEST_CASE("batch_norm of an empty batch is empty and leaves the statistics alone", "[ops]") {
    for_each_device([](Device device) {
        Inputs inputs = make_inputs({2, 3, 4, 4}, DType::f32, false, device);
        const Values mean = values_of(inputs.running_mean);
        inputs.x = zeros({0, 3, 4, 4}, {.device = device});
        inputs.x.set_requires_grad();
        inputs.weight.set_requires_grad();
        const Tensor output = run(inputs, {});
        CHECK(output.shape() == Shape{0, 3, 4, 4});
        CHECK(values_of(inputs.running_mean) == mean);
        output.backward(zeros({0, 3, 4, 4}, {.device = device}));
        CHECK(inputs.x.grad().shape() == Shape{0, 3, 4, 4});
        CHECK(values_of(inputs.weight.grad()) == Values{0.0, 0.0, 0.0});
    });
}

TEST_CASE("batch_norm takes one value per channel in evaluation and refuses it in training", "[ops]") {
    for_each_device([](Device device) {
        Inputs inputs = make_inputs({1, 4, 1, 1}, DType::f32, false, device);
        CHECK_THROWS_AS(run(inputs, {}), ShapeError);
        const BatchNormParams evaluation = {.training = false};
        CHECK(distance(run(inputs, evaluation), naive(inputs, evaluation).output) < 1e-6);
    });
}

TEST_CASE("batch_norm refuses arguments that do not fit", "[ops]") {
    for_each_device([](Device device) {
        const Inputs good = make_inputs({2, 3, 4, 4}, DType::f32, true, device);
        const auto with = [&](auto&& change, const BatchNormParams& params = {}) {
            Inputs inputs = good;
            change(inputs);
            return run(inputs, params);
        };
        const auto nothing = [](Inputs&) {};
        const TensorOptions on_device = {.device = device};
        const TensorOptions doubles = {.dtype = DType::f64, .device = device};
        CHECK_THROWS_AS(with([](Inputs& i) { i.x = {}; }), ValueError);
        CHECK_THROWS_AS(with([&](Inputs& i) { i.x = zeros({2, 3, 4}, on_device); }), ShapeError);
        CHECK_THROWS_AS(with([&](Inputs& i) {
                            i.x = zeros({2, 3, 4, 4}, {.dtype = DType::i64, .device = device});
                        }),
                        DTypeError);
        CHECK_THROWS_AS(with([&](Inputs& i) { i.weight = ones({4}, on_device); }), ShapeError);
        CHECK_THROWS_AS(with([&](Inputs& i) { i.bias = ones({3, 1}, on_device); }), ShapeError);
        CHECK_THROWS_AS(with([&](Inputs& i) { i.weight = ones({3}, doubles); }), DTypeError);
        CHECK_THROWS_AS(with([&](Inputs& i) { i.running_mean = ones({2}, on_device); }), ShapeError);
        CHECK_THROWS_AS(with([](Inputs& i) { i.running_var = {}; }), ValueError);
        CHECK_THROWS_AS(with([](Inputs& i) { i.running_mean = i.running_var = {}; }, {.training = false}),
                        ValueError);
        CHECK_THROWS_AS(with([&](Inputs& i) { i.residual = zeros({2, 3, 4, 5}, on_device); }), ShapeError);
        CHECK_THROWS_AS(with([&](Inputs& i) { i.residual = zeros({2, 3, 4, 4}, doubles); }), DTypeError);
        CHECK_THROWS_AS(with([&](Inputs& i) { i.running_mean = zeros({3}, on_device).set_requires_grad(); }),
                        AutogradError);
        CHECK_THROWS_AS(with(nothing, {.momentum = 1.5}), ValueError);
        CHECK_THROWS_AS(with(nothing, {.eps = -1.0}), ValueError);
        CHECK_THROWS_AS(with(nothing, {.eps = std::numeric_limits<double>::quiet_NaN()}), ValueError);
    });
}
