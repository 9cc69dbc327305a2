#include "core/gradcheck.h"

#include "core/autograd.h"
#include "core/ops/binary.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fulcrum {

namespace {

constexpr std::uint64_t kWeightSeed = 0x9E3779B97F4A7C15U;

// Every output element gets a weight of its own, or errors that cancel in a plain sum would go unseen.
Tensor contract(const Tensor& output) {
    Generator generator(kWeightSeed);
    const Tensor weights =
        uniform(output.shape(), 0.5, 1.5, {.dtype = DType::f64, .device = output.device()}, generator);
    return sum(mul(output, weights));
}

double evaluate(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                const std::vector<Tensor>& inputs) {
    const NoGradGuard no_grad;
    return contract(function(inputs)).item();
}

/// Views of `input`'s elements in row-major order, on the host.
std::vector<double> values_of(const Tensor& tensor) {
    return tensor.to_vector<double>();
}

void assign(const Tensor& input, const std::vector<double>& values) {
    const NoGradGuard no_grad;
    input.copy_(from_data<double>(values, input.shape(), {.dtype = DType::f64}));
}

}  // namespace

GradcheckResult gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
    if (std::none_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.requires_grad(); })) {
        throw AutogradError("gradcheck: none of the inputs requires a gradient; call set_requires_grad()");
    }
    for (const Tensor& input : inputs) {
        if (input.requires_grad() && input.dtype() != DType::f64) {
            throw DTypeError(
                "gradcheck: inputs must be f64, finite differences drown in rounding otherwise; got " +
                std::string(name_of(input.dtype())));
        }
        input.zero_grad();
    }
    contract(function(inputs)).backward();

    GradcheckResult result;
    for (std::size_t which = 0; which < inputs.size(); ++which) {
        const Tensor& input = inputs[which];
        if (!input.requires_grad()) continue;
        const Tensor gradient = input.grad();
        std::vector<double> values = values_of(input);
        const std::vector<double> original = values;
        const std::vector<double> analytic =
            gradient.defined() ? values_of(gradient) : std::vector<double>(values.size(), 0.0);
        const auto count = static_cast<std::int64_t>(values.size());
        const std::int64_t checked = std::min(count, options.max_elements);
        for (std::int64_t k = 0; k < checked; ++k) {
            const auto i = static_cast<std::size_t>(k * count / checked);
            values[i] = original[i] + options.step;
            assign(input, values);
            const double above = evaluate(function, inputs);
            values[i] = original[i] - options.step;
            assign(input, values);
            const double below = evaluate(function, inputs);
            values[i] = original[i];
            const double numeric = (above - below) / (2.0 * options.step);
            const double allowed =
                options.absolute_tolerance + options.relative_tolerance * std::abs(numeric);
            const double error = std::abs(analytic[i] - numeric) / allowed;
            // Written so that a NaN on either side counts as a failure.
            if (!(error <= result.worst_error)) {
                result.worst_error = error;
                if (!(error <= 1.0)) {
                    result.passed = false;
                    result.message = fmt::format(
                        "gradcheck: input {} of shape {}, element {}: backward gives {:.10g}, differences "
                        "give "
                        "{:.10g} (allowed distance {:.3g})",
                        which, to_string(input.shape()), i, analytic[i], numeric, allowed);
                }
                if (std::isnan(error)) {
                    assign(input, original);
                    return result;
                }
            }
        }
        assign(input, original);
    }
    return result;
}

}  // namespace fulcrum
