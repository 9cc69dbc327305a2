#include "core/ops/matmul.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/gradcheck.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace fulcrum;

namespace {

using Values = std::vector<double>;

double distance(const Tensor& actual, const Values& expected) {
    const Values values = actual.to_vector<double>();
    REQUIRE(values.size() == expected.size());
    double worst = 0.0;
    double scale = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double difference = std::abs(values[i] - expected[i]);
        worst =
            std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
        scale = std::max(scale, std::abs(expected[i]));
    }
    return scale > 0.0 ? worst / scale : worst;
}

double tolerance(DType dtype) {
    if (dtype == DType::f64) return 1e-13;
    if (dtype == DType::f32) return 2e-6;
    return dtype == DType::bf16 ? 1e-2 : 2e-3;
}

struct Shapes {
    Shape a, b, out;
};

Values row_major(const Tensor& tensor) {
    return tensor.to_vector<double>();
}

/// `a x b` by plain loops, and both gradients for `grad`; shapes are padded to stacks of matrices first.
struct Naive {
    Values out, grad_a, grad_b;

    Naive(const Shapes& shapes, const Values& a, const Values& b, const Values& grad) {
        Shape left = shapes.a;
        Shape right = shapes.b;
        Shape batch = shapes.out;
        if (left.size() == 1) left.insert(0, 1);
        if (right.size() == 1) right.push_back(1);
        if (shapes.a.size() > 1) batch.erase(batch.size() - 1);
        if (shapes.b.size() > 1) batch.erase(batch.size() - 1);
        while (left.size() < batch.size() + 2)
            left.insert(0, 1);
        while (right.size() < batch.size() + 2)
            right.insert(0, 1);
        const std::int64_t m = left[left.size() - 2];
        const std::int64_t k = left.back();
        const std::int64_t n = right.back();
        out.assign(grad.size(), 0.0);
        grad_a.assign(a.size(), 0.0);
        grad_b.assign(b.size(), 0.0);
        const std::int64_t count = element_count(batch);
        for (std::int64_t index = 0; index < count; ++index) {
            std::int64_t rest = index;
            std::int64_t offset_a = 0;
            std::int64_t offset_b = 0;
            std::int64_t step_a = m * k;
            std::int64_t step_b = k * n;
            for (std::size_t d = batch.size(); d-- > 0;) {
                const std::int64_t at = rest % batch[d];
                rest /= batch[d];
                if (left[d] > 1) offset_a += at * step_a;
                if (right[d] > 1) offset_b += at * step_b;
                step_a *= left[d];
                step_b *= right[d];
            }
            for (std::int64_t i = 0; i < m; ++i)
                for (std::int64_t j = 0; j < n; ++j)
                    for (std::int64_t l = 0; l < k; ++l) {
                        const auto at = static_cast<std::size_t>((index * m + i) * n + j);
                        const auto at_a = static_cast<std::size_t>(offset_a + i * k + l);
                        const auto at_b = static_cast<std::size_t>(offset_b + l * n + j);
                        out[at] += a[at_a] * b[at_b];
                        grad_a[at_a] += grad[at] * b[at_b];
                        grad_b[at_b] += grad[at] * a[at_a];
                    }
        }
    }
};

const std::vector<Shapes> kShapes{
    {{1, 1}, {1, 1}, {1, 1}},
    {{3, 4}, {4, 5}, {3, 5}},
    {{1, 129}, {129, 65}, {1, 65}},
    {{64, 33}, {33, 48}, {64, 48}},
    {{5}, {5}, {}},
    {{4, 6}, {6}, {4}},
    {{6}, {6, 4}, {4}},
    {{6}, {3, 6, 4}, {3, 4}},
    {{3, 2, 6}, {6}, {3, 2}},
    {{2, 5, 7}, {2, 7, 3}, {2, 5, 3}},
    {{2, 5, 7}, {7, 3}, {2, 5, 3}},
    {{5, 7}, {2, 7, 3}, {2, 5, 3}},
    {{2, 1, 4, 3}, {1, 3, 3, 5}, {2, 3, 4, 5}},
    {{2, 3, 4, 3}, {3, 3, 5}, {2, 3, 4, 5}},
    {{3, 1, 2, 2, 3}, {4, 1, 3, 2}, {3, 4, 2, 2, 2}},
};

}  // namespace

