#include "core/ops/shape.h"

#include "core/error.h"
#include "core/gradcheck.h"
#include "core/ops/binary.h"
#include "core/ops/matmul.h"
#include "core/ops/softmax.h"
#include "core/shape.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <functional>
#include <numeric>

using namespace fulcrum;
using fulcrum::test::for_each_device;

namespace {

Tensor counted(const Shape& shape, Device device = kCpu, MemoryFormat format = MemoryFormat::contiguous) {
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    std::iota(values.begin(), values.end(), 0.0F);
    return from_data<float>(values, shape, {.device = device, .format = format});
}

bool shares(const Tensor& a, const Tensor& b) {
    return a.storage() == b.storage();
}

}  // namespace

TEST_CASE("reshape is a view where strides allow and a copy where not", "[ops][shape]") {
    for_each_device([](Device device) {
        const Tensor x = counted({2, 3, 4}, device);
        CHECK(shares(reshape(x, {6, 4}), x));
        CHECK(shares(reshape(x, {2, -1}), x));
        CHECK(reshape(x, {-1}).shape() == Shape{24});
        CHECK(shares(reshape(transpose(x, 0, 1), {3, 2, 2, 2}), x));
        const Tensor copied = reshape(transpose(x, 0, 2), {24});
        CHECK_FALSE(shares(copied, x));
        CHECK(copied.to_vector<float>() == transpose(x, 0, 2).to_vector<float>());
        const Tensor image = counted({2, 3, 4, 5}, device, MemoryFormat::channels_last);
        CHECK(reshape(image, {2, 60}).to_vector<float>() == image.to_vector<float>());
    });
}

TEST_CASE("reshape handles scalars and empty tensors", "[ops][shape]") {
    CHECK(reshape(scalar(3.0), {1, 1}).to_vector<float>() == std::vector<float>{3});
    CHECK(reshape(counted({1}), {}).item() == 0.0);
    CHECK(reshape(zeros({0, 4}), {2, 0, 7}).shape() == Shape{2, 0, 7});
    CHECK_THROWS_AS(reshape(zeros({0, 4}), {0, -1}), ShapeError);
}

TEST_CASE("flatten, squeeze and unsqueeze change the shape only", "[ops][shape]") {
    const Tensor x = counted({2, 3, 4, 5});
    CHECK(flatten(x).shape() == Shape{120});
    CHECK(flatten(x, 1).shape() == Shape{2, 60});
    CHECK(flatten(x, 1, 2).shape() == Shape{2, 12, 5});
    CHECK(flatten(scalar(1.0)).shape() == Shape{1});
    CHECK(unsqueeze(x, -1).shape() == Shape{2, 3, 4, 5, 1});
    CHECK(unsqueeze(x, 1).shape() == Shape{2, 1, 3, 4, 5});
    CHECK(squeeze(unsqueeze(x, 1), 1).to_vector<float>() == x.to_vector<float>());
    CHECK_THROWS_AS(squeeze(x, 0), ShapeError);
    CHECK_THROWS_AS(flatten(x, 2, 1), ShapeError);
}

