#pragma once

/// \file
/// Loops over operands with arbitrary strides, folded into as few dimensions as possible.

#include "core/shape.h"
#include "kernels/cpu/parallel.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace fulcrum::cpu {

/// Fewest elements of cheap element-wise work that are worth a thread.
inline constexpr std::int64_t kElementGrain = 32768;

/// A nest of loops over `N` operands of one shape. Dimensions are sorted by the strides of operand 0, largest
/// first, so that its memory is walked forwards whatever the logical order; dimensions of size 1 are dropped,
/// and neighbours that every operand steps through evenly are merged. Dense operands of equal layout end as
/// one flat loop.
template <std::size_t N>
struct LoopNest {
    std::size_t rank = 1;    ///< at least 1
    std::int64_t count = 0;  ///< product of the sizes
    std::array<std::int64_t, Dims::kMaxRank> sizes{};
    std::array<std::array<std::int64_t, N>, Dims::kMaxRank> strides{};  ///< [dimension][operand], in elements

    std::int64_t inner_size() const { return sizes[rank - 1]; }
    std::int64_t inner_stride(std::size_t operand) const { return strides[rank - 1][operand]; }
};

/// Folds `shape` with the operands' strides into a nest.
template <std::size_t N>
LoopNest<N> make_loop_nest(const Shape& shape, const std::array<Strides, N>& strides) {
    LoopNest<N> nest;
    nest.rank = 0;
    nest.count = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        nest.count *= shape[d];
        if (shape[d] == 1) continue;
        nest.sizes[nest.rank] = shape[d];
        for (std::size_t k = 0; k < N; ++k)
            nest.strides[nest.rank][k] = strides[k][d];
        // Insertion sort; `>` on arrays compares operand 0 first.
        for (std::size_t at = nest.rank; at > 0 && nest.strides[at] > nest.strides[at - 1]; --at) {
            std::swap(nest.strides[at], nest.strides[at - 1]);
            std::swap(nest.sizes[at], nest.sizes[at - 1]);
        }
        ++nest.rank;
    }
    if (nest.rank == 0) {
        nest.rank = 1;
        nest.sizes[0] = 1;
        return nest;
    }
    std::size_t outer = 0;
    for (std::size_t d = 1; d < nest.rank; ++d) {
        bool even = true;
        for (std::size_t k = 0; k < N; ++k) {
            even = even && nest.strides[outer][k] == nest.strides[d][k] * nest.sizes[d];
        }
        if (even) {
            nest.sizes[outer] *= nest.sizes[d];
        } else {
            nest.sizes[++outer] = nest.sizes[d];
        }
        nest.strides[outer] = nest.strides[d];
    }
    nest.rank = outer + 1;
    return nest;
}

/// Calls `row(offsets, length)` for the pieces of innermost rows that cover the elements `begin..end` of the
/// nest, in order. `offsets[k]` is the offset of the piece's first element in operand `k`; its neighbours are
/// `inner_stride(k)` apart.
template <std::size_t N, class Row>
void walk(const LoopNest<N>& nest, std::int64_t begin, std::int64_t end, const Row& row) {
    const std::size_t last = nest.rank - 1;
    std::array<std::int64_t, Dims::kMaxRank> position{};
    std::array<std::int64_t, N> offsets{};
    std::int64_t rest = begin;
    for (std::size_t d = nest.rank; d-- > 0 && begin < end;) {
        position[d] = rest % nest.sizes[d];
        rest /= nest.sizes[d];
        for (std::size_t k = 0; k < N; ++k)
            offsets[k] += position[d] * nest.strides[d][k];
    }
    while (begin < end) {
        const std::int64_t length = std::min(nest.sizes[last] - position[last], end - begin);
        row(std::as_const(offsets), length);
        begin += length;
        for (std::size_t k = 0; k < N; ++k)
            offsets[k] -= position[last] * nest.strides[last][k];
        position[last] = 0;
        for (std::size_t d = last; d-- > 0;) {
            for (std::size_t k = 0; k < N; ++k)
                offsets[k] += nest.strides[d][k];
            if (++position[d] < nest.sizes[d]) break;
            for (std::size_t k = 0; k < N; ++k)
                offsets[k] -= nest.sizes[d] * nest.strides[d][k];
            position[d] = 0;
        }
    }
}

/// `walk` over the whole nest, split over the threads.
template <std::size_t N, class Row>
void parallel_walk(const LoopNest<N>& nest, const Row& row) {
    parallel_for(nest.count, kElementGrain,
                 [&](std::int64_t begin, std::int64_t end) { walk(nest, begin, end, row); });
}

}  // namespace fulcrum::cpu
