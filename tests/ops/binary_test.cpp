#include "core/ops/binary.h"

#include "core/autograd.h"
#include "core/gradcheck.h"
#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
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
using Catch::Matchers::ContainsSubstring;
using fulcrum::test::counting;
using fulcrum::test::for_each_device;
using fulcrum::test::kAllTypes;
using fulcrum::test::normal_values;
using fulcrum::test::read_by_strides;

namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

/// Which operation a test row is about, and the same on two numbers.
struct Operation {
    const char* name;
    Binary apply;
    double (*scalar)(double, double);
};

const std::vector<Operation> kOperations{
    {"add", add, [](double a, double b) { return a + b; }},
    {"sub", sub, [](double a, double b) { return a - b; }},
    {"mul", mul, [](double a, double b) { return a * b; }},
    {"div", div, [](double a, double b) { return a / b; }},
};

/// Pairs of shapes that broadcast in every way.
const std::vector<std::pair<Shape, Shape>> kShapePairs{
    {{4, 5}, {4, 5}},          {{4, 5}, {5}}, {{4, 1}, {1, 5}}, {{2, 3, 4, 5}, {3, 1, 1}},
    {{2, 3, 4}, {}},           {{1}, {3, 4}}, {{}, {}},         {{2, 1, 3, 1}, {1, 4, 1, 5}},
    {{2, 3, 1, 1}, {3, 1, 1}}, {{0, 3}, {3}}, {{0, 3}, {1, 1}}, {{1, 70, 9, 9}, {2, 1, 9, 9}},
};

/// The elements of `x` broadcast to `shape`, in row-major order.
std::vector<double> broadcast_values(const Tensor& x, const Shape& shape) {
    return read_by_strides(expand(x.detach(), shape));
}

Tensor laid_out(const Tensor& x, MemoryFormat format) {
    return x.dim() == 4 ? x.contiguous(format) : x;
}

}  // namespace

