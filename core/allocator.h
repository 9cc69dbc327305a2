#pragma once

/// \file
/// The caching allocator that every device uses, and its statistics.

#include "core/device.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace fulcrum {

/// What a device's allocator holds, in bytes.
struct MemoryStats {
    std::size_t live = 0;        ///< held by storages now
    std::size_t peak = 0;        ///< largest `live` since the last reset
    std::size_t reserved = 0;    ///< taken from the system: live plus cached
    std::uint64_t requests = 0;  ///< allocations served
    std::uint64_t reused = 0;    ///< of those, served from the cache
};

/// Statistics of `device`'s allocator. \throws DeviceError when the device is absent.
MemoryStats memory_stats(Device device = kCpu);

/// Sets `peak` to what is live now.
void reset_peak_memory(Device device = kCpu);

/// Returns cached blocks to the system. Live tensors are untouched.
void release_cached_memory(Device device = kCpu);

/// Hands out blocks and keeps returned ones for the next request of a like size.
///
/// Sizes are rounded up (512 bytes below 1 MiB, an eighth of the leading power of two above), so that a
/// training step, which asks for the same sizes each time, is served from the cache after its first round.
/// When the system refuses a block, the cache is emptied and the request repeated once before
/// `OutOfMemoryError` is thrown. Thread-safe. On a device with one stream, a block may be handed out again
/// while queued work still reads it, since later work on the same stream runs after.
class CachingAllocator {
  public:
    /// Where blocks come from.
    struct Source {
        /// Returns `bytes` of memory, or null when there is none.
        std::function<void*(std::size_t bytes)> allocate;
        /// Gives back what `allocate` returned.
        std::function<void(void* block, std::size_t bytes)> release;
    };

    /// \param name the device's name for messages.
    CachingAllocator(std::string name, Source source);
    ~CachingAllocator();
    CachingAllocator(const CachingAllocator&) = delete;
    CachingAllocator& operator=(const CachingAllocator&) = delete;

    /// A block of at least `bytes` bytes; null for zero bytes.
    /// \throws OutOfMemoryError naming the request, what is live and cached, and the way out.
    void* allocate(std::size_t bytes);
    /// Takes back a block from `allocate`. Null is allowed.
    void deallocate(void* block) noexcept;
    /// Returns cached blocks to the source.
    void release_cached() noexcept;
    /// See `MemoryStats`.
    MemoryStats stats() const;
    /// Sets the peak to what is live now.
    void reset_peak();

    /// The size that a request of `bytes` is served with.
    static std::size_t rounded(std::size_t bytes);

  private:
    void release_cached_locked() noexcept;

    std::string name_;
    Source source_;
    mutable std::mutex mutex_;
    std::map<std::size_t, std::vector<void*>> cached_;
    std::unordered_map<void*, std::size_t> live_;
    MemoryStats stats_;
};

}  // namespace fulcrum
