#include "core/ops/cross_entropy.h"

#include "core/gradcheck.h"
#include "core/ops/softmax.h"
#include "core/random.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace fulcrum;
using test::for_each_device;
using Values = std::vector<double>;

namespace {

/// Losses and gradients (for a gradient of `scale` for each sample) of `[N, C, P]` logits by plain loops.
struct Naive {
    Values losses, gradient;
};

Naive naive(const Values& logits, const std::vector<std::int64_t>& labels, std::size_t classes,
            std::size_t pixels, double smoothing, const Values& scale) {
    Naive result{Values(labels.size()), Values(logits.size())};
    for (std::size_t sample = 0; sample < labels.size(); ++sample) {
        const std::size_t first = sample / pixels * classes * pixels + sample % pixels;
        double top = logits[first];
        for (std::size_t c = 0; c < classes; ++c)
            top = std::max(top, logits[first + c * pixels]);
        double total = 0.0;
        for (std::size_t c = 0; c < classes; ++c)
            total += std::exp(logits[first + c * pixels] - top);
        for (std::size_t c = 0; c < classes; ++c) {
            const std::size_t at = first + c * pixels;
            const double log_prob = logits[at] - top - std::log(total);
            const bool own = static_cast<std::size_t>(labels[sample]) == c;
            const double target = (own ? 1.0 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
            if (target != 0.0) result.losses[sample] -= target * log_prob;
            result.gradient[at] = scale[sample] * (std::exp(log_prob) - target);
        }
    }
    return result;
}

double distance(const Values& actual, const Values& expected) {
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

/// Labels that visit all classes in a scrambled order.
Tensor make_labels(const Shape& shape, std::int64_t classes, Device device) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<std::int64_t>(i * 7 + 3) % classes;
    return from_data<std::int64_t>(values, shape, {.dtype = DType::i64, .device = device});
}

std::string message_of(const Tensor& logits, const Tensor& labels) {
    try {
        cross_entropy(logits, labels);
    } catch (const ValueError& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("cross_entropy and its gradient agree with plain loops", "[ops]") {
    const auto shape = GENERATE(Shape{8, 10}, Shape{1, 1000}, Shape{128, 10}, Shape{5, 3}, Shape{4, 1},
                                Shape{2, 5, 7}, Shape{2, 6, 3, 4});
    const double smoothing = GENERATE(0.0, 0.1, 1.0);
    const auto reduction = GENERATE(Reduction::none, Reduction::sum, Reduction::mean);
    const auto dtype = GENERATE(DType::f64, DType::f32, DType::bf16);
    CAPTURE(to_string(shape), smoothing, static_cast<int>(reduction), name_of(dtype));
    for_each_device([&](Device device) {
        Generator generator(4);
        Tensor logits = normal(shape, 0.0, 3.0, {.dtype = dtype, .device = device}, generator);
        logits.set_requires_grad();
        Shape label_shape = shape;
        label_shape.erase(1);
        const Tensor labels = make_labels(label_shape, shape[1], device);
        const Tensor loss = cross_entropy(logits, labels, {smoothing, reduction});
        CHECK(loss.dtype() == (dtype == DType::f64 ? DType::f64 : DType::f32));
        CHECK(loss.shape() == (reduction == Reduction::none ? label_shape : Shape{}));
        const Tensor grad =
            normal(loss.shape(), 0.5, 1.0, {.dtype = loss.dtype(), .device = device}, generator);
        loss.backward(grad);

        const auto samples = static_cast<std::size_t>(labels.numel());
        Values scale = grad.to_vector<double>();
        scale.resize(samples, scale[0]);
        if (reduction == Reduction::mean) {
            for (double& value : scale)
                value /= static_cast<double>(samples);
        }
        const auto classes = static_cast<std::size_t>(shape[1]);
        const Naive expected =
            naive(logits.to_vector<double>(), labels.to_vector<std::int64_t>(), classes,
                  static_cast<std::size_t>(logits.numel()) / classes / static_cast<std::size_t>(shape[0]),
                  smoothing, scale);
        Values losses = expected.losses;
        if (reduction != Reduction::none) {
            double total = 0.0;
            for (const double value : expected.losses)
                total += value;
            losses = {reduction == Reduction::sum ? total : total / static_cast<double>(samples)};
        }
        CHECK(distance(loss.to_vector<double>(), losses) < (dtype == DType::f64 ? 1e-13 : 1e-6));
        const double tolerance = dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 1e-6 : 0x1.1p-8;
        CHECK(logits.grad().dtype() == dtype);
        CHECK(distance(logits.grad().to_vector<double>(), expected.gradient) < tolerance);
    });
}

TEST_CASE("cross_entropy of large logits is exact and finite", "[ops]") {
    struct Case {
        std::vector<float> logits;
        std::int64_t label;
        double loss;
        Values gradient;
    };
    const std::vector<Case> cases = {{{-431, 279, 427}, 0, 858.0, {-1, 0, 1}},
                                     {{1e8F, 1e8F}, 1, 0.6931472, {0.5, -0.5}},
                                     {{1000, 0}, 1, 1000.0, {1, -1}}};
    for_each_device([&](Device device) {
        for (const Case& example : cases) {
            const auto classes = static_cast<std::int64_t>(example.logits.size());
            Tensor logits = from_data<float>(example.logits, {1, classes}, {.device = device});
            logits.set_requires_grad();
            const Tensor loss = cross_entropy(logits, tensor<std::int64_t>({example.label}, {1}, device));
            loss.backward();
            CHECK(loss.item() == Catch::Approx(example.loss).epsilon(1e-6));
            CHECK(distance(logits.grad().to_vector<double>(), example.gradient) < 1e-6);
        }
    });
}

TEST_CASE("cross_entropy names a label out of range and goes on working", "[ops]") {
    for_each_device([](Device device) {
        const Tensor logits = zeros({1, 5}, {.device = device});
        for (const std::int64_t label : {6, 5, -1}) {
            const Tensor labels = tensor<std::int64_t>({label}, {1}, device);
            const std::string message = message_of(logits, labels);
            CHECK(message.find("label " + std::to_string(label)) != std::string::npos);
            CHECK(message.find("5 classes") != std::string::npos);
            CHECK_THROWS_AS(nll_loss(logits, labels), ValueError);
            CHECK_THROWS_AS(count_correct(logits, labels), ValueError);
        }
        CHECK(cross_entropy(logits, tensor<std::int64_t>({4}, {1}, device)).item() ==
              Catch::Approx(1.6094379).epsilon(1e-6));
    });
}

TEST_CASE("cross_entropy's gradients pass finite differences", "[ops][gradcheck]") {
    const double smoothing = GENERATE(0.0, 0.2);
    const auto reduction = GENERATE(Reduction::none, Reduction::sum, Reduction::mean);
    const auto shape = GENERATE(Shape{4, 5}, Shape{2, 3, 2, 2});
    for_each_device([&](Device device) {
        Generator generator(9);
        Tensor logits = normal(shape, 0.0, 2.0, {.dtype = DType::f64, .device = device}, generator);
        logits.set_requires_grad();
        Shape label_shape = shape;
        label_shape.erase(1);
        const Tensor labels = make_labels(label_shape, shape[1], device);
        for (const bool fused : {true, false}) {
            const GradcheckResult result = gradcheck(
                [&](const std::vector<Tensor>& in) {
                    return fused ? cross_entropy(in[0], labels, {smoothing, reduction})
                                 : nll_loss(in[0], labels, reduction);
                },
                {logits});
            INFO(result.message);
            CHECK(result.passed);
        }
    });
}

TEST_CASE("nll_loss of log_softmax is cross_entropy", "[ops]") {
    const auto reduction = GENERATE(Reduction::none, Reduction::sum, Reduction::mean);
    const auto shape = GENERATE(Shape{6, 9}, Shape{2, 4, 5});
    for_each_device([&](Device device) {
        Generator generator(21);
        Tensor logits = normal(shape, 0.0, 2.0, {.dtype = DType::f64, .device = device}, generator);
        logits.set_requires_grad();
        Shape label_shape = shape;
        label_shape.erase(1);
        const Tensor labels = make_labels(label_shape, shape[1], device);
        const Tensor fused = cross_entropy(logits, labels, {.reduction = reduction});
        const Tensor grad =
            normal(fused.shape(), 0.0, 1.0, {.dtype = DType::f64, .device = device}, generator);
        fused.backward(grad);
        const Values expected = logits.grad().to_vector<double>();
        logits.zero_grad();
        const Tensor composed = nll_loss(log_softmax(logits, 1), labels, reduction);
        composed.backward(grad);
        CHECK(distance(composed.to_vector<double>(), fused.to_vector<double>()) < 1e-13);
        CHECK(distance(logits.grad().to_vector<double>(), expected) < 1e-13);
    });
}

TEST_CASE("cross_entropy of a NaN logit is NaN", "[ops]") {
    for_each_device([](Device device) {
        const float nan = std::numeric_limits<float>::quiet_NaN();
        const Tensor logits = tensor<float>({nan, 1, 2}, {1, 3}, device);
        CHECK(std::isnan(cross_entropy(logits, tensor<std::int64_t>({1}, {1}, device)).item()));
    });
}

TEST_CASE("cross_entropy of no samples", "[ops]") {
    for_each_device([](Device device) {
        Tensor logits = zeros({0, 4}, {.device = device});
        logits.set_requires_grad();
        const Tensor labels = zeros({0}, {.dtype = DType::i64, .device = device});
        CHECK(std::isnan(cross_entropy(logits, labels).item()));
        CHECK(cross_entropy(logits, labels, {.reduction = Reduction::sum}).item() == 0.0);
        const Tensor losses = cross_entropy(logits, labels, {.reduction = Reduction::none});
        CHECK(losses.shape() == Shape{0});
        losses.backward(zeros({0}, {.device = device}));
        CHECK(logits.grad().shape() == Shape{0, 4});
        CHECK(nll_loss(logits, labels, Reduction::sum).item() == 0.0);
        CHECK(count_correct(logits, labels).item() == 0.0);
    });
}

TEST_CASE("count_correct takes the first of equal maxima and holds NaN for wrong", "[ops]") {
    const auto dtype = GENERATE(DType::f64, DType::f32, DType::bf16);
    for_each_device([&](Device device) {
        const double nan = std::numeric_limits<double>::quiet_NaN();
        const Tensor logits = tensor<double>({3,   1,   2,    //
                                              2,   5,   5,    //
                                              2,   5,   5,    //
                                              nan, 1,   0,    //
                                              1,   nan, 0,    //
                                              0,   1,   nan,  //
                                              -1,  -2,  -3},  //
                                             {7, 3}, device)
                                  .to(dtype);
        const auto count = [&](std::initializer_list<std::int64_t> labels) {
            const Tensor result = count_correct(logits, tensor<std::int64_t>(labels, {7}, device));
            CHECK(result.dtype() == DType::i64);
            return result.item();
        };
        CHECK(count({0, 1, 1, 0, 0, 1, 0}) == 4.0);
        CHECK(count({0, 2, 1, 0, 1, 2, 0}) == 3.0);
        CHECK(count({1, 0, 0, 1, 2, 0, 2}) == 0.0);
    });
}

TEST_CASE("cross_entropy refuses arguments that do not fit", "[ops]") {
    for_each_device([](Device device) {
        const Tensor logits = zeros({2, 3}, {.device = device});
        const Tensor labels = zeros({2}, {.dtype = DType::i64, .device = device});
        const TensorOptions integers = {.dtype = DType::i64, .device = device};
        CHECK_THROWS_AS(cross_entropy({}, labels), ValueError);
        CHECK_THROWS_AS(cross_entropy(logits, {}), ValueError);
        CHECK_THROWS_AS(cross_entropy(logits, zeros({3}, integers)), ShapeError);
        CHECK_THROWS_AS(cross_entropy(logits, zeros({2, 1}, integers)), ShapeError);
        CHECK_THROWS_AS(cross_entropy(zeros({3}, {.device = device}), labels), ShapeError);
        CHECK_THROWS_AS(cross_entropy(zeros({2, 0}, {.device = device}), labels), ShapeError);
        CHECK_THROWS_AS(cross_entropy(logits, zeros({2}, {.device = device})), DTypeError);
        CHECK_THROWS_AS(cross_entropy(zeros({2, 3}, integers), labels), DTypeError);
        CHECK_THROWS_AS(cross_entropy(logits, labels, {.label_smoothing = -0.1}), ValueError);
        CHECK_THROWS_AS(cross_entropy(logits, labels, {.label_smoothing = 1.5}), ValueError);
        CHECK_THROWS_AS(nll_loss(logits, zeros({2, 2}, integers)), ShapeError);
        CHECK_THROWS_AS(count_correct(logits, zeros({1}, integers)), ShapeError);
    });
}
