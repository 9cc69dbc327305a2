#include "core/gradcheck.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/ops/binary.h"
#include "tests/catch.h"

using namespace fulcrum;

namespace {

Tensor draw(const Shape& shape) {
    return uniform(shape, -2.0, 2.0, {.dtype = DType::f64, .requires_grad = true});
}

// x^2 whose backward can be told to be wrong by a factor, in one element only.
Tensor square(const Tensor& x, double factor, bool first_only) {
    Tensor out;
    {
        const NoGradGuard no_grad;
        out = x * x;
    }
    return autograd::record("square", out, {x}, {x}, [=](autograd::BackwardContext& context) {
        std::vector<double> slope = context.saved(0).to_vector<double>();
        for (std::size_t i = 0; i < slope.size(); ++i)
            slope[i] *= (i == 0 || !first_only) ? 2.0 * factor : 2.0;
        context.set_grad(0, mul(context.grad(),
                                from_data<double>(slope, context.saved(0).shape(), {.dtype = DType::f64})));
    });
}

}  // namespace

TEST_CASE("gradcheck accepts a right gradient and restores the inputs", "[core][gradcheck]") {
    manual_seed(1);
    const Tensor x = draw({3, 4});
    const auto before = x.to_vector<double>();
    const GradcheckResult result =
        gradcheck([](const std::vector<Tensor>& in) { return square(in[0], 1.0, false); }, {x});
    INFO(result.message);
    CHECK(result.passed);
    CHECK(result.worst_error > 0.0);
    CHECK(x.to_vector<double>() == before);
}

TEST_CASE("gradcheck refuses a wrong gradient, even in one element, and says where", "[core][gradcheck]") {
    manual_seed(1);
    const GradcheckResult all =
        gradcheck([](const std::vector<Tensor>& in) { return square(in[0], 1.001, false); }, {draw({3, 4})});
    CHECK_FALSE(all.passed);
    const GradcheckResult one =
        gradcheck([](const std::vector<Tensor>& in) { return square(in[0], 1.001, true); }, {draw({3, 4})});
    CHECK_FALSE(one.passed);
    CHECK_THAT(one.message, Catch::Matchers::ContainsSubstring("input 0") &&
                                Catch::Matchers::ContainsSubstring("element 0"));
}

TEST_CASE("gradcheck refuses a missing gradient and a NaN", "[core][gradcheck]") {
    manual_seed(1);
    CHECK_FALSE(gradcheck([](const std::vector<Tensor>& in) { return in[0].detach() * 2.0 + in[1]; },
                          {draw({2}), draw({2})})
                    .passed);
    CHECK_FALSE(gradcheck([](const std::vector<Tensor>& in) { return square(in[0], std::nan(""), false); },
                          {draw({2})})
                    .passed);
}

TEST_CASE("gradcheck explains what it needs", "[core][gradcheck][errors]") {
    const auto same = [](const std::vector<Tensor>& in) { return in[0] * 1.0; };
    CHECK_THROWS_AS(gradcheck(same, {zeros({2}, {.dtype = DType::f64})}), AutogradError);
    CHECK_THROWS_AS(gradcheck(same, {zeros({2}, {.requires_grad = true})}), DTypeError);
}