TEST_CASE("matmul follows the rules for matrices, vectors and broadcast batches", "[matmul]") {
    const Shapes shapes = GENERATE(from_range(kShapes));
    INFO(to_string(shapes.a) << " x " << to_string(shapes.b));
    test::for_each_device([&](Device device) {
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
            INFO(name_of(dtype));
            Generator generator(7);
            const TensorOptions options{.dtype = dtype, .device = device, .requires_grad = true};
            const Tensor a = uniform(shapes.a, -1, 1, options, generator);
            const Tensor b = uniform(shapes.b, -1, 1, options, generator);
            const Tensor out = matmul(a, b);
            REQUIRE(out.shape() == shapes.out);
            CHECK(out.dtype() == dtype);
            const Tensor grad = uniform(out.shape(), -1, 1, {.dtype = dtype, .device = device}, generator);
            out.backward(grad);
            const Naive expected(shapes, row_major(a), row_major(b), row_major(grad));
            CHECK(distance(out, expected.out) <= tolerance(dtype));
            CHECK(distance(a.grad(), expected.grad_a) <= tolerance(dtype));
            CHECK(distance(b.grad(), expected.grad_b) <= tolerance(dtype));
        }
    });
}

TEST_CASE("matmul reads transposed, gapped and repeated operands", "[matmul]") {
    test::for_each_device([](Device device) {
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
            INFO(name_of(dtype));
            Generator generator(9);
            const TensorOptions options{.dtype = dtype, .device = device};
            const Tensor stack = uniform({3, 6, 8}, -1, 1, options, generator);
            const Tensor right = uniform({3, 5, 6}, -1, 1, options, generator);
            const Tensor a = narrow(transpose(stack, 1, 2), 1, 1, 4);  // [3, 4, 6], column-major with a gap
            const Tensor b = transpose(right, 1, 2);                   // [3, 6, 5], column-major
            const Tensor repeated = expand(narrow(stack, 0, 0, 1), {4, 6, 8});
            const auto expect = [&](const Tensor& x, const Tensor& y) {
                const Tensor out = matmul(x, y);
                const Naive expected({x.shape(), y.shape(), out.shape()}, row_major(x), row_major(y),
                                     Values(static_cast<std::size_t>(out.numel()), 1.0));
                CHECK(distance(out, expected.out) <= tolerance(dtype));
            };
            expect(a, b);
            expect(transpose(b, 1, 2), transpose(a, 1, 2));
            expect(transpose(repeated, 1, 2), repeated);
            // Large enough for each thread to take columns, or rows, of its own.
            const Tensor tall = uniform({203, 33}, -1, 1, options, generator);
            const Tensor low = uniform({30, 33}, -1, 1, options, generator);
            expect(low, transpose(tall, 0, 1));
            expect(tall, transpose(low, 0, 1));
            expect(transpose(transpose(tall, 0, 1).contiguous(), 0, 1), transpose(low, 0, 1));
            expect(permute(stack, {2, 0, 1}), narrow(b, 0, 0, 1));  // no stride of the matrices is 1
        }
    });
}

TEST_CASE("matmul writes the gradients of transposed operands", "[matmul]") {
    test::for_each_device([](Device device) {
        Generator generator(10);
        const TensorOptions options{.dtype = DType::f64, .device = device, .requires_grad = true};
        const Tensor a = uniform({2, 6, 4}, -1, 1, options, generator);
        const Tensor b = uniform({5, 6}, -1, 1, options, generator);
        const GradcheckResult result = gradcheck(
            [](const std::vector<Tensor>& in) {
                return matmul(transpose(in[0], 1, 2), transpose(in[1], 0, 1));
            },
            {a, b});
        INFO(result.message);
        CHECK(result.passed);
    });
}

