#pragma once

/// \file
/// A (height, width) pair that a single number fills.

#include <array>
#include <cstdint>

namespace fulcrum::nn {

/// `3` means `{3, 3}`; `{1, 2}` is height 1, width 2. Used by the options of convolution and pooling.
class Pair {
  public:
    /// Both equal.
    constexpr Pair(std::int64_t both) : values_{both, both} {}  // NOLINT(google-explicit-constructor)
    constexpr Pair(std::int64_t height, std::int64_t width) : values_{height, width} {}

    constexpr std::int64_t height() const { return values_[0]; }
    constexpr std::int64_t width() const { return values_[1]; }
    constexpr const std::array<std::int64_t, 2>& array() const { return values_; }

    friend constexpr bool operator==(const Pair&, const Pair&) = default;

  private:
    std::array<std::int64_t, 2> values_;
};

}  // namespace fulcrum::nn
