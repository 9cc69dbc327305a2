#pragma once

/// \file
/// One bit an element: where a ReLU's result is not zero. A backward reads these in place of the result, an
/// eighth of a byte for four.

#include "kernels/cpu/convert.h"

#include <bit>
#include <cstdint>

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace fulcrum::cpu {

/// Thirty-two neighbouring elements' bits, the first in the lowest place.
using MaskUnit = std::uint32_t;
/// Elements of a unit; rows whose masks are kept have a multiple of it.
inline constexpr std::int64_t kMaskUnit = 32;

/// The unit whose bit `i` tells whether `values[i]` differs from zero (NaN does).
template <class T>
MaskUnit nonzero_unit(const T* values) {
    MaskUnit unit = 0;
    for (std::int64_t i = 0; i < kMaskUnit; ++i) {
        const bool nonzero = static_cast<Arithmetic<T>>(values[i]) != Arithmetic<T>{0};
        unit |= static_cast<MaskUnit>(nonzero) << i;
    }
    return unit;
}

#if defined(__AVX512F__) && defined(__AVX512BW__)

inline MaskUnit nonzero_unit(const float* values) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const MaskUnit low = _mm512_test_epi32_mask(_mm512_loadu_si512(values), magnitude);
    const MaskUnit high = _mm512_test_epi32_mask(_mm512_loadu_si512(values + 16), magnitude);
    return low | high << 16;
}

inline MaskUnit nonzero_unit(const BFloat16* values) {
    return _mm512_test_epi16_mask(_mm512_loadu_si512(values), _mm512_set1_epi16(0x7fff));
}

#endif

/// Packs `count` elements, a multiple of `kMaskUnit`.
template <class T>
void pack_nonzero(const T* values, std::int64_t count, MaskUnit* units) {
    for (std::int64_t i = 0; i < count; i += kMaskUnit)
        units[i / kMaskUnit] = nonzero_unit(values + i);
}

/// `value` where the bit of element `i` of a unit is set, else 0. By integer arithmetic alone, which
/// compilers turn into vector code over `i`.
inline float keep_marked(MaskUnit unit, std::int64_t i, float value) {
    const std::uint32_t marked = (unit >> static_cast<std::uint32_t>(i)) & 1U;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & (0U - marked));
}

inline double keep_marked(MaskUnit unit, std::int64_t i, double value) {
    const std::uint64_t marked = (std::uint64_t{unit} >> static_cast<std::uint64_t>(i)) & 1U;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & (std::uint64_t{0} - marked));
}

}  // namespace fulcrum::cpu
