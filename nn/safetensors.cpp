#include "nn/safetensors.h"

#include "core/autograd.h"
#include "core/error.h"
#include "nn/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace fulcrum::nn {

static_assert(std::endian::native == std::endian::little, "the format's elements are little-endian");

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
    const auto fail = [&](const std::string& why) {
        throw IoError(fmt::format("safetensors file '{}': {}", path.string(), why));
    };
    std::uint64_t length = 0;
    if (file_.size() < sizeof length) {
        fail(fmt::format("{} bytes are too few for a header; the file is cut short", file_.size()));
    }
    file_.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > file_.size() - sizeof length) {
        fail(fmt::format("its header should have {} bytes but {} follow: no safetensors file, or cut short",
                         length, file_.size() - sizeof length));
    }
    if (length > kLargestHeader) {
        fail(
            fmt::format("its header has {} bytes; {} are the most that is accepted", length, kLargestHeader));
    }
    std::string text(static_cast<std::size_t>(length), '\0');
    file_.read_at(sizeof length, std::as_writable_bytes(std::span(text.data(), text.size())));
    SafetensorsHeader header = parse_safetensors_header(text, file_.size(), path.string());
    entries_ = std::move(header.entries);
    metadata_ = std::move(header.metadata);
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
    const auto found = std::ranges::find(entries_, name, &TensorEntry::name);
    return found == entries_.end() ? nullptr : &*found;
}

Tensor SafetensorsFile::read(const TensorEntry& entry) const {
    Tensor tensor = empty(entry.shape, {.dtype = entry.dtype});
    file_.read_at(entry.begin, {static_cast<std::byte*>(tensor.raw_data()), entry.bytes});
    return tensor;
}

Safetensors read_safetensors(const std::filesystem::path& path) {
    const SafetensorsFile file(path);
    Safetensors content;
    content.metadata = file.metadata();
    content.tensors.reserve(file.entries().size());
    for (const TensorEntry& entry : file.entries()) {
        content.tensors.emplace_back(entry.name, file.read(entry));
    }
    return content;
}

void send_safetensors(const FileSink& sink, std::span<const NamedTensor> tensors, const Metadata& metadata) {
    std::vector<TensorEntry> entries;
    entries.reserve(tensors.size());
    for (const auto& [name, tensor] : tensors) {
        if (!tensor.defined()) throw ValueError("write_safetensors: tensor '" + name + "' is undefined");
        entries.push_back({.name = name, .dtype = tensor.dtype(), .shape = tensor.shape()});
    }
    const std::string header = format_safetensors_header(entries, metadata);
    sink(std::as_bytes(std::span(header.data(), header.size())));

    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return entries[i].begin; });
    const autograd::NoGradGuard no_grad;
    for (const std::size_t i : order) {
        if (entries[i].bytes == 0) continue;
        const Tensor elements = tensors[i].second.to(kCpu).contiguous();
        sink({static_cast<const std::byte*>(elements.raw_data()), entries[i].bytes});
    }
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const Metadata& metadata) {
    write_file_atomically(path, [&](const FileSink& sink) { send_safetensors(sink, tensors, metadata); });
}

}  // namespace fulcrum::nn
