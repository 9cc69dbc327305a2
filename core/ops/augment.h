#pragma once

/// \file
/// From stored bytes to a training batch: gather, crop, flip, cutout, normalise, in one pass on the batch's
/// device.

#include "core/backend.h"
#include "core/tensor.h"

#include <array>
#include <cstdint>

namespace fulcrum {

/// Per-channel table from byte to normalised value: `(v / 255 - mean[c]) / std[c]`, computed once on the host
/// in f64 and rounded to f32, so that every device looks up the same bits.
using NormalizationTable = std::array<std::array<float, 256>, 3>;

/// The table for a mean and standard deviation per channel (of values in 0..1). \throws ValueError unless
/// each deviation is > 0.
NormalizationTable make_normalization_table(const std::array<double, 3>& mean,
                                            const std::array<double, 3>& std);

/// What to do to each image, in this order: crop, flip, cutout. Every decision is an integer drawn from
/// `random_words(seed, stream, i)` where i is the image's place in the data set, so it depends neither on the
/// batch nor on the device:
/// - the crop shows rows `top..top+H-1` and columns `left..left+W-1` of the padded image, with top = word 0 %
///   (2 * crop_padding + 1) and left = word 1 % (2 * crop_padding + 1);
/// - the flip happens when bit 0 of word 2 is set;
/// - the cutout covers rows `r..r+cutout-1` and columns `c..c+cutout-1` of the result as far as they exist,
///   with r = (word 3 >> 16) % H - cutout / 2 and c = (word 3 & 0xffff) % W - cutout / 2.
///
/// With nothing switched on, the result is the normalised image.
struct AugmentParams {
    std::int64_t crop_padding = 0;  ///< width of the frame of bytes 0 around the image before the crop
    bool flip = false;              ///< mirror left to right with probability 1/2
    std::int64_t cutout = 0;  ///< side of the square set to the normalised value 0 (the mean); 0 is none
    std::uint64_t seed = 0, stream = 0;
};

/// Gathers and transforms images.
/// \param images u8 `[count, 3, H, W]`, contiguous (planar, as CIFAR-10's files store them).
/// \param indices i64 `[N]`, each in 0..count-1, on the same device.
/// \return `[N, 3, H, W]`, channels-last, `dtype` (f32 or bf16; 16-bit values are rounded from the f32 ones).
/// \throws ShapeError, DTypeError, ValueError.
Tensor augment(const Tensor& images, const Tensor& indices, const NormalizationTable& table,
               const AugmentParams& params, DType dtype = DType::f32);

/// What a device supplies; arguments are checked. An index out of range is a ValueError.
struct AugmentKernels {
    static constexpr const char* family = "augment";

    void (*apply)(const AugmentParams& params, const NormalizationTable& table, const Tensor& images,
                  const Tensor& indices, Tensor& output);
};

}  // namespace fulcrum
