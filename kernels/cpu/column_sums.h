#pragma once

/// \file
/// Sums of the columns of a row-major matrix: the gradient of a bias.

#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fulcrum::cpu {

/// Writes `result[j] = sum over i of rows[i * columns + j]`. Blocks of 128 rows are summed in the arithmetic
/// type (so that the loop vectorises) and the blocks in double, which keeps the error of a long column that
/// of a short one. The order of additions depends on the sizes and the number of threads only.
template <class From, class To>
void column_sums(const From* rows, std::int64_t count, std::int64_t columns, To* result) {
    using Sum = Arithmetic<From>;
    constexpr std::int64_t kBlock = 128;
    constexpr std::int64_t kGrain = 1 << 16;
    const std::int64_t blocks = (count + kBlock - 1) / kBlock;
    const std::int64_t parts =
        worthwhile_threads(blocks, std::max<std::int64_t>(1, kGrain / (kBlock * columns)));
    const Scratch totals(static_cast<std::size_t>(parts * columns) * sizeof(double));
    parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
        std::vector<Sum> sums(static_cast<std::size_t>(columns));
        for (std::int64_t part = first; part < last; ++part) {
            double* total = totals.as<double>() + part * columns;
            std::fill(total, total + columns, 0.0);
            const std::int64_t end = part_begin(blocks, parts, part + 1);
            for (std::int64_t block = part_begin(blocks, parts, part); block < end; ++block) {
                std::fill(sums.begin(), sums.end(), Sum{0});
                const std::int64_t stop = std::min(count, (block + 1) * kBlock);
                for (std::int64_t i = block * kBlock; i < stop; ++i) {
                    const From* row = rows + i * columns;
                    for (std::int64_t j = 0; j < columns; ++j)
                        sums[static_cast<std::size_t>(j)] += static_cast<Sum>(row[j]);
                }
                for (std::int64_t j = 0; j < columns; ++j)
                    total[j] += static_cast<double>(sums[static_cast<std::size_t>(j)]);
            }
        }
    });
    for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0.0;
        for (std::int64_t part = 0; part < parts; ++part)
            sum += totals.as<double>()[part * columns + j];
        result[j] = convert<To>(sum);
    }
}

}  // namespace fulcrum::cpu
