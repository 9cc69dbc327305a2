#include "core/allocator.h"

#include "core/backend.h"
#include "core/error.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

namespace fulcrum {

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kSmallGrain = 512;

double mib(std::size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(kMiB);
}

}  // namespace

CachingAllocator::CachingAllocator(std::string name, Source source)
    : name_(std::move(name)), source_(std::move(source)) {}

CachingAllocator::~CachingAllocator() {
    release_cached();
}

std::size_t CachingAllocator::rounded(std::size_t bytes) {
    const std::size_t grain = bytes < kMiB ? kSmallGrain : std::bit_floor(bytes) / 8;
    const std::size_t up = (bytes + grain - 1) / grain * grain;
    return up < bytes ? bytes : up;
}

void* CachingAllocator::allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    const std::size_t wanted = rounded(bytes);
    const std::lock_guard lock(mutex_);
    ++stats_.requests;

    void* block = nullptr;
    std::size_t size = wanted;
    const auto found = cached_.lower_bound(wanted);
    if (found != cached_.end() && found->first <= wanted + wanted / 8) {
        size = found->first;
        block = found->second.back();
        found->second.pop_back();
        if (found->second.empty()) cached_.erase(found);
        ++stats_.reused;
    } else {
        block = source_.allocate(wanted);
        if (block == nullptr) {
            release_cached_locked();
            block = source_.allocate(wanted);
        }
        if (block == nullptr) {
            throw OutOfMemoryError(
                fmt::format("{}: no memory for a request of {:.1f} MiB ({:.1f} MiB are live, nothing is "
                            "cached); use a smaller "
                            "batch, accumulate gradients over several smaller batches, or free tensors",
                            name_, mib(bytes), mib(stats_.live)));
        }
        stats_.reserved += wanted;
    }
    live_.emplace(block, size);
    stats_.live += size;
    stats_.peak = std::max(stats_.peak, stats_.live);
    return block;
}

void CachingAllocator::deallocate(void* block) noexcept {
    if (block == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(block);
    if (found == live_.end()) return;
    const std::size_t size = found->second;
    live_.erase(found);
    stats_.live -= size;
    try {
        cached_[size].push_back(block);
    } catch (const std::bad_alloc&) {
        source_.release(block, size);
        stats_.reserved -= size;
    }
}

void CachingAllocator::release_cached() noexcept {
    const std::lock_guard lock(mutex_);
    release_cached_locked();
}

void CachingAllocator::release_cached_locked() noexcept {
    for (auto& [size, blocks] : cached_) {
        for (void* block : blocks) {
            source_.release(block, size);
            stats_.reserved -= size;
        }
    }
    cached_.clear();
}

MemoryStats CachingAllocator::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

void CachingAllocator::reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.live;
}

MemoryStats memory_stats(Device device) {
    return runtime(device).allocator(device.index).stats();
}

void reset_peak_memory(Device device) {
    runtime(device).allocator(device.index).reset_peak();
}

void release_cached_memory(Device device) {
    runtime(device).allocator(device.index).release_cached();
}

}  // namespace fulcrum
