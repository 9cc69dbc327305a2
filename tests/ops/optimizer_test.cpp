#include "core/ops/optimizer.h"

#include "core/backend.h"
#include "core/random.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

using namespace fulcrum;
using test::for_each_device;
using Values = std::vector<double>;

namespace {

constexpr std::int64_t kSteps = 5;

/// Two slices of awkward lengths, so that no step may assume whole vectors or one slice.
struct Model {
    Model(DType dtype, Device device, int states) {
        Generator generator(17);
        const TensorOptions options = {.dtype = dtype, .device = device};
        for (const std::int64_t length : {std::int64_t{37}, std::int64_t{20011}}) {
            OptimizerSlice slice;
            slice.param = normal({length}, 0.0, 1.0, options, generator);
            if (states > 0) slice.state1 = zeros({length}, options);
            if (states > 1) slice.state2 = zeros({length}, options);
            slices.push_back(slice);
            for (std::int64_t step = 0; step < kSteps; ++step)
                grads.push_back(normal({length}, 0.0, 1.0, options, generator));
        }
    }

    /// Points each slice at its gradient of a step.
    void set_step(std::int64_t step) {
        for (std::size_t i = 0; i < slices.size(); ++i) {
            slices[i].grad = grads[i * kSteps + static_cast<std::size_t>(step)];
            slices[i].first_step = step == 0;
        }
    }

    std::vector<OptimizerSlice> slices;
    std::vector<Tensor> grads;
};

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

double tolerance(DType dtype) {
    return dtype == DType::f64 ? 1e-13 : 1e-6;
}

/// One parameter element's history.
struct Element {
    double param, first, second;
};

void naive_sgd(const SgdParams& k, Element& e, double grad, bool first_step) {
    grad += k.weight_decay * e.param;
    if (k.momentum != 0.0) {
        e.first = first_step ? grad : k.momentum * e.first + (1.0 - k.dampening) * grad;
        grad = k.nesterov ? grad + k.momentum * e.first : e.first;
    }
    e.param -= k.lr * grad;
}

void naive_adam(const AdamParams& k, Element& e, double grad) {
    if (k.decoupled) {
        e.param -= k.lr * k.weight_decay * e.param;
    } else {
        grad += k.weight_decay * e.param;
    }
    e.first = k.beta1 * e.first + (1.0 - k.beta1) * grad;
    e.second = k.beta2 * e.second + (1.0 - k.beta2) * grad * grad;
    const double steps = static_cast<double>(k.step);
    const double first = e.first / (1.0 - std::pow(k.beta1, steps));
    const double second = e.second / (1.0 - std::pow(k.beta2, steps));
    e.param -= k.lr * first / (std::sqrt(second) + k.eps);
}

/// Runs the steps on the device and by `naive(element, grad, step)`, and compares parameters and first
/// states.
template <class Step, class Naive>
void check_trajectory(DType dtype, Device device, int states, const Step& step, const Naive& naive) {
    Model model(dtype, device, states);
    std::vector<std::vector<Element>> expected;
    for (const OptimizerSlice& slice : model.slices) {
        auto& elements = expected.emplace_back();
        for (const double value : slice.param.to_vector<double>())
            elements.push_back({value, 0.0, 0.0});
    }
    for (std::int64_t k = 0; k < kSteps; ++k) {
        model.set_step(k);
        step(k, std::span(model.slices));
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const Values grad = model.slices[i].grad.to_vector<double>();
            Values params;
            Values firsts;
            for (std::size_t j = 0; j < grad.size(); ++j) {
                naive(expected[i][j], grad[j], k);
                params.push_back(expected[i][j].param);
                firsts.push_back(expected[i][j].first);
            }
            CHECK(distance(model.slices[i].param, params) < tolerance(dtype));
            if (states > 0) CHECK(distance(model.slices[i].state1, firsts) < tolerance(dtype));
        }
    }
}