TEST_CASE("permute and transpose reorder the dimensions", "[ops][shape]") {
    for_each_device([](Device device) {
        const Tensor x = counted({2, 3}, device);
        CHECK(transpose(x, 0, 1).to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
        const Tensor y = counted({2, 3, 4}, device);
        const Tensor z = permute(y, {2, 0, 1});
        CHECK(z.shape() == Shape{4, 2, 3});
        CHECK(z.to_vector<float>()[7] == 5.0F);  // z[1, 0, 1] is y[0, 1, 1]
        CHECK_THROWS_AS(permute(y, {0, 0, 1}), ShapeError);
        CHECK_THROWS_AS(permute(y, {0, 1}), ShapeError);
        CHECK_THROWS_AS(transpose(y, 0, 3), ShapeError);
    });
}

TEST_CASE("narrow and expand are views", "[ops][shape]") {
    const Tensor x = counted({2, 3});
    CHECK(narrow(x, 1, 1, 2).to_vector<float>() == std::vector<float>{1, 2, 4, 5});
    CHECK(shares(narrow(x, 1, 1, 2), x));
    CHECK(narrow(x, 0, 2, 0).numel() == 0);
    CHECK_THROWS_AS(narrow(x, 1, 2, 2), ShapeError);
    CHECK_THROWS_AS(narrow(x, 1, -1, 2), ShapeError);
    CHECK(expand(counted({2, 1}), {2, 2, 3}).to_vector<float>() ==
          std::vector<float>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
    CHECK_THROWS_WITH(expand(x, {2, 4}), Catch::Matchers::ContainsSubstring("[2, 3]") &&
                                             Catch::Matchers::ContainsSubstring("[2, 4]"));
}

TEST_CASE("Gradients pass through every view", "[ops][shape][grad]") {
    for_each_device([](Device device) {
        using Function = std::function<Tensor(const Tensor&)>;
        const std::vector<std::pair<const char*, Function>> cases{
            {"reshape",
             [](const Tensor& x) {
                 return reshape(x, {4, 6});
             }},
            {"reshape of a transposed tensor",
             [](const Tensor& x) { return reshape(transpose(x, 0, 2), {24}); }},
            {"flatten", [](const Tensor& x) { return flatten(x, 1); }},
            {"transpose", [](const Tensor& x) { return transpose(x, 0, 1); }},
            {"permute",
             [](const Tensor& x) {
                 return permute(x, {2, 0, 1});
             }},
            {"unsqueeze", [](const Tensor& x) { return unsqueeze(x, 1); }},
            {"squeeze", [](const Tensor& x) { return squeeze(unsqueeze(x, 2), 2); }},
            {"narrow", [](const Tensor& x) { return narrow(x, 1, 1, 2); }},
            {"expand",
             [](const Tensor& x) {
                 return expand(unsqueeze(x, 0), {5, 2, 3, 4});
             }},
        };
        for (const auto& [name, function] : cases) {
            manual_seed(3);
            Tensor x = uniform({2, 3, 4}, -1.0, 1.0, {.dtype = DType::f64, .device = device});
            x.set_requires_grad();
            const GradcheckResult result = gradcheck(
                [&function = function](const std::vector<Tensor>& in) {
                    const Tensor y = function(in[0]);
                    return mul(y, y);
                },
                {x});
            INFO(name << ": " << result.message);
            CHECK(result.passed);
        }
    });
}

TEST_CASE("Shapes of no elements may have any sizes beside", "[ops][shape]") {
    constexpr std::int64_t kHuge = std::int64_t{1} << 40;
    const Tensor x = zeros({0, kHuge, kHuge});
    CHECK(narrow(x, 1, kHuge - 1, 1).shape() == Shape{0, 1, kHuge});
    CHECK(unsqueeze(x, 1).shape() == Shape{0, 1, kHuge, kHuge});
    CHECK(permute(x, {2, 1, 0}).contiguous().shape() == Shape{kHuge, kHuge, 0});
    CHECK(flatten(x).shape() == Shape{0});
    CHECK_THROWS_AS(flatten(x, 1), ShapeError);
    CHECK(zeros({0, kHuge, kHuge, 2}, {.format = MemoryFormat::channels_last}).numel() == 0);
    CHECK(zeros({0, kHuge, kHuge, 2}, {.format = MemoryFormat::tap_major}).numel() == 0);
    CHECK(softmax(x, -1).shape() == x.shape());
    CHECK(matmul(zeros({0, kHuge, 3}), zeros({3, 2})).shape() == Shape{0, kHuge, 2});
    CHECK_THROWS_AS(matmul(zeros({kHuge, kHuge, 0}), zeros({0, kHuge})), ShapeError);
    CHECK_THROWS_AS(linear(zeros({kHuge, kHuge, 0}), zeros({kHuge, 0})), ShapeError);
}

TEST_CASE("Shapes broadcast by the usual rule", "[core][shape]") {
    CHECK(broadcast_shapes({2, 1, 3}, {4, 1}, "add") == Shape{2, 4, 3});
    CHECK(broadcast_shapes({}, {2}, "add") == Shape{2});
    CHECK(broadcast_shapes({0}, {1}, "add") == Shape{0});
    CHECK_THROWS_WITH(broadcast_shapes({2}, {3}, "add"),
                      Catch::Matchers::ContainsSubstring("add: shapes [2] and [3]"));
}
