#pragma once

/// \file
/// Finite-difference check of gradients, for our ops and for a user's own.

#include "core/tensor.h"

#include <functional>
#include <string>
#include <vector>

namespace fulcrum {

/// How strictly `gradcheck` compares.
struct GradcheckOptions {
    double step = 1e-6;                ///< central difference, in each element
    double relative_tolerance = 1e-5;  ///< of the numeric value
    double absolute_tolerance = 1e-7;
    std::int64_t max_elements =
        512;  ///< per input; larger inputs are checked on this many evenly spaced elements
};

/// What `gradcheck` found.
struct GradcheckResult {
    bool passed = true;
    double worst_error = 0.0;  ///< largest |analytic - numeric| relative to its tolerance; above 1 fails
    std::string message;       ///< names input, element, both values of the worst element
    explicit operator bool() const { return passed; }
};

/// Compares the gradients that `function` back-propagates with central differences.
/// \param function maps the inputs to one tensor of any shape; it is called many times and must be
/// deterministic. \param inputs f64 tensors; those that require a gradient are checked. \throws DTypeError
/// when a checked input is not f64, AutogradError when none requires a gradient. The output is contracted
/// with fixed pseudo-random weights, so that every output element counts.
GradcheckResult gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace fulcrum
