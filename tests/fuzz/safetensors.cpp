#include "nn/safetensors.h"

#include "core/error.h"
#include "nn/safetensors_header.h"
#include "tests/fuzz/input_bytes.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace fulcrum;

namespace {

/// Reads the file; what is accepted must survive being written and read again, bit for bit.
void read_write_read(fuzz::InputBytes& file, std::span<const std::byte> input) {
    file.set(input);
    nn::Safetensors first;
    try {
        first = nn::read_safetensors(file.path());
    } catch (const Error&) {
        return;
    }
    std::vector<std::byte> written;
    nn::send_safetensors(
        [&](std::span<const std::byte> bytes) { written.insert(written.end(), bytes.begin(), bytes.end()); },
        first.tensors, first.metadata);
    file.set(written);
    const nn::Safetensors second = nn::read_safetensors(file.path());
    if (first.metadata != second.metadata || first.tensors.size() != second.tensors.size()) std::abort();
    for (std::size_t i = 0; i < first.tensors.size(); ++i) {
        const auto& [name, a] = first.tensors[i];
        const Tensor& b = second.tensors[i].second;
        if (name != second.tensors[i].first || a.shape() != b.shape() || a.dtype() != b.dtype()) std::abort();
        const std::size_t bytes = static_cast<std::size_t>(a.numel()) * size_of(a.dtype());
        if (bytes != 0 && std::memcmp(a.raw_data(), b.raw_data(), bytes) != 0) std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static fuzz::InputBytes file;
    const std::span input(reinterpret_cast<const std::byte*>(data), size);
    read_write_read(file, input);

    // Most changes make the length of the header wrong and would never get past it: also try with a right
    // one.
    if (size > 8) {
        std::vector<std::byte> framed(input.begin(), input.end());
        const auto brace = std::find(framed.rbegin(), framed.rend() - 8, static_cast<std::byte>('}'));
        const auto length = static_cast<std::uint64_t>(brace.base() - framed.begin()) - 8;
        std::memcpy(framed.data(), &length, sizeof length);
        read_write_read(file, framed);
    }
    return 0;
}
