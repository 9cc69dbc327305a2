#include "core/ops/copy.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/strided.h"
#include "kernels/cpu/transpose.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fulcrum::cpu {
namespace {

/// Converts `count` elements; strides in elements of the respective type.
using ConvertRow = void (*)(std::byte* destination, std::int64_t destination_stride, const std::byte* source,
                            std::int64_t source_stride, std::int64_t count);

template <class To, class From>
void convert_row(std::byte* destination, std::int64_t destination_stride, const std::byte* source,
                 std::int64_t source_stride, std::int64_t count) {
    auto* to = reinterpret_cast<To*>(destination);
    const auto* from = reinterpret_cast<const From*>(source);
    if (destination_stride == 1 && source_stride == 1) {
        if constexpr (std::is_same_v<To, From>) {
            std::memmove(to, from, static_cast<std::size_t>(count) * sizeof(To));
        } else {
            for (std::int64_t i = 0; i < count; ++i)
                to[i] = convert<To>(from[i]);
        }
    } else if (source_stride == 0 && count > 0) {
        const To value = convert<To>(*from);
        for (std::int64_t i = 0; i < count; ++i)
            to[i * destination_stride] = value;
    } else {
        for (std::int64_t i = 0; i < count; ++i) {
            to[i * destination_stride] = convert<To>(from[i * source_stride]);
        }
    }
}

/// Equal types only move bytes, so one function serves all types of a size.
ConvertRow row_mover(std::size_t size) {
    switch (size) {
        case 8:
            return convert_row<std::uint64_t, std::uint64_t>;
        case 4:
            return convert_row<std::uint32_t, std::uint32_t>;
        case 2:
            return convert_row<std::uint16_t, std::uint16_t>;
        default:
            return convert_row<std::uint8_t, std::uint8_t>;
    }
}

ConvertRow row_converter(DType to, DType from) {
    if (to == from) return row_mover(size_of(to));
    return visit_dtype(to, [from](auto to_tag) {
        return visit_dtype(from, [](auto from_tag) -> ConvertRow {
            return convert_row<typename decltype(to_tag)::type, typename decltype(from_tag)::type>;
        });
    });
}

/// Writes a buffered tile to memory, transposed; pitches in elements.
using WriteTile = void (*)(std::byte* destination, std::int64_t destination_pitch, const std::byte* source,
                           std::int64_t source_pitch, std::int64_t rows, std::int64_t columns);

template <class Word>
void write_tile(std::byte* destination, std::int64_t destination_pitch, const std::byte* source,
                std::int64_t source_pitch, std::int64_t rows, std::int64_t columns) {
    transpose(reinterpret_cast<Word*>(destination), destination_pitch, reinterpret_cast<const Word*>(source),
              source_pitch, rows, columns);
}

WriteTile tile_writer(std::size_t size) {
    switch (size) {
        case 8:
            return write_tile<std::uint64_t>;
        case 4:
            return write_tile<std::uint32_t>;
        case 2:
            return write_tile<std::uint16_t>;
        default:
            return write_tile<std::uint8_t>;
    }
}

/// Side of the square tiles of a transposing copy, in elements: two cache lines of f32.
constexpr std::int64_t kTile = 32;

/// A copy whose destination is dense along one dimension ("columns") and whose source is dense along another
/// ("rows"): NCHW to NHWC and back. Works in tiles, each read along the source's lines and written along the
/// destination's.
class TransposingCopy {
  public:
    /// \param rows the dimension of `nest` along which the source is dense; the last one is the columns.
    TransposingCopy(const LoopNest<2>& nest, std::size_t rows, DType to, DType from)
        : row_size_(nest.sizes[rows]),
          row_stride_(nest.strides[rows][0]),
          column_size_(nest.inner_size()),
          column_stride_(nest.inner_stride(1)),
          to_size_(static_cast<std::int64_t>(size_of(to))),
          from_size_(static_cast<std::int64_t>(size_of(from))),
          read_(row_converter(to, from)),
          write_(tile_writer(size_of(to))) {
        outer_.rank = 0;
        outer_.count = 1;
        for (std::size_t d = 0; d + 1 < nest.rank; ++d) {
            if (d == rows) continue;
            outer_.sizes[outer_.rank] = nest.sizes[d];
            outer_.strides[outer_.rank] = nest.strides[d];
            outer_.count *= nest.sizes[d];
            ++outer_.rank;
        }
        row_tiles_ = (row_size_ + kTile - 1) / kTile;
        column_tiles_ = (column_size_ + kTile - 1) / kTile;
    }

