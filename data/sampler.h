#pragma once

/// \file
/// The order in which an epoch visits a data set: a function of (count, seed, epoch) and of nothing else.

#include <cstdint>
#include <vector>

namespace fulcrum::data {

/// The random stream (`core/random.h`) that shuffles `epoch`. Streams of the loader start at 2^62, far from
/// those that a `Generator` hands out.
constexpr std::uint64_t shuffle_stream(std::uint64_t epoch) {
    return (std::uint64_t{1} << 62) + epoch;
}

/// The random stream that augments images in `epoch`.
constexpr std::uint64_t augment_stream(std::uint64_t epoch) {
    return (std::uint64_t{2} << 62) + epoch;
}

/// Places 0..count-1 in the order of `epoch`: a Fisher-Yates shuffle drawn from `shuffle_stream(epoch)` under
/// `seed`, or ascending when `shuffle` is false.
/// \throws ValueError unless `0 <= count < 2^32`.
std::vector<std::int64_t> epoch_order(std::int64_t count, std::uint64_t seed, std::uint64_t epoch,
                                      bool shuffle);

}  // namespace fulcrum::data