TEST_CASE("matmul and linear pass the finite-difference check", "[matmul]") {
    test::for_each_device([](Device device) {
        Generator generator(2);
        const TensorOptions options{.dtype = DType::f64, .device = device, .requires_grad = true};
        const auto draw = [&](const Shape& shape) { return uniform(shape, -1, 1, options, generator); };
        for (const Shapes& shapes : kShapes) {
            INFO(to_string(shapes.a) << " x " << to_string(shapes.b));
            const GradcheckResult result =
                gradcheck([](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); },
                          {draw(shapes.a), draw(shapes.b)}, {.max_elements = 64});
            INFO(result.message);
            CHECK(result.passed);
        }
        const GradcheckResult result =
            gradcheck([](const std::vector<Tensor>& in) { return linear(in[0], in[1], in[2]); },
                      {draw({2, 3, 7}), draw({5, 7}), draw({5})});
        INFO(result.message);
        CHECK(result.passed);
    });
}

TEST_CASE("linear multiplies by the transposed weight and adds the bias", "[linear]") {
    const Shape shape = GENERATE(Shape{7}, Shape{1, 7}, Shape{4, 7}, Shape{2, 3, 7});
    const bool with_bias = GENERATE(true, false);
    INFO(to_string(shape));
    test::for_each_device([&](Device device) {
        struct Types {
            DType x, weight;
        };
        for (const Types types :
             {Types{DType::f64, DType::f64}, Types{DType::f32, DType::f32}, Types{DType::bf16, DType::f32},
              Types{DType::bf16, DType::bf16}, Types{DType::f16, DType::f32}}) {
            INFO(name_of(types.x) << " with " << name_of(types.weight));
            Generator generator(13);
            const Tensor x =
                uniform(shape, -1, 1, {.dtype = types.x, .device = device, .requires_grad = true}, generator);
            const TensorOptions parameter{.dtype = types.weight, .device = device, .requires_grad = true};
            const Tensor w = uniform({5, 7}, -1, 1, parameter, generator);
            const Tensor b = with_bias ? uniform({5}, -1, 1, parameter, generator) : Tensor();
            const Tensor out = linear(x, w, b);
            Shape expected_shape = shape;
            expected_shape[expected_shape.size() - 1] = 5;
            REQUIRE(out.shape() == expected_shape);
            CHECK(out.dtype() == types.x);
            const Tensor grad = uniform(out.shape(), -1, 1, {.dtype = types.x, .device = device}, generator);
            out.backward(grad);

            const Values xs = row_major(x);
            const Values ws = row_major(w);
            const Values bs = with_bias ? row_major(b) : Values(5, 0.0);
            const Values gs = row_major(grad);
            Values expected(gs.size());
            Values grad_x(xs.size(), 0.0);
            Values grad_w(ws.size(), 0.0);
            Values grad_b(5, 0.0);
            for (std::size_t row = 0; row < xs.size() / 7; ++row) {
                for (std::size_t o = 0; o < 5; ++o) {
                    expected[row * 5 + o] = bs[o];
                    grad_b[o] += gs[row * 5 + o];
                    for (std::size_t i = 0; i < 7; ++i) {
                        expected[row * 5 + o] += xs[row * 7 + i] * ws[o * 7 + i];
                        grad_x[row * 7 + i] += gs[row * 5 + o] * ws[o * 7 + i];
                        grad_w[o * 7 + i] += gs[row * 5 + o] * xs[row * 7 + i];
                    }
                }
            }
            CHECK(distance(out, expected) <= tolerance(types.x));
            CHECK(distance(x.grad(), grad_x) <= tolerance(types.x));
            CHECK(w.grad().dtype() == types.weight);
            CHECK(distance(w.grad(), grad_w) <= tolerance(types.weight));
            if (with_bias) CHECK(distance(b.grad(), grad_b) <= tolerance(types.weight));
        }
    });
}

