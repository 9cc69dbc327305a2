#include "core/tensor.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/ops/shape.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace fulcrum;
using Catch::Matchers::ContainsSubstring;
using fulcrum::test::for_each_device;

TEST_CASE("Factories fill tensors of every element type", "[core][tensor]") {
    for_each_device([](Device device) {
        for (const DType dtype :
             {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
            INFO("dtype " << name_of(dtype));
            const Tensor x = full({2, 3}, 7.0, {.dtype = dtype, .device = device});
            CHECK(x.shape() == Shape{2, 3});
            CHECK(x.dtype() == dtype);
            CHECK(x.device() == device);
            CHECK(x.to_vector<double>() == std::vector<double>(6, 7.0));
        }
    });
}

TEST_CASE("from_data keeps row-major order whatever the memory order", "[core][tensor]") {
    for_each_device([](Device device) {
        std::vector<float> values(2 * 3 * 4 * 5);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(i);
        for (const MemoryFormat format :
             {MemoryFormat::contiguous, MemoryFormat::channels_last, MemoryFormat::tap_major}) {
            const Tensor x = from_data<float>(values, {2, 3, 4, 5}, {.device = device, .format = format});
            CHECK(x.to_vector<float>() == values);
            CHECK(x.is_dense());
            CHECK(x.is_channels_last() == (format == MemoryFormat::channels_last));
            CHECK(x.is_contiguous() == (format == MemoryFormat::contiguous));
            CHECK(x.contiguous(MemoryFormat::channels_last).to_vector<float>() == values);
        }
    });
}

TEST_CASE("Tap-major weights keep each filter tap a dense matrix of inputs by outputs", "[core][tensor]") {
    const Tensor weight = empty({8, 4, 3, 3}, {.format = MemoryFormat::tap_major});
    CHECK(weight.strides() == Strides{1, 8, 3 * 4 * 8, 4 * 8});
}

TEST_CASE("Layouts of degenerate shapes are recognised", "[core][tensor]") {
    const Tensor pixel = empty({4, 16, 1, 1});
    CHECK(pixel.is_contiguous());
    CHECK(pixel.is_channels_last());
    const Tensor none = empty({0, 3, 8, 8});
    CHECK(none.numel() == 0);
    CHECK(none.raw_data() == nullptr);
    CHECK(none.to_vector<float>().empty());
    CHECK(scalar(2.5).item() == 2.5);
    CHECK(scalar(2.5).shape().empty());
}

TEST_CASE("Copies share elements and clones do not", "[core][tensor]") {
    for_each_device([](Device device) {
        const Tensor x = full({3}, 1.0, {.device = device});
        const Tensor same = x;
        const Tensor other = x.clone();
        x.fill_(5.0);
        CHECK(same.to_vector<float>() == std::vector<float>{5, 5, 5});
        CHECK(other.to_vector<float>() == std::vector<float>{1, 1, 1});
        CHECK(same.is_same(x));
        CHECK_FALSE(x.detach().is_same(x));
    });
}

TEST_CASE("In-place functions write through views and broadcast their argument", "[core][tensor]") {
    for_each_device([](Device device) {
        const Tensor x = zeros({2, 3}, {.device = device});
        narrow(x, 1, 1, 2).copy_(tensor<float>({1, 2}, {2}, device));
        CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 2, 0, 1, 2});
        x.add_(tensor<float>({10, 20}, {2, 1}, device), 0.5);
        CHECK(x.to_vector<float>() == std::vector<float>{5, 6, 7, 10, 11, 12});
        transpose(x, 0, 1).mul_(2.0);
        CHECK(x.to_vector<float>() == std::vector<float>{10, 12, 14, 20, 22, 24});
        x.zero_();
        CHECK(x.to_vector<float>() == std::vector<float>(6, 0.0F));
        CHECK_THROWS_AS(x.copy_(tensor<float>({1, 2}, {2}, device)), ShapeError);
    });
}

TEST_CASE("Moving between devices keeps the values and the order in memory", "[core][tensor]") {
    for_each_device([](Device device) {
        const Tensor x = uniform({2, 3, 4, 5}, -1.0, 1.0, {.format = MemoryFormat::channels_last});
        const Tensor there = x.to(device);
        CHECK(there.is_channels_last());
        CHECK(there.to_vector<float>() == x.to_vector<float>());
        CHECK(there.to(kCpu).to_vector<float>() == x.to_vector<float>());
    });
}

