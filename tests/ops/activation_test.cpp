#include "core/ops/activation.h"

#include "core/autograd.h"
#include "core/gradcheck.h"
#include "core/ops/binary.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/threads.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/ops/elements.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

using namespace fulcrum;
using Catch::Matchers::ContainsSubstring;
using fulcrum::test::for_each_device;
using fulcrum::test::kFloatingTypes;
using fulcrum::test::kInfinity;
using fulcrum::test::kNaN;
using fulcrum::test::normal_values;
using fulcrum::test::read_by_strides;

namespace {

double cdf(double x) {
    return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}
double density(double x) {
    return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
}
double logistic(double x) {
    return x >= 0.0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x));
}

/// A function with its value and derivative in f64.
struct Case {
    const char* name;
    Tensor (*apply)(const Tensor&);
    double (*value)(double);
    double (*slope)(double);
};

const std::vector<Case> kCases{
    {"relu", relu, [](double x) { return std::max(0.0, x); }, [](double x) { return x > 0.0 ? 1.0 : 0.0; }},
    {"sigmoid", sigmoid, logistic, [](double x) { return logistic(x) * logistic(-x); }},
    {"tanh", fulcrum::tanh, [](double x) { return std::tanh(x); },
     [](double x) { return 1.0 - std::tanh(x) * std::tanh(x); }},
    {"gelu", gelu, [](double x) { return x * cdf(x); }, [](double x) { return cdf(x) + x * density(x); }},
    {"silu", silu, [](double x) { return x * logistic(x); },
     [](double x) { return logistic(x) * (1.0 + x * logistic(-x)); }},
};

/// Zeros, tiny, ordinary and large arguments, often enough to fill vector registers and leave a tail.
std::vector<double> arguments() {
    const std::vector<double> some{0.0,  -0.0,  1e-30, -1e-30, 1e-4, -1e-4, 0.3,  -0.3, 0.5,
                                   -0.5, 1.0,   -1.0,  2.5,    -2.5, 4.0,   -4.0, 8.0,  -8.0,
                                   20.0, -20.0, 50.0,  -50.0,  88.0, -88.0, 1e4,  -1e4};
    std::vector<double> values;
    for (int copy = 0; copy < 3; ++copy)
        values.insert(values.end(), some.begin(), some.end());
    return values;
}

/// Largest relative rounding of an element type.
double precision_of(DType dtype) {
    switch (dtype) {
        case DType::f64:
            return 1e-13;
        case DType::f32:
            return 1e-6;
        case DType::bf16:
            return 0x1p-8;
        default:
            return 0x1p-10;
    }
}

}  // namespace

TEST_CASE("activations and their gradients agree with their formulas for every floating type") {
    for_each_device([](Device device) {
        const std::vector<double> values = arguments();
        const auto size = static_cast<std::int64_t>(values.size());
        for (const Case& one : kCases) {
            for (const DType dtype : kFloatingTypes) {
                Tensor x = from_data<double>(values, {size}, {.dtype = dtype, .device = device});
                x.set_requires_grad();
                const Tensor y = one.apply(x);
                CHECK(y.dtype() == dtype);
                y.backward(full({size}, 2.0, {.dtype = dtype, .device = device}));
                const auto inputs = read_by_strides(x);
                const auto outputs = read_by_strides(y);
                const auto slopes = read_by_strides(x.grad());
                for (std::size_t i = 0; i < values.size(); ++i) {
                    INFO(one.name << " of " << inputs[i] << " in " << name_of(dtype));
                    const double precision = precision_of(dtype);
                    // gelu's lower tail magnifies the rounding of x; f16 has no normal numbers below 6e-5.
                    const double floor = dtype == DType::f64 ? 1e-37 : (dtype == DType::f16 ? 1e-6 : 1e-12);
                    CHECK(outputs[i] == Catch::Approx(one.value(inputs[i])).epsilon(precision).margin(floor));
                    // sigmoid and tanh take the slope from the rounded output.
                    CHECK(
                        slopes[i] ==
                        Catch::Approx(2.0 * one.slope(inputs[i])).epsilon(precision).margin(4.0 * precision));
                }
            }
        }
    });
}

TEST_CASE("f32 activations keep their relative precision near zero and in the tails") {
    for_each_device([](Device device) {
        const std::vector<double> values{1e-30, -1e-20, 1e-10, 3e-5, -0.01, 0.1,
                                         -0.34, 0.35,   1.0,   -3.0, -20.0, -80.0};
        const Tensor x =
            from_data<double>(values, {static_cast<std::int64_t>(values.size())}, {.device = device});
        const auto rounded = read_by_strides(x);
        for (const Case& one : kCases) {
            const auto outputs = read_by_strides(one.apply(x));
            for (std::size_t i = 0; i < values.size(); ++i) {
                const double expected = one.value(rounded[i]);
                INFO(one.name << " of " << rounded[i]);
                // Below the normal numbers the precision is absolute.
                CHECK(outputs[i] == Catch::Approx(expected).epsilon(2e-6).margin(1e-44));
            }
        }
    });
}

