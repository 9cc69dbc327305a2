#include "core/ops/reduce.h"

#include "core/autograd.h"
#include "core/gradcheck.h"
#include "core/ops/binary.h"
#include "core/ops/shape.h"
#include "core/threads.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/ops/elements.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace fulcrum;
using Catch::Matchers::ContainsSubstring;
using fulcrum::test::counting;
using fulcrum::test::for_each_device;
using fulcrum::test::kAllTypes;
using fulcrum::test::kInfinity;
using fulcrum::test::kNaN;
using fulcrum::test::normal_values;
using fulcrum::test::read_by_strides;

namespace {

/// Sums by the definition: every element is added to the place that its kept coordinates name.
std::vector<double> sums_by_definition(const Tensor& x, std::uint32_t reduced) {
    const std::vector<double> values = read_by_strides(x);
    std::size_t places = 1;
    for (std::size_t d = 0; d < x.shape().size(); ++d) {
        if ((reduced >> d & 1U) == 0) places *= static_cast<std::size_t>(x.shape()[d]);
    }
    std::vector<double> sums(places, 0.0);
    std::vector<std::int64_t> index(x.shape().size(), 0);
    for (const double value : values) {
        std::size_t place = 0;
        for (std::size_t d = 0; d < index.size(); ++d) {
            if ((reduced >> d & 1U) == 0) {
                place = place * static_cast<std::size_t>(x.shape()[d]) + static_cast<std::size_t>(index[d]);
            }
        }
        sums[place] += value;
        for (std::size_t d = index.size(); d-- > 0;) {
            if (++index[d] < x.shape()[d]) break;
            index[d] = 0;
        }
    }
    return sums;
}

/// The dimensions whose bits are set.
Dims dims_of(std::uint32_t mask) {
    Dims dims;
    for (std::uint32_t d = 0; d < Dims::kMaxRank; ++d) {
        if ((mask >> d & 1U) != 0) dims.push_back(d);
    }
    return dims;
}

}  // namespace

TEST_CASE("sums and means over every set of dimensions, in every layout") {
    for_each_device([](Device device) {
        const Tensor planar = counting({3, 35, 4, 6}, {.dtype = DType::f64, .device = device});
        const std::vector<Tensor> inputs{planar,
                                         planar.contiguous(MemoryFormat::channels_last),
                                         permute(planar, {2, 0, 3, 1}),
                                         narrow(planar, 1, 3, 20),
                                         narrow(planar, 3, 1, 3),
                                         expand(narrow(planar, 2, 1, 1), {3, 35, 9, 6})};
        for (const Tensor& x : inputs) {
            for (std::uint32_t mask = 1; mask < 16; ++mask) {
                INFO(to_string(x.shape()) << " strides " << to_string(x.strides()) << " mask " << mask);
                const auto expected = sums_by_definition(x, mask);
                const Tensor flat = sum(x, dims_of(mask));
                const Tensor kept = sum(x, dims_of(mask), true);
                CHECK(flat.dim() == 4 - std::popcount(mask));
                CHECK(kept.dim() == 4);
                // Sums of small integers are exact.
                CHECK(read_by_strides(flat) == expected);
                CHECK(read_by_strides(kept) == expected);
                const double count = static_cast<double>(x.numel()) / static_cast<double>(expected.size());
                const auto means = read_by_strides(mean(x, dims_of(mask)));
                for (std::size_t i = 0; i < means.size(); ++i)
                    CHECK(means[i] == expected[i] / count);
            }
        }
    });
}

TEST_CASE("all dimensions are reduced when none is named") {
    for_each_device([](Device device) {
        const Tensor x = counting({2, 3, 4}, {.device = device});
        CHECK(sum(x).shape() == Shape{});
        CHECK(sum(x).item() == 276.0);
        CHECK(sum(x, {}, true).shape() == Shape{1, 1, 1});
        CHECK(mean(x).item() == 11.5);
        CHECK(sum(x, {-1}).shape() == Shape{2, 3});
        CHECK(sum(scalar(5.0, {.device = device})).item() == 5.0);
        CHECK(sum(scalar(5.0, {.device = device}), {-1}).item() == 5.0);
    });
}

