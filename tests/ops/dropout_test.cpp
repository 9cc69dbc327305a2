#include "core/ops/dropout.h"

#include "core/autograd.h"
#include "core/gradcheck.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/threads.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/ops/elements.h"

#include <cmath>
#include <cstdint>
#include <vector>

using namespace fulcrum;
using Catch::Matchers::ContainsSubstring;
using fulcrum::test::for_each_device;
using fulcrum::test::kFloatingTypes;
using fulcrum::test::kNaN;
using fulcrum::test::normal_values;
using fulcrum::test::read_by_strides;

namespace {

/// What the documented rule says about element `i` in memory order.
bool dropped(std::uint64_t seed, std::uint64_t stream, std::uint64_t i, double p) {
    return static_cast<double>(random_words(seed, stream, i / 4)[i % 4]) < p * 0x1p32;
}

}  // namespace

TEST_CASE("the mask is the documented one, bit for bit, for every floating type") {
    for_each_device([](Device device) {
        for (const DType dtype : kFloatingTypes) {
            for (const double p : {0.1, 0.25, 0.5, 0.9}) {
                INFO(name_of(dtype) << " p " << p);
                Generator generator(77);
                generator.take_stream();
                const Tensor x = ones({10'007}, {.dtype = dtype, .device = device});
                const auto values = read_by_strides(dropout(x, p, true, generator));
                const double kept = full({}, 1.0 / (1.0 - p), {.dtype = dtype}).item();
                for (std::size_t i = 0; i < values.size(); ++i) {
                    REQUIRE(values[i] == (dropped(77, 1, i, p) ? 0.0 : kept));
                }
                CHECK(generator.state().next_stream == 2);
            }
        }
    });
}

TEST_CASE("the share of dropped elements and the mean come out right") {
    for_each_device([](Device device) {
        for (const double p : {0.1, 0.5, 0.8}) {
            Generator generator(3);
            const std::int64_t count = 200'000;
            const Tensor y = dropout(ones({count}, {.device = device}), p, true, generator);
            std::int64_t zeros = 0;
            for (const double value : read_by_strides(y))
                zeros += value == 0.0 ? 1 : 0;
            // Five standard deviations of a binomial.
            const double slack = 5.0 * std::sqrt(p * (1.0 - p) / static_cast<double>(count));
            CHECK(std::abs(static_cast<double>(zeros) / static_cast<double>(count) - p) < slack);
            CHECK(std::abs(mean(y).item() - 1.0) < slack / (1.0 - p));
        }
    });
}

TEST_CASE("each call draws a new mask, equal states draw equal masks, threads do not matter") {
    const int before = num_threads();
    for_each_device([](Device device) {
        const Tensor x = ones({300, 401}, {.device = device});
        Generator generator(5);
        set_num_threads(1);
        const auto first = read_by_strides(dropout(x, 0.5, true, generator));
        const Generator::State state = generator.state();
        const auto second = read_by_strides(dropout(x, 0.5, true, generator));
        CHECK(first != second);
        generator.set_state(state);
        set_num_threads(3);
        CHECK(read_by_strides(dropout(x, 0.5, true, generator)) == second);
        manual_seed(9);
        const auto by_default = read_by_strides(dropout(x, 0.5));
        manual_seed(9);
        CHECK(read_by_strides(dropout(x, 0.5)) == by_default);
    });
    set_num_threads(before);
}

TEST_CASE("the backward pass draws the same mask again") {
    for_each_device([](Device device) {
        for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
            Generator generator(6);
            Tensor x = ones({2, 5, 7, 9}, {.device = device, .format = format});
            x.set_requires_grad();
            const Tensor y = dropout(x, 0.3, true, generator);
            // The gradient arrives row-major whatever the layout of x.
            y.backward(full({2, 5, 7, 9}, 3.0, {.device = device}));
            const auto values = read_by_strides(y);
            const auto gradient = read_by_strides(x.grad());
            for (std::size_t i = 0; i < values.size(); ++i) {
                CHECK(gradient[i] == Catch::Approx(3.0 * values[i]).epsilon(1e-6));
            }
        }
    });
}

TEST_CASE("the gradient agrees with finite differences, also for a view with gaps") {
    for_each_device([](Device device) {
        Tensor x = normal_values({6, 8}, 7, {.dtype = DType::f64, .device = device});
        x.set_requires_grad();
        const auto function = [](const std::vector<Tensor>& inputs) {
            Generator generator(8);
            return dropout(narrow(inputs[0], 1, 1, 5), 0.4, true, generator);
        };
        const GradcheckResult result = gradcheck(function, {x});
        INFO(result.message);
        CHECK(result.passed);
    });
}

TEST_CASE("evaluation and p = 0 change nothing and draw nothing") {
    for_each_device([](Device device) {
        Generator generator(1);
        const Tensor x = normal_values({40}, 2, {.device = device});
        CHECK(dropout(x, 0.5, false, generator).is_same(x));
        CHECK(dropout(x, 0.0, true, generator).is_same(x));
        CHECK(generator.state() == Generator(1).state());
    });
}

TEST_CASE("p = 1 drops everything, NaN included, and passes no gradient") {
    for_each_device([](Device device) {
        for (const DType dtype : kFloatingTypes) {
            Tensor x = full({131}, kNaN, {.dtype = dtype, .device = device});
            x.set_requires_grad();
            const Tensor y = dropout(x, 1.0);
            CHECK(read_by_strides(y) == std::vector<double>(131, 0.0));
            y.backward(ones({131}, {.dtype = dtype, .device = device}));
            CHECK(read_by_strides(x.grad()) == std::vector<double>(131, 0.0));
        }
    });
}

TEST_CASE("dropout of empty tensors") {
    for_each_device([](Device device) {
        CHECK(dropout(empty({0, 3}, {.device = device}), 0.5).shape() == Shape{0, 3});
    });
}

TEST_CASE("dropout refuses probabilities outside 0 to 1, integers and undefined tensors") {
    for_each_device([](Device device) {
        const Tensor x = ones({3}, {.device = device});
        for (const double p : {-0.1, 1.5, kNaN}) {
            CHECK_THROWS_AS(dropout(x, p), ValueError);
            CHECK_THROWS_AS(dropout(x, p, false), ValueError);
        }
        CHECK_THROWS_WITH(dropout(x, 1.5), ContainsSubstring("dropout: the probability p is 1.5"));
        CHECK_THROWS_AS(dropout(ones({3}, {.dtype = DType::i64, .device = device}), 0.5), DTypeError);
        CHECK_THROWS_AS(dropout(Tensor(), 0.5), ValueError);
    });
}
