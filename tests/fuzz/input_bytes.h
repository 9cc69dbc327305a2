#pragma once

/// \file
/// The fuzzer's bytes as a file in memory, so that the readers are driven through the paths they really take.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace fulcrum::fuzz {

/// A file that exists only in memory and is filled anew for every input.
class InputBytes {
  public:
    InputBytes() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
        if (descriptor_ < 0) std::abort();
    }
    ~InputBytes() { ::close(descriptor_); }
    InputBytes(const InputBytes&) = delete;
    InputBytes& operator=(const InputBytes&) = delete;

    /// Replaces the content.
    void set(std::span<const std::byte> bytes) {
        if (::ftruncate(descriptor_, 0) != 0) std::abort();
        if (::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
            std::abort();
        }
    }
    /// Where readers find it.
    std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  private:
    int descriptor_;
};

}  // namespace fulcrum::fuzz