TEST_CASE("sums of floating types are kept in wider precision") {
    for_each_device([](Device device) {
        // 0.1 added a million times in f32 would end near 100958.
        const Tensor tenths = full({1'000'000}, 0.1, {.device = device});
        CHECK(sum(tenths).item() == Catch::Approx(100000.0).epsilon(1e-6));
        CHECK(sum(reshape(tenths, {1000, 1000}), {0}).to_vector<float>()[7] ==
              Catch::Approx(100.0F).epsilon(1e-6));
        for (const DType dtype : {DType::bf16, DType::f16}) {
            // A 16-bit accumulator would stop at 256 or 2048.
            CHECK(sum(ones({4096}, {.dtype = dtype, .device = device})).item() == 4096.0);
            CHECK(mean(ones({100'000}, {.dtype = dtype, .device = device})).item() == 1.0);
        }
        CHECK(mean(full({1000}, 3e38, {.device = device})).item() == Catch::Approx(3e38).epsilon(1e-6));
    });
}

TEST_CASE("integers are summed exactly") {
    for_each_device([](Device device) {
        const std::int64_t large = std::int64_t{1} << 60;
        const Tensor x = tensor<std::int64_t>({large, 1, -3, large}, {2, 2}, device);
        CHECK(sum(x, {0}).to_vector<std::int64_t>() == std::vector<std::int64_t>{large - 3, large + 1});
        CHECK(sum(counting({50'000}, {.dtype = DType::i32, .device = device})).dtype() == DType::i32);
        CHECK(sum(counting({97, 300}, {.dtype = DType::i32, .device = device})).item() ==
              300.0 * 96 * 97 / 2);
    });
}

TEST_CASE("large sums are right and have the same bits with one thread and with several") {
    const int before = num_threads();
    const Tensor planar = normal_values({6, 19, 60, 60}, 3);
    const std::vector<Tensor> inputs{planar, planar.contiguous(MemoryFormat::channels_last),
                                     normal_values({300, 700}, 4), normal_values({500'000}, 5)};
    for (const Tensor& x : inputs) {
        for (std::uint32_t mask = 1; mask < 1U << x.shape().size(); ++mask) {
            INFO(to_string(x.shape()) << " strides " << to_string(x.strides()) << " mask " << mask);
            set_num_threads(1);
            const auto one = sum(x, dims_of(mask)).to_vector<float>();
            set_num_threads(3);
            CHECK(sum(x, dims_of(mask)).to_vector<float>() == one);
            const auto expected = sums_by_definition(x, mask);
            for (std::size_t i = 0; i < one.size(); ++i) {
                REQUIRE(one[i] == Catch::Approx(expected[i]).epsilon(1e-6).margin(1e-9));
            }
        }
    }
    set_num_threads(before);
}

TEST_CASE("a sum over no elements is 0 and a mean NaN") {
    for_each_device([](Device device) {
        const Tensor x = empty({3, 0, 2}, {.device = device});
        CHECK(read_by_strides(sum(x, {1})) == std::vector<double>(6, 0.0));
        CHECK(sum(x).item() == 0.0);
        CHECK(sum(x, {0}).shape() == Shape{0, 2});
        CHECK(std::isnan(mean(x).item()));
        CHECK(std::isnan(mean(x, {1}).to_vector<float>()[5]));
        Tensor variable = empty({0, 2}, {.device = device});
        variable.set_requires_grad();
        sum(variable).backward();
        CHECK(variable.grad().shape() == Shape{0, 2});
    });
}

TEST_CASE("infinities and NaN reach the sum") {
    for_each_device([](Device device) {
        const Tensor x = ones({3, 100}, {.device = device});
        narrow(narrow(x, 0, 0, 1), 1, 50, 1).fill_(kInfinity);
        narrow(narrow(x, 0, 1, 1), 1, 99, 1).fill_(kNaN);
        const auto sums = sum(x, {1}).to_vector<double>();
        CHECK(sums[0] == kInfinity);
        CHECK(std::isnan(sums[1]));
        CHECK(sums[2] == 100.0);
    });
}

TEST_CASE("gradients of sums and means agree with finite differences") {
    for_each_device([](Device device) {
        const TensorOptions options{.dtype = DType::f64, .device = device};
        for (const bool channels_last : {false, true}) {
            Tensor x = normal_values({2, 3, 2, 3}, 9, options);
            if (channels_last) x = x.contiguous(MemoryFormat::channels_last);
            x.set_requires_grad();
            for (std::uint32_t mask = 0; mask < 16; ++mask) {
                for (const bool keepdim : {false, true}) {
                    INFO("mask " << mask << " keepdim " << keepdim);
                    const auto function = [&](const std::vector<Tensor>& inputs) {
                        const Tensor squares = inputs[0] * inputs[0];
                        return sum(squares, dims_of(mask), keepdim) * mean(inputs[0], dims_of(mask), keepdim);
                    };
                    const GradcheckResult result = gradcheck(function, {x});
                    INFO(result.message);
                    CHECK(result.passed);
                }
            }
        }
    });
}

TEST_CASE("gradients of views and of 16-bit means") {
    for_each_device([](Device device) {
        Tensor x = counting({4, 6}, {.device = device});
        x.set_requires_grad();
        sum(transpose(narrow(x, 1, 2, 3), 0, 1), {0}).backward(tensor<float>({1, 2, 3, 4}, {4}, device));
        CHECK(read_by_strides(narrow(x.grad(), 0, 3, 1)) == std::vector<double>{0, 0, 4, 4, 4, 0});
        Tensor half = ones({1003}, {.dtype = DType::f16, .device = device});
        half.set_requires_grad();
        mean(half).backward();
        CHECK(half.grad().to_vector<float>()[1002] == static_cast<float>(Float16(1.0F / 1003.0F)));
    });
}

TEST_CASE("sum_to_shape undoes a broadcast") {
    for_each_device([](Device device) {
        const Tensor x = counting({2, 3, 4}, {.device = device});
        CHECK(sum_to_shape(x, {2, 3, 4}).is_same(x));
        CHECK(read_by_strides(sum_to_shape(x, {3, 1})) == sums_by_definition(x, 0b101));
        CHECK(sum_to_shape(x, {3, 1}).shape() == Shape{3, 1});
        CHECK(sum_to_shape(x, {1, 1, 4}).shape() == Shape{1, 1, 4});
        CHECK(sum_to_shape(x, {}).item() == 276.0);
        CHECK_THROWS_AS(sum_to_shape(x, {2, 4}), ShapeError);
        CHECK_THROWS_WITH(sum_to_shape(x, {5}), ContainsSubstring("sum_to_shape: shape [5]"));
    });
}

TEST_CASE("argmax takes the first of equals and the first NaN") {
    for_each_device([](Device device) {
        const Tensor x = tensor<double>({1, 5, 5, 2,        //
                                         3, kNaN, 9, kNaN,  //
                                         -1, -1, -1, -1,    //
                                         -kInfinity, 0, kInfinity, kInfinity},
                                        {4, 4}, device);
        CHECK(argmax(x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1, 0, 2});
        CHECK(argmax(x, -2).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1, 3, 1});
        CHECK(argmax(x, 1, true).shape() == Shape{4, 1});
        for (const DType dtype : kAllTypes) {
            INFO(name_of(dtype));
            const Tensor counts = counting({3, 7, 5}, {.dtype = dtype, .device = device});
            CHECK(argmax(counts, 1).dtype() == DType::i64);
            const auto places = read_by_strides(argmax(counts, 1));
            // The count starts again at 97, which is place [2, 5, 2].
            CHECK(places[10] == 5.0);
            CHECK(places[11] == 5.0);
            CHECK(places[12] == 4.0);
            CHECK(places[14] == 4.0);
        }
        const Tensor image = counting({2, 3, 4, 5}, {.device = device});
        CHECK(argmax(image.contiguous(MemoryFormat::channels_last), 1).to_vector<std::int64_t>() ==
              argmax(image, 1).to_vector<std::int64_t>());
    });
}

TEST_CASE("argmax of scalars and empty tensors") {
    for_each_device([](Device device) {
        CHECK(argmax(scalar(3.0, {.device = device}), 0).item() == 0.0);
        CHECK(argmax(empty({0, 3}, {.device = device}), 1).shape() == Shape{0});
        CHECK_THROWS_AS(argmax(empty({2, 0}, {.device = device}), 1), ShapeError);
        CHECK_THROWS_WITH(argmax(empty({2, 0}, {.device = device}), 1),
                          ContainsSubstring("no elements to choose from"));
    });
}

TEST_CASE("reductions refuse bad dimensions and types by name") {
    for_each_device([](Device device) {
        const Tensor x = zeros({2, 3}, {.device = device});
        CHECK_THROWS_AS(sum(x, {2}), ShapeError);
        CHECK_THROWS_WITH(mean(x, {0, -2}), ContainsSubstring("mean: dimension -2 is named twice"));
        CHECK_THROWS_WITH(argmax(x, 5), ContainsSubstring("argmax"));
        CHECK_THROWS_AS(sum(zeros({2}, {.dtype = DType::u8, .device = device})), DTypeError);
        CHECK_THROWS_WITH(mean(zeros({2}, {.dtype = DType::i64, .device = device})),
                          ContainsSubstring("mean: x is i64"));
        CHECK_THROWS_AS(sum(Tensor()), ValueError);
        CHECK_THROWS_AS(argmax(Tensor(), 0), ValueError);
        CHECK_THROWS_AS(sum_to_shape(Tensor(), {}), ValueError);
    });
}