/// One step on a single element from fresh states.
double one_adam_step(const AdamParams& params, double param, double grad, Device device) {
    const TensorOptions options = {.dtype = DType::f64, .device = device};
    std::array<OptimizerSlice, 1> slices;
    slices[0] = {full({1}, param, options), full({1}, grad, options), zeros({1}, options),
                 zeros({1}, options), true};
    kernels<OptimizerKernels>(device).adam(params, slices);
    return slices[0].param.item();
}

}  // namespace

TEST_CASE("SGD steps follow the formula", "[ops]") {
    const auto dtype = GENERATE(DType::f64, DType::f32);
    const auto params =
        GENERATE(SgdParams{.lr = 0.1}, SgdParams{.lr = 0.1, .weight_decay = 0.1},
                 SgdParams{.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4},
                 SgdParams{.lr = 0.1, .momentum = 0.9, .dampening = 0.3},
                 SgdParams{.lr = 0.1, .momentum = 0.9, .nesterov = true},
                 SgdParams{.lr = 0.01, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
    CAPTURE(name_of(dtype), params.lr, params.momentum, params.dampening, params.weight_decay,
            params.nesterov);
    for_each_device([&](Device device) {
        check_trajectory(
            dtype, device, params.momentum != 0.0 ? 1 : 0,
            [&](std::int64_t, std::span<OptimizerSlice> slices) {
                kernels<OptimizerKernels>(device).sgd(params, slices);
            },
            [&](Element& element, double grad, std::int64_t step) {
                naive_sgd(params, element, grad, step == 0);
            });
    });
}

TEST_CASE("Adam and AdamW steps follow the formula", "[ops]") {
    const auto dtype = GENERATE(DType::f64, DType::f32);
    const auto settings =
        GENERATE(AdamParams{}, AdamParams{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.99}, AdamParams{.eps = 1e-3},
                 AdamParams{.weight_decay = 0.01}, AdamParams{.weight_decay = 0.01, .decoupled = true},
                 AdamParams{.lr = 0.01, .beta2 = 0.95, .weight_decay = 0.1, .decoupled = true},
                 AdamParams{.decoupled = true});
    CAPTURE(name_of(dtype), settings.lr, settings.weight_decay, settings.decoupled);
    for_each_device([&](Device device) {
        AdamParams params = settings;
        check_trajectory(
            dtype, device, 2,
            [&](std::int64_t step, std::span<OptimizerSlice> slices) {
                params.step = step + 1;
                kernels<OptimizerKernels>(device).adam(params, slices);
            },
            [&](Element& element, double grad, std::int64_t) { naive_adam(params, element, grad); });
    });
}

TEST_CASE("AdamW's decay is scaled by the rate and apart from the gradient", "[ops]") {
    for_each_device([](Device device) {
        const AdamParams adamw = {.lr = 0.1, .weight_decay = 0.1, .decoupled = true};
        const AdamParams adam = {.lr = 0.1, .weight_decay = 0.1, .decoupled = false};
        CHECK(one_adam_step(adamw, 1.0, 0.0, device) == Catch::Approx(0.99).epsilon(1e-6));
        CHECK(one_adam_step(adamw, 1.0, 0.5, device) == Catch::Approx(0.89).epsilon(1e-6));
        CHECK(one_adam_step(adam, 1.0, 0.0, device) == Catch::Approx(0.9).epsilon(1e-6));
    });
}

TEST_CASE("SGD's first step writes a velocity that holds anything", "[ops]") {
    for_each_device([](Device device) {
        const TensorOptions options = {.device = device};
        const float nan = std::numeric_limits<float>::quiet_NaN();
        std::array<OptimizerSlice, 1> slices;
        slices[0] = {full({3}, 1.0, options), full({3}, 0.5, options), full({3}, nan, options), {}, true};
        kernels<OptimizerKernels>(device).sgd({.lr = 1.0, .momentum = 0.9}, slices);
        CHECK(slices[0].param.to_vector<double>() == Values{0.5, 0.5, 0.5});
        CHECK(slices[0].state1.to_vector<double>() == Values{0.5, 0.5, 0.5});
    });
}
