#include "core/ops/reduce.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/strided.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace fulcrum::cpu {
namespace {

/// Sums are kept in f64, or, for integers, in 64 bits that wrap around.
template <class T>
using Total = std::conditional_t<std::integral<T>, std::uint64_t, double>;

template <class T>
Total<T> widen(T value) {
    if constexpr (std::integral<T>) {
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
    } else if constexpr (kIsHalf<T>) {
        return static_cast<double>(static_cast<float>(value));
    } else {
        return static_cast<double>(value);
    }
}

/// The result of `count` summed elements.
template <class T>
T finish(ReduceOp op, Total<T> total, std::int64_t count) {
    if constexpr (std::integral<T>) {
        return static_cast<T>(total);
    } else {
        return convert<T>(op == ReduceOp::mean ? total / static_cast<double>(count) : total);
    }
}

/// The loops of a reduction in the order of `x`'s memory, kept dimensions apart from reduced ones.
struct ReducePlan {
    LoopNest<2> kept;          ///< operands: x, output
    LoopNest<1> reduced;       ///< operand: x
    bool kept_inside = false;  ///< neighbours in memory belong to different sums
};

ReducePlan make_plan(const Tensor& x, const Tensor& output) {
    Strides output_strides = output.strides();
    for (std::size_t d = 0; d < output_strides.size(); ++d) {
        if (output.shape()[d] != x.shape()[d]) output_strides[d] = 0;
    }
    const auto nest = make_loop_nest<2>(x.shape(), {x.strides(), output_strides});
    ReducePlan plan;
    plan.kept.rank = plan.reduced.rank = 0;
    plan.kept.count = plan.reduced.count = 1;
    for (std::size_t d = 0; d < nest.rank; ++d) {
        if (nest.sizes[d] == 1) continue;
        if (nest.strides[d][1] != 0) {
            plan.kept.sizes[plan.kept.rank] = nest.sizes[d];
            plan.kept.strides[plan.kept.rank++] = nest.strides[d];
            plan.kept.count *= nest.sizes[d];
        } else {
            plan.reduced.sizes[plan.reduced.rank] = nest.sizes[d];
            plan.reduced.strides[plan.reduced.rank++] = {nest.strides[d][0]};
            plan.reduced.count *= nest.sizes[d];
        }
        plan.kept_inside = nest.strides[d][1] != 0;
    }
    if (plan.kept.rank == 0) plan.kept.sizes[plan.kept.rank++] = 1;
    if (plan.reduced.rank == 0) plan.reduced.sizes[plan.reduced.rank++] = 1;
    return plan;
}

/// Fewest elements of a part when one sum is cut into parts, and the most parts. The cut depends on the
/// sizes alone, so that the bits do not depend on the number of threads.
constexpr std::int64_t kPartElements = 16384;
constexpr std::int64_t kMaxParts = 64;

/// Into how many parts to cut sums of `reduced` rows, `width` elements each, of which there are `sums`.
std::int64_t part_count(std::int64_t sums, std::int64_t reduced, std::int64_t width) {
    if (sums >= kMaxParts / 2) return 1;
    return std::clamp<std::int64_t>(reduced * width / kPartElements, 1,
                                    std::clamp<std::int64_t>(reduced, 1, kMaxParts));
}

/// Sum of `count` elements in a row: many lanes, so that the additions vectorise, folded pairwise.
template <class T>
Total<T> sum_row(const T* x, std::int64_t stride, std::int64_t count) {
    constexpr std::int64_t kLanes = 32;
    Total<T> total{};
    std::int64_t i = 0;
    if (stride == 1 && count >= kLanes) {
        std::array<Total<T>, kLanes> lanes{};
        for (; i + kLanes <= count; i += kLanes) {
            for (std::int64_t lane = 0; lane < kLanes; ++lane) {
                lanes[static_cast<std::size_t>(lane)] += widen(x[i + lane]);
            }
        }
        for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
            for (std::size_t lane = 0; lane < width; ++lane)
                lanes[lane] += lanes[lane + width];
        }
        total = lanes[0];
    }
    for (; i < count; ++i)
        total += widen(x[i * stride]);
    return total;
}

