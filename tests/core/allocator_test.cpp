#include "core/allocator.h"

#include "core/error.h"
#include "core/tensor.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <cstdlib>

using namespace fulcrum;

namespace {

// A device with a fixed amount of memory that counts what it gives out.
struct SmallDevice {
    std::size_t capacity;
    std::size_t used = 0;
    int calls = 0;

    CachingAllocator::Source source() {
        return {[this](std::size_t bytes) -> void* {
                    ++calls;
                    if (used + bytes > capacity) return nullptr;
                    used += bytes;
                    return std::malloc(bytes);
                },
                [this](void* block, std::size_t bytes) {
                    used -= bytes;
                    std::free(block);
                }};
    }
};

}  // namespace

TEST_CASE("A returned block serves the next request of its size", "[core][allocator]") {
    SmallDevice device{1 << 20};
    {
        CachingAllocator allocator("toy", device.source());
        void* first = allocator.allocate(1000);
        allocator.deallocate(first);
        void* second = allocator.allocate(1010);
        CHECK(second == first);
        CHECK(device.calls == 1);
        const MemoryStats stats = allocator.stats();
        CHECK(stats.live == 1024);
        CHECK(stats.peak == 1024);
        CHECK(stats.reserved == 1024);
        CHECK(stats.requests == 2);
        CHECK(stats.reused == 1);
        allocator.deallocate(second);
        CHECK(allocator.stats().live == 0);
        CHECK(allocator.stats().peak == 1024);
        allocator.reset_peak();
        CHECK(allocator.stats().peak == 0);
    }
    CHECK(device.used == 0);
}

TEST_CASE("Cached blocks are given back before memory is said to be out", "[core][allocator]") {
    SmallDevice device{8192};
    CachingAllocator allocator("toy", device.source());
    void* small = allocator.allocate(4096);
    allocator.deallocate(small);
    void* large = allocator.allocate(8192);
    CHECK(large != nullptr);
    CHECK(device.used == 8192);
    CHECK_THROWS_WITH(allocator.allocate(512), Catch::Matchers::ContainsSubstring("toy") &&
                                                   Catch::Matchers::ContainsSubstring("smaller batch"));
    CHECK_THROWS_AS(allocator.allocate(512), OutOfMemoryError);
    allocator.deallocate(large);
    void* after = allocator.allocate(512);
    CHECK(after != nullptr);
    allocator.deallocate(after);
}

TEST_CASE("Requests are rounded to classes with bounded waste", "[core][allocator]") {
    CHECK(CachingAllocator::rounded(1) == 512);
    CHECK(CachingAllocator::rounded(512) == 512);
    CHECK(CachingAllocator::rounded(513) == 1024);
    for (std::size_t bytes = 1 << 20; bytes < std::size_t{1} << 34; bytes = bytes * 9 / 8 + 12345) {
        const std::size_t up = CachingAllocator::rounded(bytes);
        CHECK(up >= bytes);
        CHECK(up <= bytes + bytes / 8);
    }
}

TEST_CASE("A request beyond the machine's memory is an exception and leaves the device usable",
          "[core][allocator]") {
    test::for_each_device([](Device device) {
        CHECK_THROWS_AS(empty({std::int64_t{1} << 46}, {.device = device}), OutOfMemoryError);
        CHECK(ones({2}, {.device = device}).to_vector<float>() == std::vector<float>{1, 1});
    });
}

TEST_CASE("Tensors are counted while they live and start on a cache line", "[core][allocator]") {
    test::for_each_device([](Device device) {
        const std::size_t before = memory_stats(device).live;
        {
            const Tensor x = empty({1000}, {.device = device});
            CHECK(memory_stats(device).live == before + 4096);
            CHECK(reinterpret_cast<std::uintptr_t>(x.raw_data()) % 64 == 0);
        }
        CHECK(memory_stats(device).live == before);
        release_cached_memory(device);
        CHECK(memory_stats(device).reserved == memory_stats(device).live);
    });
}
