#include "core/ops/copy.h"

#include "core/autograd.h"
#include "core/ops/shape.h"
#include "core/threads.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/ops/elements.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace fulcrum;
using fulcrum::test::counting;
using fulcrum::test::for_each_device;
using fulcrum::test::kAllTypes;
using fulcrum::test::kInfinity;
using fulcrum::test::kNaN;
using fulcrum::test::read_by_strides;

TEST_CASE("every element type converts to every other") {
    for_each_device([](Device device) {
        for (const DType from : kAllTypes) {
            for (const DType to : kAllTypes) {
                INFO(name_of(from) << " to " << name_of(to));
                const Tensor x = counting({3, 50}, {.dtype = from, .device = device});
                const Tensor y = cast(x, to);
                CHECK(y.dtype() == to);
                CHECK(read_by_strides(y) == read_by_strides(x));
            }
        }
    });
}

TEST_CASE("floating to integer truncates, saturates and turns NaN into 0") {
    constexpr auto kMax32 = std::numeric_limits<std::int32_t>::max();
    constexpr auto kMin32 = std::numeric_limits<std::int32_t>::min();
    constexpr auto kMax64 = std::numeric_limits<std::int64_t>::max();
    constexpr auto kMin64 = std::numeric_limits<std::int64_t>::min();
    struct Case {
        double value;
        std::uint8_t byte;
        std::int32_t word;
        std::int64_t longer;
    };
    const std::vector<Case> cases{
        {2.9, 2, 2, 2},
        {-2.9, 0, -2, -2},
        {-0.5, 0, 0, 0},
        {255.5, 255, 255, 255},
        {256.0, 255, 256, 256},
        {-1.0, 0, -1, -1},
        {3e9, 255, kMax32, 3'000'000'000},
        {-3e9, 0, kMin32, -3'000'000'000},
        {1e19, 255, kMax32, kMax64},
        {-1e19, 0, kMin32, kMin64},
        {kInfinity, 255, kMax32, kMax64},
        {-kInfinity, 0, kMin32, kMin64},
        {kNaN, 0, 0, 0},
        {2147483647.0, 255, kMax32, kMax32},
        {-2147483648.0, 0, kMin32, kMin32},
    };
    for_each_device([&](Device device) {
        // Enough copies for the vectorised part and its tail.
        std::vector<double> values;
        for (int copy = 0; copy < 5; ++copy) {
            for (const Case& one : cases)
                values.push_back(one.value);
        }
        const Tensor x = from_data<double>(values, {static_cast<std::int64_t>(values.size())},
                                           {.dtype = DType::f64, .device = device});
        const auto bytes = x.to(DType::u8).to_vector<std::uint8_t>();
        const auto words = x.to(DType::i32).to_vector<std::int32_t>();
        const auto longs = x.to(DType::i64).to_vector<std::int64_t>();
        for (std::size_t i = 0; i < values.size(); ++i) {
            INFO("value " << values[i]);
            CHECK(bytes[i] == cases[i % cases.size()].byte);
            CHECK(words[i] == cases[i % cases.size()].word);
            CHECK(longs[i] == cases[i % cases.size()].longer);
        }
        // f32 has no value just below 2^31.
        CHECK(tensor<float>({0x1p31F}, {1}, device).to(DType::i32).item() == kMax32);
        CHECK(tensor<float>({0x1.fffffep30F}, {1}, device).to(DType::i32).item() == 0x1.fffffep30);
    });
}

TEST_CASE("integers saturate when they become narrower") {
    for_each_device([](Device device) {
        const Tensor x = tensor<std::int64_t>({-5, 300, 77, std::int64_t{1} << 40}, {4}, device);
        CHECK(x.to(DType::u8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{0, 255, 77, 255});
        CHECK(x.to(DType::i32).to_vector<std::int32_t>() ==
              std::vector<std::int32_t>{-5, 300, 77, std::numeric_limits<std::int32_t>::max()});
    });
}

TEST_CASE("16-bit types round to nearest, ties to even, and keep infinities and NaN") {
    for_each_device([](Device device) {
        const Tensor x =
            tensor<float>({1.00390625F, 1.01171875F, 3.4e38F, 70000.0F, -70000.0F, 1e-30F}, {6}, device);
        const auto bf16 = x.to(DType::bf16).to_vector<float>();
        CHECK(bf16[0] == 1.0F);
        CHECK(bf16[1] == 1.015625F);
        CHECK(std::isinf(bf16[2]));
        CHECK(bf16[3] == 70144.0F);
        const auto f16 = x.to(DType::f16).to_vector<float>();
        CHECK(f16[0] == 1.00390625F);
        CHECK(f16[3] == kInfinity);
        CHECK(f16[4] == -kInfinity);
        CHECK(f16[5] == 0.0F);
        for (const DType dtype : {DType::bf16, DType::f16}) {
            const auto special =
                tensor<double>({kInfinity, -kInfinity, kNaN}, {3}, device).to(dtype).to_vector<double>();
            CHECK(special[0] == kInfinity);
            CHECK(special[1] == -kInfinity);
            CHECK(std::isnan(special[2]));
        }
    });
}

TEST_CASE("a copy keeps every element whatever the layouts") {
    const std::vector<MemoryFormat> formats{MemoryFormat::contiguous, MemoryFormat::channels_last,
                                            MemoryFormat::tap_major};
    const std::vector<Shape> shapes{{2, 3, 5, 7},   {1, 1, 1, 1},  {4, 64, 9, 9}, {3, 33, 1, 40},
                                    {2, 1, 65, 33}, {64, 3, 3, 3}, {0, 3, 4, 4},  {130, 70, 1, 1}};
    for_each_device([&](Device device) {
        for (const Shape& shape : shapes) {
            for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::u8}) {
                for (const MemoryFormat from : formats) {
                    for (const MemoryFormat to : formats) {
                        INFO(to_string(shape) << " " << name_of(dtype));
                        const Tensor x = counting(shape, {.dtype = dtype, .device = device, .format = from});
                        const Tensor same = empty(shape, {.dtype = dtype, .device = device, .format = to});
                        same.copy_(x);
                        CHECK(read_by_strides(same) == read_by_strides(x));
                        const Tensor other =
                            empty(shape, {.dtype = DType::i32, .device = device, .format = to});
                        other.copy_(x);
                        CHECK(read_by_strides(other) == read_by_strides(x));
                    }
                }
            }
        }
    });
}

TEST_CASE("a copy reads and writes views: permuted, narrowed, broadcast") {
    for_each_device([](Device device) {
        const Tensor x = counting({4, 6, 8, 10}, {.device = device});
        const Tensor source = permute(narrow(x, 3, 2, 5), {3, 0, 2, 1});
        const Tensor target = zeros({5, 9, 8, 6}, {.device = device});
        narrow(target, 1, 3, 4).copy_(source);
        CHECK(read_by_strides(narrow(target, 1, 3, 4)) == read_by_strides(source));
        CHECK(read_by_strides(narrow(target, 1, 0, 3)) == std::vector<double>(5 * 3 * 8 * 6, 0.0));
        const Tensor spread = expand(counting({6, 1, 1}, {.device = device}), {4, 6, 8, 10});
        const Tensor dense = empty({4, 6, 8, 10}, {.device = device, .format = MemoryFormat::channels_last});
        dense.copy_(spread);
        CHECK(read_by_strides(dense) == read_by_strides(spread));
    });
}

TEST_CASE("random views of any rank copy element by element") {
    for_each_device([](Device device) {
        RandomStream random(11, 0);
        for (int round = 0; round < 60; ++round) {
            const std::uint32_t rank = random.below(7);
            Shape shape;
            Dims order;
            for (std::uint32_t d = 0; d < rank; ++d) {
                shape.push_back(1 + random.below(6));
                order.push_back(d);
            }
            for (std::uint32_t d = rank; d > 1; --d)
                std::swap(order[d - 1], order[random.below(d)]);
            const Tensor x = permute(counting(shape, {.device = device}), order);
            const Tensor y = empty(x.shape(), {.dtype = DType::i64, .device = device});
            y.copy_(x);
            INFO(to_string(x.shape()) << " with strides " << to_string(x.strides()));
            CHECK(read_by_strides(y) == read_by_strides(x));
            const Tensor back = permute(empty(shape, {.device = device}), order);
            back.copy_(y);
            CHECK(read_by_strides(back) == read_by_strides(x));
        }
    });
}

TEST_CASE("large copies are right with one thread and with several") {
    const int before = num_threads();
    const Tensor x = counting({8, 40, 33, 37});
    const auto expected = read_by_strides(x);
    for (const int threads : {1, 2, 3}) {
        set_num_threads(threads);
        CHECK(read_by_strides(x.contiguous(MemoryFormat::channels_last)) == expected);
        CHECK(read_by_strides(x.to(DType::bf16)) == expected);
        CHECK(read_by_strides(x.clone()) == expected);
    }
    set_num_threads(before);
}

TEST_CASE("fill sets every element of a view and nothing else") {
    for_each_device([](Device device) {
        for (const DType dtype : kAllTypes) {
            INFO(name_of(dtype));
            const Tensor x = full({3, 5, 70}, 1.0, {.dtype = dtype, .device = device});
            narrow(x, 1, 2, 2).fill_(7.0);
            transpose(narrow(x, 2, 3, 1), 0, 1).fill_(9.0);
            const auto values = x.to_vector<double>();
            for (std::size_t i = 0; i < values.size(); ++i) {
                const std::size_t row = i / 70 % 5;
                const double expected = i % 70 == 3 ? 9.0 : (row == 2 || row == 3 ? 7.0 : 1.0);
                CHECK(values[i] == expected);
            }
        }
        CHECK(full({2}, 300.0, {.dtype = DType::u8, .device = device}).to_vector<double>() ==
              std::vector<double>{255.0, 255.0});
    });
}

TEST_CASE("all_finite finds one NaN or infinity anywhere") {
    for_each_device([](Device device) {
        const CopyKernels& copy = kernels<CopyKernels>(device);
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
            INFO(name_of(dtype));
            const Tensor x = full({100'003}, -3.5, {.dtype = dtype, .device = device});
            CHECK(copy.all_finite(x));
            for (const std::int64_t place : {0, 31, 50'000, 100'002}) {
                for (const double bad : {kNaN, kInfinity, -kInfinity}) {
                    const Tensor element = narrow(x, 0, place, 1);
                    element.fill_(bad);
                    CHECK_FALSE(copy.all_finite(x));
                    element.fill_(1.0);
                }
            }
            CHECK(copy.all_finite(x));
            CHECK(copy.all_finite(empty({0}, {.dtype = dtype, .device = device})));
        }
    });
}

TEST_CASE("the gradient of a cast is cast back") {
    for_each_device([](Device device) {
        Tensor x = tensor<float>({1, 2, 3}, {3}, device);
        x.set_requires_grad();
        const Tensor y = cast(x, DType::bf16);
        y.backward(tensor<float>({0.5F, -1.0F, 2.0F}, {3}, device).to(DType::bf16));
        CHECK(x.grad().dtype() == DType::f32);
        CHECK(x.grad().to_vector<float>() == std::vector<float>{0.5F, -1.0F, 2.0F});
        CHECK_FALSE(cast(x, DType::i64).requires_grad());
        CHECK(cast(x, DType::f32).is_same(x));
    });
}

TEST_CASE("cast keeps channels-last memory and takes views and empty tensors") {
    for_each_device([](Device device) {
        const Tensor x = counting({2, 3, 4, 5}, {.device = device, .format = MemoryFormat::channels_last});
        CHECK(cast(x, DType::bf16).is_channels_last());
        const Tensor view = narrow(x, 1, 1, 2);
        CHECK(read_by_strides(cast(view, DType::f64)) == read_by_strides(view));
        CHECK(cast(empty({0, 4}, {.device = device}), DType::i32).shape() == Shape{0, 4});
    });
}

TEST_CASE("cast refuses an undefined tensor") {
    CHECK_THROWS_AS(cast(Tensor(), DType::f64), ValueError);
    CHECK_THROWS_WITH(cast(Tensor(), DType::f64),
                      Catch::Matchers::ContainsSubstring("cast: x is an undefined tensor"));
}