TEST_CASE("NaN passes through every activation and its gradient, infinities go to the limits") {
    for_each_device([](Device device) {
        for (const DType dtype : kFloatingTypes) {
            for (const Case& one : kCases) {
                INFO(one.name << " " << name_of(dtype));
                // A whole vector register and a tail.
                Tensor x = full({67}, kNaN, {.dtype = dtype, .device = device});
                x.set_requires_grad();
                const Tensor y = one.apply(x);
                sum(y).backward();
                for (const double value : read_by_strides(y))
                    CHECK(std::isnan(value));
                const auto gradient = read_by_strides(x.grad());
                // The gradient of relu arrives unchanged at a NaN.
                for (const double value : gradient) {
                    CHECK((one.apply == relu ? value == 1.0 : std::isnan(value)));
                }
                const auto limits = read_by_strides(
                    one.apply(tensor<double>({kInfinity, -kInfinity}, {2}, device).to(dtype)));
                const bool bounded = one.apply == sigmoid || one.apply == fulcrum::tanh;
                CHECK(limits[0] == (bounded ? 1.0 : kInfinity));
                if (one.apply == gelu || one.apply == silu) {
                    CHECK(std::isnan(limits[1]));
                } else {
                    CHECK(limits[1] == (one.apply == fulcrum::tanh ? -1.0 : 0.0));
                }
            }
        }
    });
}

TEST_CASE("the gradient of relu is 0 at 0 and wherever it cuts, even for an infinite gradient") {
    for_each_device([](Device device) {
        Tensor x = tensor<float>({0.0F, -0.0F, -1.0F, 1e-38F, 2.0F}, {5}, device);
        x.set_requires_grad();
        relu(x).backward(full({5}, kInfinity, {.device = device}));
        CHECK(read_by_strides(x.grad()) == std::vector<double>{0, 0, 0, kInfinity, kInfinity});
    });
}

TEST_CASE("gradients of activations agree with finite differences in every layout") {
    for_each_device([](Device device) {
        const TensorOptions options{.dtype = DType::f64, .device = device};
        for (const Case& one : kCases) {
            const Tensor planar = normal_values({2, 3, 4, 3}, 21, options) * 2.0;
            for (Tensor x :
                 {planar, planar.contiguous(MemoryFormat::channels_last), permute(planar, {3, 1, 0, 2})}) {
                x.set_requires_grad();
                INFO(one.name);
                const auto function = [&](const std::vector<Tensor>& inputs) {
                    // The gradient arrives in another layout than the activation's.
                    return transpose(one.apply(inputs[0]), 1, 2).contiguous();
                };
                const GradcheckResult result = gradcheck(function, {x});
                INFO(result.message);
                CHECK(result.passed);
            }
        }
    });
}

TEST_CASE("activations keep the memory order and take views with gaps") {
    for_each_device([](Device device) {
        const Tensor planar = normal_values({2, 3, 4, 5}, 3, {.device = device});
        for (const Case& one : kCases) {
            INFO(one.name);
            const auto expected = read_by_strides(one.apply(planar));
            const Tensor last = one.apply(planar.contiguous(MemoryFormat::channels_last));
            CHECK(last.is_channels_last());
            CHECK(read_by_strides(last) == expected);
            CHECK(read_by_strides(one.apply(narrow(planar, 2, 1, 2))) ==
                  read_by_strides(narrow(one.apply(planar), 2, 1, 2)));
            CHECK(read_by_strides(one.apply(expand(narrow(planar, 1, 0, 1), {2, 3, 4, 5}))) ==
                  read_by_strides(expand(narrow(one.apply(planar), 1, 0, 1), {2, 3, 4, 5})));
        }
    });
}

TEST_CASE("the gradient of an activation of a view with gaps reaches the whole tensor") {
    for_each_device([](Device device) {
        for (const Case& one : kCases) {
            INFO(one.name);
            Tensor x = normal_values({3, 6}, 4, {.dtype = DType::f64, .device = device});
            x.set_requires_grad();
            sum(one.apply(narrow(x, 1, 2, 3))).backward();
            const auto values = read_by_strides(x);
            const auto gradient = read_by_strides(x.grad());
            for (std::size_t i = 0; i < values.size(); ++i) {
                const bool seen = i % 6 >= 2 && i % 6 < 5;
                CHECK(gradient[i] == Catch::Approx(seen ? one.slope(values[i]) : 0.0).margin(1e-13));
            }
        }
    });
}

TEST_CASE("activations give the same bits with one thread and with several") {
    const int before = num_threads();
    const Tensor x = normal_values({211, 503}, 5);
    for (const Case& one : kCases) {
        set_num_threads(1);
        const auto expected = one.apply(x).to_vector<float>();
        set_num_threads(3);
        CHECK(one.apply(x).to_vector<float>() == expected);
    }
    set_num_threads(before);
}

TEST_CASE("activations of empty tensors and scalars") {
    for_each_device([](Device device) {
        for (const Case& one : kCases) {
            Tensor x = empty({2, 0, 3}, {.device = device});
            x.set_requires_grad();
            const Tensor y = one.apply(x);
            CHECK(y.shape() == Shape{2, 0, 3});
            sum(y).backward();
            CHECK(x.grad().shape() == Shape{2, 0, 3});
            CHECK(one.apply(scalar(0.0, {.device = device})).shape() == Shape{});
        }
    });
}

TEST_CASE("an activation whose saved tensor was changed in place is an error") {
    for_each_device([](Device device) {
        Tensor x = normal_values({4}, 6, {.device = device});
        x.set_requires_grad();
        const Tensor output = relu(x);
        output.detach().mul_(2.0);
        CHECK_THROWS_AS(sum(output).backward(), AutogradError);
        const Tensor curved = gelu(x);
        x.detach().fill_(1.0);
        CHECK_THROWS_AS(sum(curved).backward(), AutogradError);
    });
}

TEST_CASE("activations refuse integers and undefined tensors by name") {
    for_each_device([](Device device) {
        for (const Case& one : kCases) {
            const Tensor counts = zeros({3}, {.dtype = DType::i32, .device = device});
            CHECK_THROWS_AS(one.apply(counts), DTypeError);
            CHECK_THROWS_WITH(one.apply(counts), ContainsSubstring(std::string(one.name) + ": x is i32"));
            CHECK_THROWS_AS(one.apply(Tensor()), ValueError);
        }
    });
}
