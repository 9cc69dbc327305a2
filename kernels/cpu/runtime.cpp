#include "kernels/cpu/backend.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace fulcrum::cpu {

namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Blocks of several megabytes start on a huge page and ask for more of them: a step touches hundreds of
// megabytes, and the page walks of 4 KiB pages would cost several per cent of it.
void* allocate_block(std::size_t bytes) {
    const bool large = bytes >= 2 * kHugePage;
    const std::size_t alignment = large ? kHugePage : kCacheLine;
    const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
    if (size < bytes) return nullptr;
    void* block = std::aligned_alloc(alignment, size);
    if (block != nullptr && large) madvise(block, size, MADV_HUGEPAGE);
    return block;
}

class CpuRuntime final : public DeviceRuntime {
  public:
    CpuRuntime() : allocator_("cpu", {allocate_block, [](void* block, std::size_t) { std::free(block); }}) {}

    int device_count() const noexcept override { return 1; }
    std::string unavailable_reason() const override { return {}; }
    CachingAllocator& allocator(int) override { return allocator_; }
    void copy(void* destination, Device, const void* source, Device, std::size_t bytes) override {
        if (bytes > 0) std::memcpy(destination, source, bytes);
    }
    void zero(void* destination, std::size_t bytes, int) override {
        if (bytes > 0) std::memset(destination, 0, bytes);
    }
    void synchronize(int) override {}
    std::vector<std::pair<std::string, std::string>> describe() const override { return cpu::describe(); }

  private:
    CachingAllocator allocator_;
};

}  // namespace

std::unique_ptr<DeviceRuntime> make_runtime() {
    return std::make_unique<CpuRuntime>();
}

}  // namespace fulcrum::cpu
