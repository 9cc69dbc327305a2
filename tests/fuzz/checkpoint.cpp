#include "nn/checkpoint.h"

#include "core/error.h"
#include "nn/crc64.h"
#include "tests/fuzz/input_bytes.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace fulcrum;

namespace {

void load(fuzz::InputBytes& file, std::span<const std::byte> input) {
    file.set(input);
    try {
        const nn::Checkpoint checkpoint = nn::load_checkpoint(file.path());
        if (checkpoint.epoch < 0 || checkpoint.step < 0 || checkpoint.schedule_step < 0) std::abort();
    } catch (const Error&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static fuzz::InputBytes file;
    const std::span input(reinterpret_cast<const std::byte*>(data), size);
    load(file, input);

    // A checksum hides everything behind it from random changes: also try with a right one.
    if (size > 16) {
        std::vector<std::byte> sealed(input.begin(), input.end());
        nn::Crc64 crc;
        crc.update(std::span(sealed).first(size - 8));
        const std::uint64_t value = crc.value();
        std::memcpy(sealed.data() + size - 8, &value, sizeof value);
        load(file, sealed);
    }
    return 0;
}