TEST_CASE("Impossible shapes and uses raise errors that name them", "[core][tensor][errors]") {
    CHECK_THROWS_AS(empty({-1, 3}), ShapeError);
    CHECK_THROWS_AS(empty({std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
    CHECK_THROWS_AS(empty({std::int64_t{1} << 62}), ShapeError);
    CHECK_THROWS_AS(from_data<float>(std::vector<float>(5), {2, 3}), ShapeError);
    CHECK_THROWS_AS(zeros({2, 3}).item(), ShapeError);
    CHECK_THROWS_AS(zeros({2}).data<double>(), DTypeError);
    CHECK_THROWS_AS(Tensor().shape(), ValueError);
    CHECK_THROWS_AS(zeros({2}).size(1), ShapeError);
    CHECK_THROWS_AS(empty_strided({2, 3}, {4, 1}), ShapeError);
    CHECK_THROWS_WITH(
        zeros({2, 3}).contiguous(MemoryFormat::channels_last),
        Catch::Matchers::ContainsSubstring("4-D") && Catch::Matchers::ContainsSubstring("[2, 3]"));
    CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
}

TEST_CASE("An absent device is named with the reason", "[core][tensor][errors]") {
    if (device_count(DeviceType::cuda) == 0) {
        CHECK_THROWS_AS(zeros({1}, {.device = {DeviceType::cuda, 0}}), DeviceError);
        CHECK_FALSE(unavailable_reason(DeviceType::cuda).empty());
    }
    CHECK_THROWS_AS(zeros({1}, {.device = {DeviceType::cpu, 3}}), DeviceError);
    CHECK_THROWS_AS(parse_device("tpu"), ValueError);
    CHECK_THROWS_AS(parse_device("cuda:x"), ValueError);
    CHECK(parse_device("cuda:2") == Device{DeviceType::cuda, 2});
}

TEST_CASE("Views check their bounds", "[core][tensor][errors]") {
    const Tensor x = zeros({4});
    CHECK_THROWS_AS(Tensor::view_of(x.storage(), 1, {4}, {1}, DType::f32), ShapeError);
    CHECK_THROWS_AS(Tensor::view_of(x.storage(), 0, {4}, {1}, DType::f64), ShapeError);
    CHECK_THROWS_AS(Tensor::view_of(x.storage(), 0, {2}, {-1}, DType::f32), ShapeError);
    // A step back in one dimension is not made good by a step forward in another.
    CHECK_THROWS_AS(Tensor::view_of(x.storage(), 0, {2, 2}, {-1, 1}, DType::f32), ShapeError);
    CHECK_THROWS_AS(Tensor::view_of(x.storage(), 0, {2, 2}, {1}, DType::f32), ShapeError);
    CHECK_THROWS_AS(Tensor::view_of(nullptr, 0, {1}, {1}, DType::f32), ValueError);
    constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
    CHECK_THROWS_AS(Tensor::view_of(x.storage(), kHuge, {1}, {1}, DType::f32), ShapeError);
    CHECK_THROWS_AS(Tensor::view_of(x.storage(), kHuge / 4, {1}, {1}, DType::f32), ShapeError);
    CHECK_THROWS_AS(Tensor::view_of(x.storage(), 0, {3, 2}, {kHuge / 2 + 1, 1}, DType::f32), ShapeError);
}

TEST_CASE("In-place functions read an argument that overlaps the destination as it was", "[core][tensor]") {
    test::for_each_device([](Device device) {
        const auto numbered = [device](const Shape& shape) {
            std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
            std::iota(values.begin(), values.end(), 1.0F);
            return from_data<float>(values, shape, {.device = device});
        };
        Tensor x = numbered({2, 2});
        x.copy_(transpose(x, 0, 1));
        CHECK(x.to_vector<float>() == std::vector<float>{1, 3, 2, 4});
        x = numbered({2, 2});
        x.copy_(narrow(x, 1, 1, 1));
        CHECK(x.to_vector<float>() == std::vector<float>{2, 2, 4, 4});
        x = numbered({5});
        narrow(x, 0, 1, 4).copy_(narrow(x, 0, 0, 4));
        CHECK(x.to_vector<float>() == std::vector<float>{1, 1, 2, 3, 4});
        x = numbered({4});
        x.copy_(Tensor::view_of(x.storage(), 0, {4}, {1}, DType::i32));  // the same bits read as integers
        CHECK(x.to_vector<float>()[0] == 1065353216.0F);
        x = numbered({2, 2});
        x.add_(x);
        CHECK(x.to_vector<float>() == std::vector<float>{2, 4, 6, 8});
        x = numbered({2, 2});
        x.add_(transpose(x, 0, 1), 2.0);
        CHECK(x.to_vector<float>() == std::vector<float>{3, 8, 7, 12});
        x = numbered({3});
        x.add_(narrow(x, 0, 0, 1));
        CHECK(x.to_vector<float>() == std::vector<float>{2, 3, 4});
        x = numbered({4});
        narrow(x, 0, 1, 3).add_(narrow(x, 0, 0, 3));
        CHECK(x.to_vector<float>() == std::vector<float>{1, 3, 5, 7});
    });
}

TEST_CASE("In-place functions refuse a destination whose elements share memory", "[core][tensor][errors]") {
    test::for_each_device([](Device device) {
        const Tensor one = ones({1}, {.device = device});
        const Tensor three = expand(one, {3});
        CHECK_THROWS_WITH(three.add_(ones({3}, {.device = device})),
                          ContainsSubstring("add_") && ContainsSubstring("share memory"));
        CHECK_THROWS_AS(three.mul_(2.0), ValueError);
        CHECK_THROWS_AS(three.copy_(ones({3}, {.device = device})), ValueError);
        CHECK(one.item() == 1.0);
        three.fill_(4.0);
        CHECK(one.item() == 4.0);
        const Tensor row = zeros({4}, {.device = device});
        CHECK_THROWS_AS(Tensor::view_of(row.storage(), 0, {3, 2}, {1, 1}, DType::f32).mul_(2.0), ValueError);
        CHECK_NOTHROW(Tensor::view_of(row.storage(), 0, {2, 2}, {1, 2}, DType::f32).mul_(2.0));
    });
}

TEST_CASE("Random tensors beyond the memory raise errors of the library", "[core][tensor][errors]") {
    CHECK_THROWS_AS(uniform({std::int64_t{1} << 60}, 0.0, 1.0), ShapeError);
    CHECK_THROWS_AS(normal({std::int64_t{1} << 44}, 0.0, 1.0), OutOfMemoryError);
}

TEST_CASE("Integers cannot take the place of a variable's elements", "[core][tensor][errors]") {
    const Tensor x = ones({2}, {.requires_grad = true});
    CHECK_THROWS_AS(x.set_data(ones({2}, {.dtype = DType::i64})), DTypeError);
    CHECK(x.dtype() == DType::f32);
}

TEST_CASE("16-bit types round to nearest even and keep their specials", "[core][half]") {
    CHECK(static_cast<float>(BFloat16(1.0F)) == 1.0F);
    CHECK(BFloat16(1.00390625F).bits == 0x3f80);  // halfway between two neighbours: the even one
    CHECK(BFloat16(1.01171875F).bits == 0x3f82);
    CHECK(std::isnan(static_cast<float>(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
    CHECK(static_cast<float>(BFloat16(std::numeric_limits<float>::max())) ==
          std::numeric_limits<float>::infinity());
    CHECK(Float16(1.0F).bits == 0x3c00);
    CHECK(Float16(65504.0F).bits == 0x7bff);
    CHECK(Float16(65520.0F).bits == 0x7c00);
    CHECK(Float16(65519.0F).bits == 0x7bff);
    CHECK(Float16(-2.0F).bits == 0xc000);
    CHECK(Float16(0x1p-24F).bits == 0x0001);
    CHECK(Float16(0x1p-25F).bits == 0x0000);
    CHECK(std::isnan(static_cast<float>(Float16(std::numeric_limits<float>::quiet_NaN()))));
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        Float16 half;
        half.bits = static_cast<std::uint16_t>(bits);
        const auto value = static_cast<float>(half);
        if (!std::isnan(value) && Float16(value).bits != bits) FAIL("f16 bits " << bits << " do not survive");
        BFloat16 brain;
        brain.bits = static_cast<std::uint16_t>(bits);
        const auto wide = static_cast<float>(brain);
        if (!std::isnan(wide) && BFloat16(wide).bits != bits) FAIL("bf16 bits " << bits << " do not survive");
    }
}
