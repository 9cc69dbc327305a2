#pragma once

/// \file
/// The two 16-bit floating-point element types. Both are storage types: arithmetic converts to `float` first.

#include <bit>
#include <cstdint>

namespace fulcrum {

/// bfloat16: the upper half of an IEEE binary32. Conversion from `float` rounds to nearest, ties to even.
struct BFloat16 {
    std::uint16_t bits = 0;

    BFloat16() = default;
    /// Rounds `value` to the nearest bfloat16 (ties to even); NaN stays NaN.
    explicit constexpr BFloat16(float value) {
        const auto word = std::bit_cast<std::uint32_t>(value);
        if ((word & 0x7fffffffU) > 0x7f800000U) {
            bits = static_cast<std::uint16_t>((word >> 16) | 0x0040U);
        } else {
            bits = static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
        }
    }
    /// The exact value as `float`.
    constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// IEEE binary16. Conversion from `float` rounds to nearest, ties to even, and overflows to infinity.
struct Float16 {
    std::uint16_t bits = 0;

    Float16() = default;
    /// Rounds `value` to the nearest binary16 (ties to even); NaN stays NaN.
    explicit constexpr Float16(float value) {
        const auto word = std::bit_cast<std::uint32_t>(value);
        const auto sign = static_cast<std::uint16_t>((word >> 16) & 0x8000U);
        const std::uint32_t magnitude = word & 0x7fffffffU;
        if (magnitude > 0x7f800000U) {
            bits = static_cast<std::uint16_t>(sign | 0x7e00U);
        } else if (magnitude >= 0x477ff000U) {
            bits = static_cast<std::uint16_t>(sign | 0x7c00U);
        } else if (magnitude < 0x38800000U) {
            // Adding 0.5 aligns the mantissa so that the hardware rounds at the subnormal's last place.
            const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
            bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U));
        } else {
            const std::uint32_t rounded = magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U);
            bits = static_cast<std::uint16_t>(sign | (rounded >> 13));
        }
    }
    /// The exact value as `float`.
    constexpr operator float() const {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
        const std::uint32_t exponent = (bits >> 10) & 0x1fU;
        const std::uint32_t mantissa = bits & 0x3ffU;
        if (exponent == 0) {
            const float value = static_cast<float>(mantissa) * 0x1p-24F;
            return (sign != 0) ? -value : value;
        }
        if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
        return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
    }
};

}  // namespace fulcrum
