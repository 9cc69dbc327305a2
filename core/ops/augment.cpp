#include "core/ops/augment.h"

#include "core/ops/check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace fulcrum {
namespace {

/// Keeps sums of coordinates and paddings, and the divisor of the crop's draw, within 32 bits.
constexpr std::int64_t kLargest = 1 << 20;

void check_images(const Tensor& images) {
    detail::check_defined("augment", "images", images);
    if (images.dtype() != DType::u8) {
        throw DTypeError("augment: images are " + std::string(name_of(images.dtype())) +
                         "; it takes the stored u8 bytes");
    }
    if (images.dim() != 4 || images.size(1) != 3) {
        throw ShapeError("augment: images have shape " + to_string(images.shape()) +
                         "; it takes [count, 3, height, width]");
    }
    if (images.size(2) > kLargest || images.size(3) > kLargest) {
        throw ShapeError("augment: images of shape " + to_string(images.shape()) + " have a side above " +
                         std::to_string(kLargest));
    }
    if (!images.is_contiguous()) {
        throw ShapeError("augment: images of shape " + to_string(images.shape()) +
                         " are not planar and contiguous; call contiguous() once, outside the loop");
    }
}

void check_indices(const Tensor& images, const Tensor& indices) {
    detail::check_defined("augment", "indices", indices);
    detail::check_same_device("augment", "images", images, "indices", indices);
    if (indices.dtype() != DType::i64) {
        throw DTypeError("augment: indices are " + std::string(name_of(indices.dtype())) + "; it takes i64");
    }
    if (indices.dim() != 1) {
        throw ShapeError("augment: indices have shape " + to_string(indices.shape()) + "; it takes [N]");
    }
}

void check_amount(const char* name, std::int64_t value) {
    if (value >= 0 && value <= kLargest) return;
    throw ValueError("augment: " + std::string(name) + " is " + std::to_string(value) + "; it takes 0 to " +
                     std::to_string(kLargest) + " pixels");
}

}  // namespace

NormalizationTable make_normalization_table(const std::array<double, 3>& mean,
                                            const std::array<double, 3>& std) {
    NormalizationTable table{};
    for (std::size_t c = 0; c < 3; ++c) {
        if (!(std[c] > 0.0) || !std::isfinite(std[c]) || !std::isfinite(mean[c])) {
            throw ValueError("make_normalization_table: channel " + std::to_string(c) + " has mean " +
                             std::to_string(mean[c]) + " and standard deviation " + std::to_string(std[c]) +
                             "; both are finite and the deviation is above 0");
        }
        for (std::size_t v = 0; v < 256; ++v) {
            table[c][v] = static_cast<float>((static_cast<double>(v) / 255.0 - mean[c]) / std[c]);
        }
    }
    return table;
}

Tensor augment(const Tensor& images, const Tensor& indices, const NormalizationTable& table,
               const AugmentParams& params, DType dtype) {
    check_images(images);
    check_indices(images, indices);
    check_amount("crop_padding", params.crop_padding);
    check_amount("cutout", params.cutout);
    if (dtype != DType::f32 && dtype != DType::bf16) {
        throw DTypeError("augment: the output cannot be " + std::string(name_of(dtype)) +
                         "; it can be f32 or bf16");
    }
    Tensor output = empty({indices.size(0), 3, images.size(2), images.size(3)},
                          {.dtype = dtype, .device = images.device(), .format = MemoryFormat::channels_last});
    if (output.numel() > 0) {
        kernels<AugmentKernels>(images.device()).apply(params, table, images, indices.contiguous(), output);
    }
    return output;
}

}  // namespace fulcrum
