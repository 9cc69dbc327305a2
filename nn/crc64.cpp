#include "nn/crc64.h"

#include <array>
#include <bit>
#include <cstring>

namespace fulcrum::nn {

static_assert(std::endian::native == std::endian::little,
              "eight bytes are folded in as one little-endian word");

namespace {

constexpr std::size_t kSlices = 8;
using Tables = std::array<std::array<std::uint64_t, 256>, kSlices>;

/// Entry `[k][b]`: what byte `b` followed by `k` zero bytes does to the checksum, so that eight bytes take
/// eight independent look-ups (Kounavis and Berry, "Novel table lookup-based algorithms for high-performance
/// CRC generation", 2008).
constexpr Tables make_tables() {
    constexpr std::uint64_t kPolynomial = 0xC96C5795D7870F42U;  // ECMA-182, bits reversed
    Tables tables{};
    for (std::size_t byte = 0; byte < 256; ++byte) {
        std::uint64_t crc = byte;
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
        tables[0][byte] = crc;
    }
    for (std::size_t k = 1; k < kSlices; ++k) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint64_t before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ tables[0][before & 0xffU];
        }
    }
    return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

void Crc64::update(std::span<const std::byte> bytes) {
    std::uint64_t crc = state_;
    while (bytes.size() >= kSlices) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data(), sizeof word);
        word ^= crc;
        crc = 0;
        for (std::size_t k = 0; k < kSlices; ++k) {
            crc ^= kTables[kSlices - 1 - k][(word >> (8 * k)) & 0xffU];
        }
        bytes = bytes.subspan(kSlices);
    }
    for (const std::byte byte : bytes) {
        crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint64_t>(byte)) & 0xffU];
    }
    state_ = crc;
}

}  // namespace fulcrum::nn
