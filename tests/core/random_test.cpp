#include "core/random.h"

#include "core/tensor.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <cmath>

using namespace fulcrum;

TEST_CASE("Philox-4x32-10 gives the published vectors", "[core][random]") {
    // Known answers of the Random123 library for all-zero, all-one and pi-digit inputs.
    CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
          std::array<std::uint32_t, 4>{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U});
    CHECK(philox4x32({0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}, {0xffffffffU, 0xffffffffU}) ==
          std::array<std::uint32_t, 4>{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU});
    CHECK(philox4x32({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}) ==
          std::array<std::uint32_t, 4>{0xd16cfe09U, 0x94fdcceb, 0x5001e420U, 0x24126ea1U});
    static_assert(philox4x32({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5U);
}

TEST_CASE("Streams of one seed are independent of each other and of the order of use", "[core][random]") {
    RandomStream first(7, 0);
    RandomStream second(7, 1);
    const std::uint32_t a = first.next();
    const std::uint32_t b = second.next();
    CHECK(a != b);
    RandomStream again(7, 0);
    CHECK(again.next() == a);
    CHECK(random_words(7, 1, 0)[0] == b);
}

TEST_CASE("A generator continues from its state", "[core][random]") {
    Generator generator(42);
    generator.take_stream();
    const Generator::State state = generator.state();
    const Tensor x = uniform({10}, 0.0, 1.0, {}, generator);
    Generator other;
    other.set_state(state);
    CHECK(uniform({10}, 0.0, 1.0, {}, other).to_vector<float>() == x.to_vector<float>());
    CHECK(uniform({10}, 0.0, 1.0, {}, other).to_vector<float>() != x.to_vector<float>());
}

TEST_CASE("Bounded draws cover their range evenly", "[core][random]") {
    RandomStream stream(3, 0);
    std::array<int, 7> counts{};
    constexpr int kDraws = 70000;
    for (int i = 0; i < kDraws; ++i)
        ++counts.at(stream.below(7));
    // Chi-square with 6 degrees of freedom: 22.5 is passed once in a thousand seeds; this seed is fixed.
    double chi = 0.0;
    for (const int count : counts)
        chi += std::pow(count - kDraws / 7.0, 2) / (kDraws / 7.0);
    CHECK(chi < 22.5);
}

TEST_CASE("Uniform and normal draws have the right moments", "[core][random]") {
    manual_seed(1);
    const auto flat = uniform({200000}, -2.0, 4.0).to_vector<double>();
    const auto bell = normal({200000}, 1.0, 3.0, {.dtype = DType::f64}).to_vector<double>();
    const auto moments = [](const std::vector<double>& values) {
        double mean = 0.0;
        for (const double v : values)
            mean += v;
        mean /= static_cast<double>(values.size());
        double variance = 0.0;
        for (const double v : values)
            variance += (v - mean) * (v - mean);
        return std::pair{mean, variance / static_cast<double>(values.size())};
    };
    CHECK(moments(flat).first == Catch::Approx(1.0).margin(0.02));
    CHECK(moments(flat).second == Catch::Approx(3.0).epsilon(0.02));
    CHECK(moments(bell).first == Catch::Approx(1.0).margin(0.03));
    CHECK(moments(bell).second == Catch::Approx(9.0).epsilon(0.02));
    for (const double v : flat) {
        if (v < -2.0 || v >= 4.0) FAIL("draw " << v << " is outside [-2, 4)");
    }
}

TEST_CASE("The same seed draws the same weights on every device", "[core][random]") {
    test::for_each_device([](Device device) {
        manual_seed(5);
        const auto here = normal({33}, 0.0, 1.0).to_vector<float>();
        manual_seed(5);
        CHECK(normal({33}, 0.0, 1.0, {.device = device}).to_vector<float>() == here);
    });
}
