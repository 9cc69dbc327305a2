#pragma once

/// \file
/// Exponentials that vectorise: straight-line code without branches, tables or library calls, so that a loop
/// over them uses the machine's full width. The f64 forms are the C library's; speed does not matter there.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace fulcrum::cpu {

namespace detail {

/// x = n ln 2 + r with |r| <= ln 2 / 2.
struct Reduced {
    std::int32_t n;
    float r;
};

inline Reduced reduce_exponent(float x) {
    // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
    constexpr float kRounder = 0x1.8p23F;
    const float shifted = x * 0x1.715476p0F + kRounder;
    const float n = shifted - kRounder;
    // ln 2 in two pieces, the first short enough for an exact product.
    const float r = (x - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;
    return {std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRounder), r};
}

/// exp(r) - 1 for |r| <= ln 2 / 2 by its Taylor series, whose next term is below 2^-27.
inline float expm1_near_zero(float r) {
    float q = 1.0F / 5040.0F;
    q = q * r + 1.0F / 720.0F;
    q = q * r + 1.0F / 120.0F;
    q = q * r + 1.0F / 24.0F;
    q = q * r + 1.0F / 6.0F;
    q = q * r + 0.5F;
    return r + r * r * q;
}

/// 2^n for -126 <= n <= 127; anything, without harm, for other n.
inline float power_of_two(std::int32_t n) {
    return std::bit_cast<float>((static_cast<std::uint32_t>(n) + 127U) << 23);
}

}  // namespace detail

/// exp(x) to about one unit in the last place; overflows to infinity, underflows through the subnormals to 0,
/// NaN stays NaN.
inline float vector_exp(float x) {
    const auto [n, r] = detail::reduce_exponent(std::min(std::max(x, -105.0F), 90.0F));
    // In two factors, since 2^n itself can leave the range of normal numbers.
    const std::int32_t half = n / 2;
    return (1.0F + detail::expm1_near_zero(r)) * detail::power_of_two(half) * detail::power_of_two(n - half);
}

inline double vector_exp(double x) {
    return std::exp(x);
}

/// tanh(x), precise near 0 too, through exp(-2|x|) - 1.
inline float vector_tanh(float x) {
    const auto [n, r] = detail::reduce_exponent(std::max(-2.0F * std::abs(x), -40.0F));
    const float scale = detail::power_of_two(n);
    const float e = scale * detail::expm1_near_zero(r) + (scale - 1.0F);
    return std::copysign(e / (2.0F + e), x);
}

inline double vector_tanh(double x) {
    return std::tanh(x);
}

/// 1 / (1 + exp(-x)), with full relative precision in both tails.
template <class T>
T vector_sigmoid(T x) {
    const T e = vector_exp(-std::abs(x));
    const T high = T{1} / (T{1} + e);
    return x < T{0} ? e * high : high;
}

}  // namespace fulcrum::cpu
