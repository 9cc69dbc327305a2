#pragma once

/// \file
/// How batch normalisation cuts its `[rows, C]` matrix into tiles, puts the tiles' sums together and writes
/// its results.

#include "core/tensor.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stream.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace fulcrum::cpu {

/// The widest tile, so that per-channel sums fit on the stack.
inline constexpr std::int64_t kMaxTileChannels = 512;
/// Elements that are worth a thread.
inline constexpr std::int64_t kGrain = 16384;
/// Results of this size are not found in a cache by whoever reads them next.
inline constexpr std::int64_t kStreamedBytes = std::int64_t{16} << 20;

/// How the matrix is cut for the passes that sum over rows.
struct Tiling {
    std::int64_t rows, channels;
    std::int64_t row_tiles;
    std::int64_t tile_channels;  // a multiple of every vector's length

    std::int64_t channel_tiles() const { return (channels + tile_channels - 1) / tile_channels; }
    std::int64_t tiles() const { return row_tiles * channel_tiles(); }
    std::int64_t row(std::int64_t tile) const { return part_begin(rows, row_tiles, tile); }
    std::int64_t channel(std::int64_t tile) const { return std::min(tile * tile_channels, channels); }
};

inline Tiling make_tiling(const Tensor& x) {
    const std::int64_t channels = x.size(1);
    const std::int64_t rows = x.numel() / channels;
    const std::int64_t tile_rows = std::clamp<std::int64_t>(16384 / channels, 128, 512);
    const std::int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    // Few rows (the last stages of a network on small images) leave the channels to spread over the threads.
    const std::int64_t tile_channels = row_tiles < 32 ? 128 : kMaxTileChannels;
    return {rows, channels, row_tiles, tile_channels};
}

/// Calls `body(row_tile, row_begin, row_end, channel_begin, channel_end)` for every tile.
template <class Body>
void for_each_tile(const Tiling& tiling, const Body& body) {
    const std::int64_t elements = tiling.rows * tiling.channels;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain * tiling.tiles() / elements);
    parallel_for(tiling.tiles(), grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t tile = begin; tile < end; ++tile) {
            const std::int64_t i = tile / tiling.channel_tiles();
            const std::int64_t j = tile % tiling.channel_tiles();
            body(i, tiling.row(i), tiling.row(i + 1), tiling.channel(j), tiling.channel(j + 1));
        }
    });
}

/// Calls `body(begin, end)` on ranges of rows, each thread's last one first: those are the ones that the pass
/// before has left in the cache.
template <class Body>
void for_each_row_range(const Tiling& tiling, const Body& body) {
    const std::int64_t block = std::max<std::int64_t>(1, kGrain / tiling.channels);
    parallel_for(tiling.rows, block, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t last = end; last > begin; last -= block)
            body(std::max(begin, last - block), last);
        stream_fence();
    });
}

/// Calls `body(first, lane)` for every channel `first + lane`, in vectors of constant length as far as they
/// go.
/// \tparam T the elements' type: 16-bit ones need longer vectors to fill registers.
template <class T, class Body>
inline void for_each_lane(std::int64_t channels, const Body& body) {
    constexpr std::int64_t kLanes = sizeof(T) == 2 ? 32 : 16;
    std::int64_t first = 0;
    for (; first + kLanes <= channels; first += kLanes) {
#pragma omp simd
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            body(first, lane);
    }
    const std::int64_t rest = channels - first;
#pragma omp simd
    for (std::int64_t lane = 0; lane < rest; ++lane)
        body(first, lane);
}

/// Puts rows together. Large results are streamed past the caches: a row is written to a buffer first and
/// then copied as a whole.
template <class T>
class RowWriter {
  public:
    /// \param data the `[rows, C]` matrix, or null when it is not wanted.
    RowWriter(T* data, const Tiling& tiling)
        : data_(data),
          channels_(tiling.channels),
          streams_(tiling.rows * tiling.channels * static_cast<std::int64_t>(sizeof(T)) >= kStreamedBytes &&
                   channels_ <= kMaxStreamedRow && can_stream(data, row_bytes())) {}

    /// Where row `r` is to be put together.
    T* begin(std::int64_t r) { return streams_ ? buffer_.data() : data_ + r * channels_; }
    /// Row `r` is complete.
    void end(std::int64_t r) {
        if (streams_) stream_copy(data_ + r * channels_, buffer_.data(), row_bytes());
    }