TEST_CASE("matmul and linear are defined for sizes of zero", "[matmul]") {
    test::for_each_device([](Device device) {
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
            INFO(name_of(dtype));
            const TensorOptions options{.dtype = dtype, .device = device, .requires_grad = true};
            const Tensor a = zeros({3, 0}, options);
            const Tensor b = zeros({0, 4}, options);
            const Tensor out = matmul(a, b);
            CHECK(out.to_vector<double>() == Values(12, 0.0));
            out.backward(ones(out.shape(), {.dtype = dtype, .device = device}));
            CHECK(a.grad().shape() == a.shape());
            CHECK(matmul(zeros({0, 3}, options), zeros({3, 4}, options)).shape() == Shape{0, 4});
            CHECK(matmul(zeros({2, 0, 3}, options), zeros({3, 4}, options)).shape() == Shape{2, 0, 4});
            CHECK(matmul(zeros({0, 2, 3}, options), zeros({0, 3, 4}, options)).shape() == Shape{0, 2, 4});

            const Tensor shared = ones({3, 4}, options);
            const Tensor none = matmul(zeros({0, 2, 3}, options), shared);
            none.backward(zeros(none.shape(), {.dtype = dtype, .device = device}));
            CHECK(shared.grad().to_vector<double>() == Values(12, 0.0));

            const Tensor w = ones({4, 3}, options);
            const Tensor bias = ones({4}, options);
            const Tensor empty_batch = linear(zeros({0, 3}, options), w, bias);
            CHECK(empty_batch.shape() == Shape{0, 4});
            empty_batch.backward(zeros({0, 4}, {.dtype = dtype, .device = device}));
            CHECK(w.grad().to_vector<double>() == Values(12, 0.0));
            CHECK(bias.grad().to_vector<double>() == Values(4, 0.0));
            CHECK(linear(zeros({2, 0}, options), zeros({4, 0}, options), bias).to_vector<double>() ==
                  Values(8, 1.0));
        }
    });
}

TEST_CASE("matmul lets NaN and infinity through", "[matmul]") {
    test::for_each_device([](Device device) {
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
            INFO(name_of(dtype));
            const Tensor a = zeros({20, 40}, {.dtype = dtype, .device = device});
            narrow(narrow(a, 0, 1, 1), 1, 2, 1).fill_(std::nan(""));
            narrow(narrow(a, 0, 3, 1), 1, 2, 1).fill_(HUGE_VAL);
            const Values out =
                matmul(a, zeros({40, 30}, {.dtype = dtype, .device = device})).to_vector<double>();
            for (std::size_t i = 0; i < out.size(); ++i)
                CHECK(std::isnan(out[i]) == (i / 30 == 1 || i / 30 == 3));
        }
    });
}

TEST_CASE("matmul and linear refuse what does not fit and say what would", "[matmul]") {
    CHECK_THROWS_WITH(matmul(zeros({3, 4}), zeros({5, 6})),
                      "matmul: the inner sizes of [3, 4] x [5, 6] differ: 4 and 5");
    CHECK_THROWS_AS(matmul(zeros({2, 3, 4}), zeros({3, 4, 5})), ShapeError);
    CHECK_THROWS_AS(matmul(zeros({}), zeros({3})), ShapeError);
    CHECK_THROWS_AS(matmul({}, zeros({3})), ValueError);
    CHECK_THROWS_AS(matmul(zeros({3}), zeros({3}, {.dtype = DType::f64})), DTypeError);
    CHECK_THROWS_AS(matmul(zeros({3}, {.dtype = DType::i32}), zeros({3}, {.dtype = DType::i32})), DTypeError);

    CHECK_THROWS_WITH(linear(zeros({2, 5}), zeros({3, 4})),
                      "linear: x [2, 5] must end in the 4 inputs that weight [3, 4] [out, in] expects");
    CHECK_THROWS_WITH(linear(zeros({2, 4}), zeros({3, 4}), zeros({4})),
                      "linear: bias [4] must be [3], one value for each output of weight [3, 4]");
    CHECK_THROWS_AS(linear(zeros({}), zeros({3, 4})), ShapeError);
    CHECK_THROWS_AS(linear(zeros({2, 4}), zeros({4})), ShapeError);
    CHECK_THROWS_AS(linear(zeros({2, 4}), zeros({3, 4}, {.dtype = DType::bf16})), DTypeError);
    CHECK_THROWS_AS(linear(zeros({2, 4}), {}), ValueError);
}
