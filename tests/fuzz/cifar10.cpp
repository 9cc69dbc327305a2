#include "data/cifar10.h"

#include "core/error.h"
#include "tests/fuzz/input_bytes.h"

#include <vector>

using namespace fulcrum;

namespace {

/// What is accepted must be whole records with labels that exist.
void parse(fuzz::InputBytes& file, std::span<const std::byte> input) {
    file.set(input);
    try {
        const data::ImageDataset set = data::read_cifar10_file(file.path());
        if (input.empty() || input.size() % data::kCifar10RecordBytes != 0) std::abort();
        for (std::size_t at = 0; at < input.size(); at += data::kCifar10RecordBytes) {
            if (std::to_integer<int>(input[at]) > 9) std::abort();
        }
    } catch (const Error&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static fuzz::InputBytes file;
    const std::span input(reinterpret_cast<const std::byte*>(data), size);
    parse(file, input);

    // Also try as whole records.
    std::vector<std::byte> records(input.begin(), input.end());
    records.resize((size / data::kCifar10RecordBytes + 1) * data::kCifar10RecordBytes);
    parse(file, records);
    return 0;
}
