#include "core/ops/softmax.h"

#include "core/gradcheck.h"
#include "core/ops/shape.h"
#include "core/random.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace fulcrum;
using test::for_each_device;
using Values = std::vector<double>;

namespace {

Tensor apply(const Tensor& x, std::int64_t dim, bool logarithm) {
    return logarithm ? log_softmax(x, dim) : softmax(x, dim);
}

/// Calls `body(offset, length, stride)` for every line along `dim`.
template <class Body>
void each_line(const Shape& shape, std::size_t dim, const Body& body) {
    std::size_t outer = 1;
    std::size_t inner = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (i < dim) outer *= static_cast<std::size_t>(shape[i]);
        if (i > dim) inner *= static_cast<std::size_t>(shape[i]);
    }
    const auto length = static_cast<std::size_t>(shape[dim]);
    for (std::size_t o = 0; o < outer; ++o) {
        for (std::size_t i = 0; i < inner; ++i)
            body(o * length * inner + i, length, inner);
    }
}

Values naive(const Values& x, const Shape& shape, std::size_t dim, bool logarithm) {
    Values output(x.size());
    each_line(shape, dim, [&](std::size_t offset, std::size_t length, std::size_t stride) {
        double top = x[offset];
        for (std::size_t i = 0; i < length; ++i)
            top = std::max(top, x[offset + i * stride]);
        double total = 0.0;
        for (std::size_t i = 0; i < length; ++i)
            total += std::exp(x[offset + i * stride] - top);
        for (std::size_t i = 0; i < length; ++i) {
            const double shifted = x[offset + i * stride] - top;
            output[offset + i * stride] = logarithm ? shifted - std::log(total) : std::exp(shifted) / total;
        }
    });
    return output;
}

Values naive_gradient(const Values& x, const Values& grad, const Shape& shape, std::size_t dim,
                      bool logarithm) {
    const Values p = naive(x, shape, dim, false);
    Values output(x.size());
    each_line(shape, dim, [&](std::size_t offset, std::size_t length, std::size_t stride) {
        double total = 0.0;
        for (std::size_t i = 0; i < length; ++i) {
            const std::size_t at = offset + i * stride;
            total += logarithm ? grad[at] : grad[at] * p[at];
        }
        for (std::size_t i = 0; i < length; ++i) {
            const std::size_t at = offset + i * stride;
            output[at] = logarithm ? grad[at] - p[at] * total : p[at] * (grad[at] - total);
        }
    });
    return output;
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

double tolerance(DType dtype) {
    switch (dtype) {
        case DType::f64:
            return 1e-13;
        case DType::f32:
            return 1e-6;
        case DType::bf16:
            return 0x1.1p-8;
        default:
            return 0x1.1p-11;
    }
}

}  // namespace

TEST_CASE("softmax and its gradient agree with plain loops along any dimension", "[ops]") {
    const auto shape =
        GENERATE(Shape{4, 10}, Shape{2, 1000}, Shape{2, 3, 4, 5}, Shape{3, 5, 130}, Shape{7}, Shape{5, 1});
    const auto dtype = GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
    const bool logarithm = GENERATE(false, true);
    CAPTURE(to_string(shape), name_of(dtype), logarithm);
    for_each_device([&](Device device) {
        Generator generator(11);
        Tensor x = normal(shape, 0.0, 3.0, {.dtype = dtype, .device = device}, generator);
        const Tensor grad = normal(shape, 0.0, 1.0, {.dtype = dtype, .device = device}, generator);
        x.set_requires_grad();
        for (std::size_t dim = 0; dim < shape.size(); ++dim) {
            x.zero_grad();
            const Tensor output = apply(x, static_cast<std::int64_t>(dim), logarithm);
            output.backward(grad);
            const Values values = x.to_vector<double>();
            CHECK(output.dtype() == dtype);
            CHECK(distance(output.to_vector<double>(), naive(values, shape, dim, logarithm)) <
                  tolerance(dtype));
            // The backward reads the rounded output, and a line of `log_softmax` sums up to 1000 gradients.
            const double slack = dtype == DType::f64 || dtype == DType::f32 ? 1.0 : 16.0;
            CHECK(distance(x.grad().to_vector<double>(),
                           naive_gradient(values, grad.to_vector<double>(), shape, dim, logarithm)) <
                  slack * tolerance(dtype));
        }
    });
}

