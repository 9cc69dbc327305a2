#pragma once

/// \file
/// CRC-64/XZ: tells a damaged file from a whole one. Finds every burst of up to 64 changed bits. Not a public
/// header.

#include <cstddef>
#include <cstdint>
#include <span>

namespace fulcrum::nn {

/// The checksum of bytes that arrive in pieces.
class Crc64 {
  public:
    /// Takes the next piece.
    void update(std::span<const std::byte> bytes);
    /// The checksum of everything so far. That of the nine digits `123456789` is 0x995DC9BBDF1939FA.
    std::uint64_t value() const { return ~state_; }

  private:
    std::uint64_t state_ = ~std::uint64_t{0};
};

}  // namespace fulcrum::nn