TEST_CASE("arithmetic broadcasts by NumPy's rule in every layout") {
    for_each_device([](Device device) {
        for (const Operation& operation : kOperations) {
            for (const auto& [shape_a, shape_b] : kShapePairs) {
                for (const MemoryFormat format_a : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
                    for (const MemoryFormat format_b :
                         {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
                        INFO(operation.name << " " << to_string(shape_a) << " " << to_string(shape_b));
                        const TensorOptions options{.dtype = DType::f64, .device = device};
                        const Tensor a = laid_out(normal_values(shape_a, 1, options), format_a);
                        const Tensor b = laid_out(normal_values(shape_b, 2, options), format_b);
                        const Tensor result = operation.apply(a, b);
                        const auto left = broadcast_values(a, result.shape());
                        const auto right = broadcast_values(b, result.shape());
                        const auto values = read_by_strides(result);
                        for (std::size_t i = 0; i < values.size(); ++i) {
                            REQUIRE(values[i] == operation.scalar(left[i], right[i]));
                        }
                    }
                }
            }
        }
    });
}

TEST_CASE("the result lies in memory like the operand of the full shape") {
    for_each_device([](Device device) {
        const Tensor image =
            counting({2, 3, 4, 5}, {.device = device, .format = MemoryFormat::channels_last});
        const Tensor channel = counting({3, 1, 1}, {.device = device});
        CHECK((image + channel).is_channels_last());
        CHECK((channel + image).is_channels_last());
        CHECK((image * 2.0).is_channels_last());
        CHECK((image + image.contiguous()).is_channels_last());
        CHECK((channel + channel).is_contiguous());
    });
}

TEST_CASE("all seven element types compute in their own type") {
    for_each_device([](Device device) {
        for (const DType dtype : kAllTypes) {
            INFO(name_of(dtype));
            const TensorOptions options{.dtype = dtype, .device = device};
            const Tensor a = from_data<double>(std::vector<double>{6, 9, 20, 100}, {4}, options);
            const Tensor b = from_data<double>(std::vector<double>{3, 2, 4, 2}, {4}, options);
            CHECK(add(a, b).dtype() == dtype);
            CHECK(read_by_strides(a + b) == std::vector<double>{9, 11, 24, 102});
            CHECK(read_by_strides(a - b) == std::vector<double>{3, 7, 16, 98});
            CHECK(read_by_strides(a * b) == std::vector<double>{18, 18, 80, 200});
            CHECK(read_by_strides(a / b) == std::vector<double>{2, is_floating(dtype) ? 4.5 : 4.0, 5, 50});
        }
    });
}

TEST_CASE("16-bit arithmetic rounds once from f32") {
    for_each_device([](Device device) {
        const Tensor a = tensor<float>({256, 1}, {2}, device).to(DType::bf16);
        const Tensor b = tensor<float>({1, 0.00390625F}, {2}, device).to(DType::bf16);
        // 257 and 1 + 2^-8 lie halfway between neighbours and go to the even one.
        CHECK(read_by_strides(a + b) == std::vector<double>{256, 1});
        const Tensor large = tensor<float>({60000}, {1}, device).to(DType::f16);
        CHECK(std::isinf((large + large).item()));
    });
}

TEST_CASE("integers wrap around and division truncates towards zero") {
    for_each_device([](Device device) {
        constexpr auto kMax = std::numeric_limits<std::int32_t>::max();
        constexpr auto kMin = std::numeric_limits<std::int32_t>::min();
        const Tensor a = tensor<std::int32_t>({kMax, kMin, -7, 7}, {4}, device);
        const Tensor b = tensor<std::int32_t>({1, -1, 2, -2}, {4}, device);
        CHECK((a + b).to_vector<std::int32_t>() == std::vector<std::int32_t>{kMin, kMax, -5, 5});
        CHECK((a / b).to_vector<std::int32_t>() == std::vector<std::int32_t>{kMax, kMin, -3, -3});
        const Tensor longest = tensor<std::int64_t>({std::numeric_limits<std::int64_t>::min()}, {1}, device);
        CHECK((longest / tensor<std::int64_t>({-1}, {1}, device)).to_vector<std::int64_t>()[0] ==
              std::numeric_limits<std::int64_t>::min());
        const Tensor bytes = tensor<std::uint8_t>({200, 3}, {2}, device);
        CHECK((bytes + bytes).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{144, 6});
        CHECK((-bytes).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{56, 253});
    });
}

TEST_CASE("division by an integer zero is an error, by a floating zero an infinity") {
    for_each_device([](Device device) {
        const Tensor a = full({100'000}, 5.0, {.dtype = DType::i64, .device = device});
        const Tensor b = full({100'000}, 2.0, {.dtype = DType::i64, .device = device});
        narrow(b, 0, 99'999, 1).zero_();
        CHECK_THROWS_AS(a / b, ValueError);
        CHECK_THROWS_WITH(a / b, ContainsSubstring("div: a divisor of element type i64 is zero"));
        CHECK_THROWS_AS(a / 0.0, ValueError);
        const auto quotient = (tensor<float>({1, -1, 0}, {3}, device) / tensor<float>({0, 0, 0}, {3}, device))
                                  .to_vector<float>();
        CHECK(quotient[0] == std::numeric_limits<float>::infinity());
        CHECK(quotient[1] == -std::numeric_limits<float>::infinity());
        CHECK(std::isnan(quotient[2]));
    });
}

TEST_CASE("a number takes the tensor's element type") {
    for_each_device([](Device device) {
        for (const DType dtype : kAllTypes) {
            INFO(name_of(dtype));
            const Tensor x =
                from_data<double>(std::vector<double>{2, 4, 8}, {3}, {.dtype = dtype, .device = device});
            CHECK((x * 2.0).dtype() == dtype);
            CHECK(read_by_strides(x + 1.0) == std::vector<double>{3, 5, 9});
            CHECK(read_by_strides(1.0 + x) == std::vector<double>{3, 5, 9});
            CHECK(read_by_strides(x - 1.0) == std::vector<double>{1, 3, 7});
            CHECK(read_by_strides(9.0 - x) == std::vector<double>{7, 5, 1});
            CHECK(read_by_strides(x * 3.0) == std::vector<double>{6, 12, 24});
            CHECK(read_by_strides(3.0 * x) == std::vector<double>{6, 12, 24});
            CHECK(read_by_strides(x / 2.0) == std::vector<double>{1, 2, 4});
            CHECK(read_by_strides(8.0 / x) == std::vector<double>{4, 2, 1});
        }
        const Tensor counts = tensor<std::int64_t>({1, 2}, {2}, device);
        CHECK_THROWS_AS(counts * 0.5, ValueError);
        CHECK_THROWS_WITH(counts * 0.5, ContainsSubstring("mul: the number 0.5") && ContainsSubstring("i64"));
        const Tensor bytes = full({1}, 5.0, {.dtype = DType::u8, .device = device});
        CHECK_THROWS_WITH(bytes + -1.0, ContainsSubstring("-1") && ContainsSubstring("u8"));
        CHECK_THROWS_AS(bytes + 256.0, ValueError);
        CHECK((bytes + 255.0).item() == 4.0);
        const Tensor words = full({1}, 1.0, {.dtype = DType::i32, .device = device});
        CHECK_THROWS_AS(words + 0x1p31, ValueError);
        CHECK((words * -0x1p31).item() == -0x1p31);
        CHECK_THROWS_AS(counts + 0x1p63, ValueError);
        CHECK_THROWS_AS(counts + std::numeric_limits<double>::infinity(), ValueError);
        CHECK_THROWS_AS(counts + std::numeric_limits<double>::quiet_NaN(), ValueError);
        const Tensor negated = -tensor<float>({0.0F, 1.5F}, {2}, device);
        CHECK(std::signbit(negated.to_vector<float>()[0]));
        CHECK(negated.to_vector<float>()[1] == -1.5F);
    });
}

TEST_CASE("in-place sums and scalings reach views, broadcast and every element type") {
    for_each_device([](Device device) {
        for (const DType dtype : kAllTypes) {
            INFO(name_of(dtype));
            const Tensor x = full({2, 3, 40}, 2.0, {.dtype = dtype, .device = device});
            const Tensor row =
                from_data<double>(std::vector<double>{1, 2, 3}, {3, 1}, {.dtype = dtype, .device = device});
            narrow(x, 2, 1, 38).add_(row, 2.0);
            transpose(narrow(x, 2, 39, 1), 0, 2).mul_(3.0);
            const auto values = read_by_strides(x);
            for (std::size_t i = 0; i < values.size(); ++i) {
                const std::size_t column = i % 40;
                const double added = 2.0 + 2.0 * static_cast<double>(1 + i / 40 % 3);
                CHECK(values[i] == (column == 0 ? 2.0 : (column == 39 ? 6.0 : added)));
            }
        }
        const Tensor x = tensor<float>({1, 2}, {2}, device);
        CHECK(read_by_strides(x.add_(x)) == std::vector<double>{2, 4});
    });
}

TEST_CASE("large operands give the same bits with one thread and with several") {
    const int before = num_threads();
    const Tensor a = normal_values({4, 16, 50, 50}, 1).contiguous(MemoryFormat::channels_last);
    const Tensor b = normal_values({4, 16, 50, 50}, 2);
    const Tensor channel = normal_values({16, 1, 1}, 3);
    set_num_threads(1);
    const auto products = (a * b).to_vector<float>();
    const auto sums = (a + channel).to_vector<float>();
    set_num_threads(3);
    CHECK((a * b).to_vector<float>() == products);
    CHECK((a + channel).to_vector<float>() == sums);
    set_num_threads(before);
}

TEST_CASE("gradients agree with finite differences for every broadcast") {
    for_each_device([](Device device) {
        for (const Operation& operation : kOperations) {
            for (const auto& [shape_a, shape_b] : kShapePairs) {
                INFO(operation.name << " " << to_string(shape_a) << " " << to_string(shape_b));
                Tensor a = normal_values(shape_a, 5, {.dtype = DType::f64, .device = device});
                Generator generator(6);
                // Away from zero: it divides.
                Tensor b = uniform(shape_b, 0.7, 2.0, {.dtype = DType::f64, .device = device}, generator);
                a.set_requires_grad();
                b.set_requires_grad();
                const auto function = [&](const std::vector<Tensor>& inputs) {
                    return operation.apply(inputs[0], inputs[1]);
                };
                const GradcheckResult result = gradcheck(function, {a, b}, {.max_elements = 40});
                INFO(result.message);
                CHECK(result.passed);
            }
        }
    });
}

TEST_CASE("gradients of channels-last operands and of operators with numbers agree with finite differences") {
    for_each_device([](Device device) {
        Tensor x = normal_values(
            {2, 3, 2, 2}, 5, {.dtype = DType::f64, .device = device, .format = MemoryFormat::channels_last});
        Generator generator(6);
        Tensor channel = uniform({3, 1, 1}, 0.7, 2.0, {.dtype = DType::f64, .device = device}, generator);
        x.set_requires_grad();
        channel.set_requires_grad();
        const auto function = [](const std::vector<Tensor>& inputs) {
            const Tensor scaled = (2.0 - inputs[0] * 0.5) / 3.0 + (-inputs[0]);
            return (scaled + 1.0) * inputs[1] - 2.0 / inputs[1];
        };
        const GradcheckResult result = gradcheck(function, {x, channel});
        INFO(result.message);
        CHECK(result.passed);
    });
}

TEST_CASE("only the wanted gradients are computed") {
    for_each_device([](Device device) {
        for (const Operation& operation : kOperations) {
            INFO(operation.name);
            Tensor a = tensor<double>({3, 5}, {2}, device);
            const Tensor b = tensor<double>({2, 4}, {2}, device);
            a.set_requires_grad();
            sum(operation.apply(a, b)).backward();
            CHECK(a.grad().defined());
            CHECK_FALSE(b.grad().defined());
            Tensor c = tensor<double>({2, 4}, {2}, device);
            c.set_requires_grad();
            sum(operation.apply(b, c)).backward();
            CHECK(c.grad().defined());
        }
    });
}

TEST_CASE("a value used several times gets the sum of its gradients, once each") {
    for_each_device([](Device device) {
        for (const DType dtype : {DType::f64, DType::f32}) {
            const TensorOptions variable{.dtype = dtype, .device = device, .requires_grad = true};
            {
                const Tensor x = scalar(1.0, variable);
                const Tensor u = x * 1.0;
                const Tensor v = x * x;
                (x * u + v * 1.0 + x * u).backward();
                CHECK(x.grad().item() == 6.0);
            }
            {
                const Tensor x = scalar(2.0, variable);
                const Tensor y = 3.0 * x;
                (2.0 * y + 5.0 * y).backward();
                CHECK(x.grad().item() == 21.0);
            }
            {
                const Tensor x = scalar(2.0, variable);
                const Tensor y = 3.0 * x;
                const Tensor c = 2.0 * y + 5.0 * y + y * y;
                c.backward(true);
                CHECK(x.grad().item() == 57.0);
                c.backward();
                CHECK(x.grad().item() == 114.0);
                CHECK_THROWS_AS(c.backward(), AutogradError);
            }
            {
                // A residual block whose input feeds two branches.
                Tensor x = tensor<double>({1, -2, 3}, {3}, device).to(dtype);
                x.set_requires_grad();
                sum(x + (x * x + x)).backward();
                CHECK(read_by_strides(x.grad()) == std::vector<double>{4, -2, 8});
            }
        }
    });
}

TEST_CASE("the gradient of a broadcast operand is the sum, in the operand's shape") {
    for_each_device([](Device device) {
        const TensorOptions variable{.device = device, .requires_grad = true};
        const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3}, device);
        const Tensor target = tensor<float>({1, 2}, {2, 1}, device);
        // x times the weight column, as a product of matrices and as a sum of products along the rows.
        for (const bool as_matrices : {true, false}) {
            const Tensor weight = from_data<float>(std::vector<float>{1, 0, -1}, {3, 1}, variable);
            const Tensor bias = from_data<float>(std::vector<float>{0.5F, -0.5F, 1.0F}, {1, 3}, variable);
            const Tensor product =
                as_matrices ? matmul(x, weight) : sum(x * reshape(weight, {1, 3}), {1}, true);
            const Tensor difference = product + bias - target;
            const Tensor loss = sum(difference * difference);
            CHECK(loss.item() == 64.0);
            loss.backward();
            CHECK(weight.grad().shape() == Shape{3, 1});
            CHECK(weight.grad().to_vector<float>() == std::vector<float>{-104, -142, -180});
            CHECK(bias.grad().shape() == Shape{1, 3});
            CHECK(bias.grad().to_vector<float>() == std::vector<float>{-12, -16, -10});
        }

        const Tensor offset = full({1}, 0.5, variable);
        (x + offset).backward(full({2, 3}, 7.0, {.device = device}));
        CHECK(offset.grad().shape() == Shape{1});
        CHECK(offset.grad().item() == 42.0);
    });
}

TEST_CASE("a factor changed in place before the backward pass is an error") {
    for_each_device([](Device device) {
        Tensor a = tensor<float>({1, 2}, {2}, device);
        const Tensor b = tensor<float>({3, 4}, {2}, device);
        a.set_requires_grad();
        const Tensor loss = sum(a * b);
        b.mul_(2.0);
        CHECK_THROWS_AS(loss.backward(), AutogradError);
    });
}

TEST_CASE("arithmetic names the op, the shapes and the types that do not fit") {
    for_each_device([](Device device) {
        const Tensor a = zeros({2, 3}, {.device = device});
        CHECK_THROWS_AS(a + zeros({4}, {.device = device}), ShapeError);
        CHECK_THROWS_WITH(mul(a, zeros({4}, {.device = device})), ContainsSubstring("mul") &&
                                                                      ContainsSubstring("[2, 3]") &&
                                                                      ContainsSubstring("[4]"));
        CHECK_THROWS_AS(sub(a, zeros({3}, {.dtype = DType::f64, .device = device})), DTypeError);
        CHECK_THROWS_WITH(sub(a, zeros({3}, {.dtype = DType::f64, .device = device})),
                          ContainsSubstring("sub: a is f32 but b is f64"));
        CHECK_THROWS_WITH(a / Tensor(), ContainsSubstring("div: b is an undefined tensor"));
        CHECK_THROWS_AS(Tensor() * 2.0, ValueError);
        CHECK_THROWS_AS(-Tensor(), ValueError);
    });
}