    void run(std::byte* destination, const std::byte* source) const {
        const std::int64_t tiles = outer_.count * row_tiles_ * column_tiles_;
        parallel_for(tiles, kElementGrain / (kTile * kTile), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t tile = begin; tile < end; ++tile)
                copy_tile(tile, destination, source);
        });
    }

  private:
    void copy_tile(std::int64_t tile, std::byte* destination, const std::byte* source) const {
        const std::int64_t column = tile % column_tiles_ * kTile;
        tile /= column_tiles_;
        const std::int64_t row = tile % row_tiles_ * kTile;
        tile /= row_tiles_;
        std::int64_t to = row * row_stride_ + column;
        std::int64_t from = row + column * column_stride_;
        for (std::size_t d = outer_.rank; d-- > 0;) {
            const std::int64_t position = tile % outer_.sizes[d];
            tile /= outer_.sizes[d];
            to += position * outer_.strides[d][0];
            from += position * outer_.strides[d][1];
        }
        const std::int64_t rows = std::min(kTile, row_size_ - row);
        const std::int64_t columns = std::min(kTile, column_size_ - column);
        alignas(64) std::array<std::byte, static_cast<std::size_t>(kTile * kTile) * 8> buffer;
        for (std::int64_t c = 0; c < columns; ++c) {
            read_(buffer.data() + c * kTile * to_size_, 1, source + (from + c * column_stride_) * from_size_,
                  1, rows);
        }
        write_(destination + to * to_size_, row_stride_, buffer.data(), kTile, rows, columns);
    }

    LoopNest<2> outer_;
    std::int64_t row_size_, row_stride_;
    std::int64_t column_size_, column_stride_;
    std::int64_t row_tiles_ = 0, column_tiles_ = 0;
    std::int64_t to_size_, from_size_;
    ConvertRow read_;
    WriteTile write_;
};

/// The dimension along which a transposing copy reads, or `nest.rank` where plain rows do as well.
std::size_t transposed_rows(const LoopNest<2>& nest) {
    const std::size_t last = nest.rank - 1;
    if (nest.inner_stride(0) != 1 || nest.inner_stride(1) <= 1) return nest.rank;
    for (std::size_t d = 0; d < last; ++d) {
        if (nest.strides[d][1] != 1) continue;
        // A few channels to be spread over long rows: reading with a small stride is as good.
        return nest.sizes[d] >= 4 || nest.inner_size() < 16 ? d : nest.rank;
    }
    return nest.rank;
}

void copy(const Tensor& source, Tensor& destination) {
    const auto nest = make_loop_nest<2>(destination.shape(), {destination.strides(), source.strides()});
    if (nest.count == 0) return;
    auto* to = static_cast<std::byte*>(destination.raw_data());
    const auto* from = static_cast<const std::byte*>(source.raw_data());
    const std::size_t rows = transposed_rows(nest);
    if (rows < nest.rank) {
        TransposingCopy(nest, rows, destination.dtype(), source.dtype()).run(to, from);
        return;
    }
    const ConvertRow convert = row_converter(destination.dtype(), source.dtype());
    const auto to_size = static_cast<std::int64_t>(size_of(destination.dtype()));
    const auto from_size = static_cast<std::int64_t>(size_of(source.dtype()));
    parallel_walk(nest, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t length) {
        convert(to + offsets[0] * to_size, nest.inner_stride(0), from + offsets[1] * from_size,
                nest.inner_stride(1), length);
    });
}

void fill(Tensor& destination, double value) {
    const auto nest = make_loop_nest<1>(destination.shape(), {destination.strides()});
    if (nest.count == 0) return;
    visit_dtype(destination.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto* data = static_cast<T*>(destination.raw_data());
        const T element = convert<T>(value);
        const std::int64_t stride = nest.inner_stride(0);
        parallel_walk(nest, [=](const std::array<std::int64_t, 1>& offsets, std::int64_t length) {
            T* row = data + offsets[0];
            if (stride == 1) {
                std::fill_n(row, length, element);
            } else {
                for (std::int64_t i = 0; i < length; ++i)
                    row[i * stride] = element;
            }
        });
    });
}

/// True when no element of a block has all bits of the exponent set. Integer arithmetic, so that it
/// vectorises.
template <class Bits>
bool finite_block(const Bits* data, std::int64_t count, Bits exponent) {
    Bits bad = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        bad = static_cast<Bits>(bad | static_cast<Bits>((data[i] & exponent) == exponent));
    }
    return bad == 0;
}

template <class Bits>
bool all_finite_bits(const void* data, std::int64_t count, Bits exponent) {
    constexpr std::int64_t kBlock = 4096;
    std::atomic<bool> finite{true};
    parallel_for(count, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
        const auto* bits = static_cast<const Bits*>(data);
        for (; begin < end && finite.load(std::memory_order_relaxed); begin += kBlock) {
            if (!finite_block<Bits>(bits + begin, std::min(kBlock, end - begin), exponent)) finite = false;
        }
    });
    return finite;
}

bool all_finite(const Tensor& x) {
    switch (x.dtype()) {
        case DType::f64:
            return all_finite_bits<std::uint64_t>(x.raw_data(), x.numel(), 0x7ff0'0000'0000'0000U);
        case DType::f32:
            return all_finite_bits<std::uint32_t>(x.raw_data(), x.numel(), 0x7f80'0000U);
        case DType::bf16:
            return all_finite_bits<std::uint16_t>(x.raw_data(), x.numel(), 0x7f80U);
        case DType::f16:
            return all_finite_bits<std::uint16_t>(x.raw_data(), x.numel(), 0x7c00U);
        default:
            return true;
    }
}

}  // namespace

const CopyKernels& copy_kernels() {
    static constexpr CopyKernels kKernels{copy, fill, all_finite};
    return kKernels;
}

}  // namespace fulcrum::cpu
