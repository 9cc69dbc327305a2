#pragma once

/// \file
/// Copies within a device: between layouts, between element types, and fills.

#include "core/backend.h"
#include "core/tensor.h"

namespace fulcrum {

/// `x` with another element type, same order in memory; the same handle when equal. The gradient is cast
/// back.
Tensor cast(const Tensor& x, DType dtype);

/// What a device supplies.
struct CopyKernels {
    static constexpr const char* family = "copy";

    /// Writes `destination` from `source`: equal shapes, any strides (`source` may have stride 0), any two
    /// dtypes. Floating to integer truncates towards zero; out-of-range values saturate and NaN gives 0.
    void (*copy)(const Tensor& source, Tensor& destination);
    /// Sets every element of a view.
    void (*fill)(Tensor& destination, double value);
    /// True when every element of a dense floating tensor is finite. Waits for the device.
    bool (*all_finite)(const Tensor& x);
};

}  // namespace fulcrum