  private:
    static constexpr std::int64_t kMaxStreamedRow = 1024;
    std::size_t row_bytes() const { return static_cast<std::size_t>(channels_) * sizeof(T); }

    T* data_;
    std::int64_t channels_;
    bool streams_;
    alignas(kStreamUnit) std::array<T, kMaxStreamedRow> buffer_;
};

/// Two double sums per channel and row tile, laid out `[row_tiles][2][C]`.
class TileSums {
  public:
    explicit TileSums(const Tiling& tiling)
        : channels_(tiling.channels),
          memory_(empty({tiling.row_tiles, 2, tiling.channels}, {.dtype = DType::f64})),
          data_(memory_.data<double>()) {}

    double* first(std::int64_t tile) const { return data_ + 2 * tile * channels_; }
    double* second(std::int64_t tile) const { return first(tile) + channels_; }

  private:
    std::int64_t channels_;
    Tensor memory_;
    double* data_;
};

/// Per-channel coefficients of a pass, `count` arrays of `[C]`.
template <class C>
class Coefficients {
  public:
    Coefficients(std::int64_t count, std::int64_t channels)
        : channels_(channels), memory_(empty({count, channels}, {.dtype = dtype_of<C>()})) {}

    C* operator[](std::int64_t i) const { return memory_.data<C>() + i * channels_; }

  private:
    std::int64_t channels_;
    Tensor memory_;
};

/// A per-channel tensor as a pointer, null when undefined.
template <class C>
C* data_or_null(const Tensor& tensor) {
    return tensor.defined() ? tensor.data<C>() : nullptr;
}

/// Channels whose tile sums are put together at a time.
inline constexpr std::int64_t kMergeChannels = 64;
/// One double per channel of such a group.
using ChannelGroup = std::array<double, kMergeChannels>;

/// Calls `body(begin, end)` on groups of at most `kMergeChannels` channels.
template <class Body>
void for_each_channel_group(const Tiling& tiling, const Body& body) {
    const std::int64_t groups = (tiling.channels + kMergeChannels - 1) / kMergeChannels;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (tiling.row_tiles * kMergeChannels));
    parallel_for(groups, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t group = begin; group < end; ++group) {
            const std::int64_t channel = group * kMergeChannels;
            body(channel, std::min(channel + kMergeChannels, tiling.channels));
        }
    });
}

/// Mean and deviations of whole columns from those of the tiles (Chan, Golub and LeVeque, 1983).
inline void merge_statistics(const Tiling& tiling, const TileSums& sums, std::int64_t begin, std::int64_t end,
                             ChannelGroup& mean, ChannelGroup& deviations) {
    const std::int64_t channels = end - begin;
    mean.fill(0.0);
    deviations.fill(0.0);
    for (std::int64_t i = 0; i < tiling.row_tiles; ++i) {
        const double rows = static_cast<double>(tiling.row(i + 1) - tiling.row(i));
        const double share = rows / static_cast<double>(tiling.rows);
        const double* tile_mean = sums.first(i) + begin;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c)
            mean[c] += tile_mean[c] * share;
    }
    for (std::int64_t i = 0; i < tiling.row_tiles; ++i) {
        const double rows = static_cast<double>(tiling.row(i + 1) - tiling.row(i));
        const double* tile_mean = sums.first(i) + begin;
        const double* tile_deviations = sums.second(i) + begin;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            const double distance = tile_mean[c] - mean[c];
            deviations[c] += tile_deviations[c] + distance * distance * rows;
        }
    }
}

/// Sums of whole columns from those of the tiles.
inline void merge_sums(const Tiling& tiling, const TileSums& sums, std::int64_t begin, std::int64_t end,
                       ChannelGroup& first, ChannelGroup& second) {
    const std::int64_t channels = end - begin;
    first.fill(0.0);
    second.fill(0.0);
    for (std::int64_t i = 0; i < tiling.row_tiles; ++i) {
        const double* tile_first = sums.first(i) + begin;
        const double* tile_second = sums.second(i) + begin;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            first[c] += tile_first[c];
            second[c] += tile_second[c];
        }
    }
}

}  // namespace fulcrum::cpu