/// Adds `rows` rows of `width` elements to `totals`.
template <class T>
void add_rows(Total<T>* totals, const T* x, std::int64_t row_stride, std::int64_t stride, std::int64_t rows,
              std::int64_t width) {
    std::int64_t row = 0;
    if (stride == 1) {
        // Four rows at a time, so that the totals are read and written a quarter as often.
        for (; row + 4 <= rows; row += 4) {
            const T* x0 = x + row * row_stride;
            const T* x1 = x0 + row_stride;
            const T* x2 = x1 + row_stride;
            const T* x3 = x2 + row_stride;
            for (std::int64_t i = 0; i < width; ++i) {
                totals[i] += (widen(x0[i]) + widen(x1[i])) + (widen(x2[i]) + widen(x3[i]));
            }
        }
    }
    for (; row < rows; ++row) {
        const T* source = x + row * row_stride;
        for (std::int64_t i = 0; i < width; ++i)
            totals[i] += widen(source[i * stride]);
    }
}

/// Each sum runs along memory: one sum, or one part of a sum, after the other.
template <class T>
void reduce_rows(ReduceOp op, const ReducePlan& plan, const T* x, T* output) {
    const std::int64_t count = plan.reduced.count;
    const std::int64_t stride = plan.reduced.inner_stride(0);
    const auto sum_range = [&](const T* base, std::int64_t begin, std::int64_t end) {
        if (plan.reduced.rank == 1) return sum_row(base + begin * stride, stride, end - begin);
        Total<T> total{};
        walk(plan.reduced, begin, end, [&](const std::array<std::int64_t, 1>& offset, std::int64_t length) {
            total += sum_row(base + offset[0], stride, length);
        });
        return total;
    };
    const auto for_each_sum = [&](std::int64_t begin, std::int64_t end, const auto& body) {
        walk(plan.kept, begin, end, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t length) {
            for (std::int64_t i = 0; i < length; ++i) {
                body(x + offsets[0] + i * plan.kept.inner_stride(0),
                     output[offsets[1] + i * plan.kept.inner_stride(1)]);
            }
        });
    };
    const std::int64_t parts = part_count(plan.kept.count, count, 1);
    if (parts == 1) {
        const std::int64_t grain =
            std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, count));
        parallel_for(plan.kept.count, grain, [&](std::int64_t begin, std::int64_t end) {
            for_each_sum(begin, end, [&](const T* base, T& result) {
                result = finish<T>(op, sum_range(base, 0, count), count);
            });
        });
        return;
    }
    for_each_sum(0, plan.kept.count, [&](const T* base, T& result) {
        std::vector<Total<T>> partial(static_cast<std::size_t>(parts));
        parallel_for(parts, 2, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t part = begin; part < end; ++part) {
                partial[static_cast<std::size_t>(part)] =
                    sum_range(base, part_begin(count, parts, part), part_begin(count, parts, part + 1));
            }
        });
        Total<T> total{};
        for (const Total<T> value : partial)
            total += value;
        result = finish<T>(op, total, count);
    });
}

