#pragma once

/// \file
/// Pooling over windows of images `[N, C, H, W]`.

#include "core/backend.h"
#include "core/tensor.h"

#include <array>
#include <cstdint>

namespace fulcrum {

/// A window's geometry; each pair is (height, width).
struct Pool2dParams {
    std::array<std::int64_t, 2> kernel{2, 2};
    std::array<std::int64_t, 2> stride{2, 2};
    std::array<std::int64_t, 2> padding{0, 0};  ///< at most half the kernel
    std::array<std::int64_t, 2> dilation{1, 1};
    bool ceil_mode =
        false;  ///< round the output size up; a window that would start in the far padding is dropped
    /// Averages divide by the whole window, padding counted, else by the elements inside the image (average
    /// only). What `ceil_mode` lets stick out of the far padding is never counted.
    bool count_include_pad = true;
};

/// Largest value of each window; padding never wins, and a window that a dilation puts wholly into the
/// padding gives minus infinity. NaN in a window gives NaN. The gradient goes to the first largest element in
/// row-major order. \param x `[N, C, H, W]`, floating. \return `[N, C, OH, OW]`, channels-last. \throws
/// ShapeError, ValueError, DTypeError.
Tensor max_pool2d(const Tensor& x, const Pool2dParams& params);

/// Mean of each window. \param x `[N, C, H, W]`, floating. \throws ShapeError, ValueError, DTypeError (also
/// for a dilation).
Tensor avg_pool2d(const Tensor& x, const Pool2dParams& params);

/// Mean over windows chosen such that the output is `[N, C, output[0], output[1]]`: window i spans
/// `floor(i * H / OH) .. ceil((i + 1) * H / OH)`. \throws ShapeError, ValueError, DTypeError.
Tensor adaptive_avg_pool2d(const Tensor& x, std::array<std::int64_t, 2> output);

/// Output height and width. \param op name for messages. \throws ShapeError, ValueError.
std::array<std::int64_t, 2> pool2d_output_size(const Shape& input, const Pool2dParams& params,
                                               const char* op);

/// What a device supplies. All tensors are dense channels-last, never empty; core allocates the results.
struct Pool2dKernels {
    static constexpr const char* family = "pool2d";

    /// Writes `output` and `positions`: for each output element the winner's row-major position within its
    /// window, u8 when the window has at most 255 elements, else i32 (all bits set: no winner); undefined
    /// when no backward will follow.
    void (*max_forward)(const Pool2dParams& params, const Tensor& x, Tensor& output, Tensor& positions);
    /// Writes `grad_x` in full (zeros where no window chose).
    void (*max_backward)(const Pool2dParams& params, const Tensor& grad_output, const Tensor& positions,
                         Tensor& grad_x);
    void (*avg_forward)(const Pool2dParams& params, const Tensor& x, Tensor& output);
    void (*avg_backward)(const Pool2dParams& params, const Tensor& grad_output, Tensor& grad_x);
    /// Window sizes follow from the shapes of `x` and `output`.
    void (*adaptive_avg_forward)(const Tensor& x, Tensor& output);
    void (*adaptive_avg_backward)(const Tensor& grad_output, Tensor& grad_x);
};

}  // namespace fulcrum