TEST_CASE("softmax counts negative dimensions from the end and takes any layout", "[ops]") {
    for_each_device([](Device device) {
        Generator generator(5);
        const Tensor x = normal({3, 4, 5}, 0.0, 1.0, {.device = device}, generator);
        const Values expected = softmax(x, 2).to_vector<double>();
        CHECK(softmax(x, -1).to_vector<double>() == expected);
        const Tensor turned = softmax(transpose(x, 0, 2).contiguous(), 0);
        CHECK(distance(transpose(turned, 0, 2).to_vector<double>(), expected) < 1e-6);
        CHECK(softmax(transpose(x, 0, 2), 0).to_vector<double>() == turned.to_vector<double>());
    });
}

TEST_CASE("softmax is finite for extreme values", "[ops]") {
    const auto dtype = GENERATE(DType::f64, DType::f32);
    for_each_device([&](Device device) {
        const Tensor x =
            tensor<double>({1e8, -1e8, 0, 1e30, 1e30, -1e30, -700, -710, -720, 88, 89, -90}, {4, 3}, device)
                .to(dtype);
        for (const bool logarithm : {false, true}) {
            const Tensor output = apply(x, 1, logarithm);
            CHECK(distance(output.to_vector<double>(), naive(x.to_vector<double>(), {4, 3}, 1, logarithm)) <
                  1e-6);
        }
        CHECK(softmax(x, 1).to_vector<double>()[1] == 0.0);
    });
}

TEST_CASE("softmax of a line with NaN is NaN and leaves other lines alone", "[ops]") {
    for_each_device([](Device device) {
        const float nan = std::numeric_limits<float>::quiet_NaN();
        const Tensor x = tensor<float>({1, nan, 2, 1, 1, 1}, {2, 3}, device);
        const Values rows = softmax(x, 1).to_vector<double>();
        CHECK((std::isnan(rows[0]) && std::isnan(rows[1]) && std::isnan(rows[2])));
        CHECK(rows[3] == Catch::Approx(1.0 / 3.0));
        const Values columns = log_softmax(x, 0).to_vector<double>();
        CHECK((std::isnan(columns[1]) && std::isnan(columns[4])));
        CHECK(columns[0] == Catch::Approx(std::log(0.5)));
    });
}

TEST_CASE("softmax's gradients pass finite differences", "[ops][gradcheck]") {
    const bool logarithm = GENERATE(false, true);
    const std::int64_t dim = GENERATE(0, 1, 2);
    for_each_device([&](Device device) {
        Generator generator(2);
        Tensor x = normal({3, 4, 2}, 0.0, 1.0, {.dtype = DType::f64, .device = device}, generator);
        x.set_requires_grad();
        const GradcheckResult result =
            gradcheck([&](const std::vector<Tensor>& in) { return apply(in[0], dim, logarithm); }, {x});
        INFO(result.message);
        CHECK(result.passed);
    });
}

TEST_CASE("softmax of nothing is nothing, and of one value is 1", "[ops]") {
    for_each_device([](Device device) {
        Tensor x = zeros({3, 0}, {.device = device});
        x.set_requires_grad();
        const Tensor output = softmax(x, 1);
        CHECK(output.shape() == Shape{3, 0});
        output.backward(zeros({3, 0}, {.device = device}));
        CHECK(x.grad().shape() == Shape{3, 0});
        CHECK(softmax(scalar(5.0, {.device = device}), 0).item() == 1.0);
        CHECK(log_softmax(scalar(5.0, {.device = device}), -1).item() == 0.0);
    });
}

TEST_CASE("softmax refuses bad arguments", "[ops]") {
    for_each_device([](Device device) {
        const Tensor x = zeros({2, 3}, {.device = device});
        CHECK_THROWS_AS(softmax(x, 2), ShapeError);
        CHECK_THROWS_AS(log_softmax(x, -3), ShapeError);
        CHECK_THROWS_AS(softmax({}, 0), ValueError);
        CHECK_THROWS_AS(softmax(zeros({2}, {.dtype = DType::i64, .device = device}), 0), DTypeError);
    });
}