/// Neighbours in memory belong to different sums: a tile of sums at a time, adding row after row.
template <class T>
void reduce_columns(ReduceOp op, const ReducePlan& plan, const T* x, T* output) {
    constexpr std::int64_t kTileWidth = 256;
    const std::int64_t count = plan.reduced.count;
    const std::int64_t width = plan.kept.inner_size();
    const std::int64_t stride = plan.kept.inner_stride(0);
    const std::int64_t output_stride = plan.kept.inner_stride(1);
    const std::int64_t tiles = (width + kTileWidth - 1) / kTileWidth;
    LoopNest<2> outer = plan.kept;
    outer.sizes[outer.rank - 1] = tiles;
    outer.strides[outer.rank - 1] = {kTileWidth * stride, kTileWidth * output_stride};
    outer.count = plan.kept.count / width * tiles;

    // Adds the rows `begin..end` of the tile at `base` to `totals`.
    const auto add_range = [&](Total<T>* totals, const T* base, std::int64_t columns, std::int64_t begin,
                               std::int64_t end) {
        walk(plan.reduced, begin, end, [&](const std::array<std::int64_t, 1>& offset, std::int64_t rows) {
            add_rows(totals, base + offset[0], plan.reduced.inner_stride(0), stride, rows, columns);
        });
    };
    const auto for_each_tile = [&](std::int64_t begin, std::int64_t end, const auto& body) {
        std::int64_t tile = begin;
        walk(outer, begin, end, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t length) {
            for (std::int64_t i = 0; i < length; ++i, ++tile) {
                const std::int64_t columns = std::min(kTileWidth, width - tile % tiles * kTileWidth);
                body(x + offsets[0] + i * outer.inner_stride(0),
                     output + offsets[1] + i * outer.inner_stride(1), columns);
            }
        });
    };
    using Totals = std::array<Total<T>, static_cast<std::size_t>(kTileWidth)>;
    const auto store = [&](const Totals& totals, T* result, std::int64_t columns) {
        for (std::int64_t i = 0; i < columns; ++i) {
            result[i * output_stride] = finish<T>(op, totals[static_cast<std::size_t>(i)], count);
        }
    };
    const std::int64_t tile_width = std::min(width, kTileWidth);
    const std::int64_t parts = part_count(outer.count, count, tile_width);
    if (parts == 1) {
        const std::int64_t grain =
            std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, count * tile_width));
        parallel_for(outer.count, grain, [&](std::int64_t begin, std::int64_t end) {
            for_each_tile(begin, end, [&](const T* base, T* result, std::int64_t columns) {
                Totals totals{};
                add_range(totals.data(), base, columns, 0, count);
                store(totals, result, columns);
            });
        });
        return;
    }
    std::vector<Totals> partial(static_cast<std::size_t>(parts));
    for_each_tile(0, outer.count, [&](const T* base, T* result, std::int64_t columns) {
        parallel_for(parts, 2, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t part = begin; part < end; ++part) {
                Totals& totals = partial[static_cast<std::size_t>(part)];
                totals.fill(Total<T>{});
                add_range(totals.data(), base, columns, part_begin(count, parts, part),
                          part_begin(count, parts, part + 1));
            }
        });
        for (std::size_t part = 1; part < partial.size(); ++part) {
            for (std::size_t i = 0; i < static_cast<std::size_t>(columns); ++i) {
                partial[0][i] += partial[part][i];
            }
        }
        store(partial[0], result, columns);
    });
}

void reduce(ReduceOp op, const Tensor& x, Tensor& output) {
    const ReducePlan plan = make_plan(x, output);
    if (output.numel() == 0) return;
    visit_dtype(x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto* from = static_cast<const T*>(x.raw_data());
        auto* to = static_cast<T*>(output.raw_data());
        if (plan.reduced.count == 0) {
            std::fill_n(to, output.numel(), finish<T>(op, Total<T>{}, 0));
        } else if (plan.kept_inside) {
            reduce_columns(op, plan, from, to);
        } else {
            reduce_rows(op, plan, from, to);
        }
    });
}

/// True when `value` takes the place of `best`, which comes earlier.
template <class T>
bool beats(T value, T best) {
    if constexpr (std::integral<T>) {
        return value > best;
    } else {
        // Unequal to itself: a NaN, of which the first wins.
        return value > best || (value != value && best == best);
    }
}

void argmax(std::int64_t outer, std::int64_t length, std::int64_t inner, const Tensor& x, Tensor& output) {
    auto* result = output.data<std::int64_t>();
    visit_dtype(x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using A = Arithmetic<T>;
        const auto* data = static_cast<const T*>(x.raw_data());
        parallel_for(outer * inner, std::max<std::int64_t>(1, kElementGrain / length),
                     [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) {
                             const T* row = data + i / inner * length * inner + i % inner;
                             std::int64_t best = 0;
                             A best_value = A(row[0]);
                             for (std::int64_t k = 1; k < length; ++k) {
                                 const A value = A(row[k * inner]);
                                 if (beats(value, best_value)) {
                                     best = k;
                                     best_value = value;
                                 }
                             }
                             result[i] = best;
                         }
                     });
    });
}

}  // namespace

const ReduceKernels& reduce_kernels() {
    static constexpr ReduceKernels kKernels{reduce, argmax};
    return kKernels;
}

}  // namespace fulcrum::cpu
