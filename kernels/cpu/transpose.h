#pragma once

/// \file
/// The transposition of a small matrix that lies in the cache.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fulcrum::cpu {

namespace detail {

/// Side of the blocks that are transposed in registers.
inline constexpr std::int64_t kBlock = 8;

/// Transposes one block. Three rounds of interleaving row i with row i + 4: each round moves one bit of the
/// row number into the column number.
template <class Word>
void transpose_block(Word* destination, std::int64_t destination_pitch, const Word* source,
                     std::int64_t source_pitch) {
    using Row [[gnu::vector_size(kBlock * sizeof(Word))]] = Word;
    Row rows[kBlock];
    Row mixed[kBlock];
    for (std::int64_t i = 0; i < kBlock; ++i)
        std::memcpy(&rows[i], source + i * source_pitch, sizeof(Row));
    for (int round = 0; round < 3; ++round) {
        for (std::int64_t i = 0; i < kBlock / 2; ++i) {
            mixed[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            mixed[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        std::memcpy(rows, mixed, sizeof(rows));
    }
    for (std::int64_t i = 0; i < kBlock; ++i) {
        std::memcpy(destination + i * destination_pitch, &rows[i], sizeof(Row));
    }
}

}  // namespace detail

/// `destination[r * destination_pitch + c] = source[c * source_pitch + r]` for `rows` values of r and
/// `columns` of c. `Word` is an unsigned integer of the elements' size.
template <class Word>
void transpose(Word* destination, std::int64_t destination_pitch, const Word* source,
               std::int64_t source_pitch, std::int64_t rows, std::int64_t columns) {
    const std::int64_t whole_rows = rows / detail::kBlock * detail::kBlock;
    const std::int64_t whole_columns = columns / detail::kBlock * detail::kBlock;
    for (std::int64_t r = 0; r < whole_rows; r += detail::kBlock) {
        for (std::int64_t c = 0; c < whole_columns; c += detail::kBlock) {
            detail::transpose_block(destination + r * destination_pitch + c, destination_pitch,
                                    source + c * source_pitch + r, source_pitch);
        }
    }
    const auto plain = [&](std::int64_t first_row, std::int64_t end_row, std::int64_t first_column) {
        for (std::int64_t r = first_row; r < end_row; ++r) {
            for (std::int64_t c = first_column; c < columns; ++c) {
                destination[r * destination_pitch + c] = source[c * source_pitch + r];
            }
        }
    };
    plain(0, whole_rows, whole_columns);
    plain(whole_rows, rows, 0);
}

}  // namespace fulcrum::cpu
