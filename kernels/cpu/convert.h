#pragma once

/// \file
/// One value from any element type to any other, with the semantics of `core/ops/copy.h`.

#include "core/half.h"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace fulcrum::cpu {

/// One of the two 16-bit floating types.
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// The type in which elements of type `T` are computed: `float` for the 16-bit types, else `T` itself.
template <class T>
using Arithmetic = std::conditional_t<kIsHalf<T>, float, T>;

/// Truncates towards zero; values out of range saturate and NaN gives 0. Written with selections only, so
/// that loops over it vectorise.
template <std::integral To, std::floating_point From>
inline To truncate_saturating(From value) {
    // The first value above the range is a power of two and so exact, unlike the largest value of the range.
    constexpr From above = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From{2};
    constexpr From lowest = static_cast<From>(std::numeric_limits<To>::min());
    const bool inside = value > lowest && value < above;
    const To truncated = static_cast<To>(inside ? value : From{0});
    const To low = value <= lowest ? std::numeric_limits<To>::min() : truncated;
    return value >= above ? std::numeric_limits<To>::max() : low;
}

/// `value` as `To`. The 16-bit types convert through `float`; integers saturate.
template <class To, class From>
inline To convert(From value) {
    if constexpr (std::is_same_v<To, From>) {
        return value;
    } else if constexpr (kIsHalf<From>) {
        return convert<To>(static_cast<float>(value));
    } else if constexpr (kIsHalf<To>) {
        return To(static_cast<float>(value));
    } else if constexpr (std::integral<To> && std::floating_point<From>) {
        return truncate_saturating<To>(value);
    } else if constexpr (std::integral<To> && sizeof(To) < sizeof(From)) {
        return static_cast<To>(std::clamp<From>(value, static_cast<From>(std::numeric_limits<To>::min()),
                                                static_cast<From>(std::numeric_limits<To>::max())));
    } else {
        return static_cast<To>(value);
    }
}

}  // namespace fulcrum::cpu
