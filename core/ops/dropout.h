#pragma once

/// \file
/// Dropout (Srivastava et al., 2014), scaled so that evaluation needs no change.

#include "core/backend.h"
#include "core/random.h"
#include "core/tensor.h"

#include <cstdint>

namespace fulcrum {

/// Zeroes each element with probability `p` and scales the rest by 1 / (1 - p); the identity when not
/// training or when `p` is 0. Otherwise the mask takes one stream of `generator`: element i in memory order
/// is dropped when word i % 4 of `random_words(seed, stream, i / 4)` is below p * 2^32, the same on every
/// device. \throws ValueError unless 0 <= p <= 1.
Tensor dropout(const Tensor& x, double p, bool training = true, Generator& generator = default_generator());

/// The mask of one call; backward draws it again instead of keeping it.
struct DropoutParams {
    std::uint64_t seed = 0, stream = 0;
    std::uint64_t threshold = 0;  ///< drop when the word is below; 2^32 drops all
    double scale = 1.0;           ///< of kept elements
};

/// What a device supplies. Both tensors are dense with equal strides and floating dtype.
struct DropoutKernels {
    static constexpr const char* family = "dropout";

    /// `output[i] = dropped(i) ? 0 : x[i] * scale`. Forward and backward alike.
    void (*apply)(const DropoutParams& params, const Tensor& x, Tensor& output);
};

}  // namespace fulcrum
