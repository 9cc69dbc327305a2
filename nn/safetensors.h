#pragma once

/// \file
/// Files in the safetensors format (https://github.com/huggingface/safetensors): eight bytes with the length
/// of a JSON header, the header with names, types, shapes and places, then the elements. Everything that a
/// file claims is checked against its own length before it is used.

#include "core/file.h"
#include "nn/state_dict.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fulcrum::nn {

/// Free text that a safetensors file carries beside its tensors.
using Metadata = std::map<std::string, std::string>;

/// What the header of a file tells about one tensor.
struct TensorEntry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::uint64_t begin = 0;  ///< first byte, counted from the start of the file
    std::uint64_t bytes = 0;  ///< `element_count(shape) * size_of(dtype)`
};

/// A safetensors file opened for reading: the header is read and checked at once, tensors when asked for.
class SafetensorsFile {
  public:
    /// Opens the file and checks the whole header: its length (within the file, at most 100 MB), UTF-8, JSON
    /// objects without duplicate keys, types, sizes that are non-negative integers and do not overflow, at
    /// most eight dimensions, offsets that cover the rest of the file without overlap or hole, and byte
    /// counts that fit the shapes. Memory is bounded by the length of the header. \throws IoError naming the
    /// file, the tensor and what is wrong.
    explicit SafetensorsFile(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return file_.path(); }
    /// The file itself, for its size and raw bytes.
    const InputFile& file() const { return file_; }
    /// In the order of the header.
    const std::vector<TensorEntry>& entries() const { return entries_; }
    const Metadata& metadata() const { return metadata_; }
    /// The entry of that name, or null.
    const TensorEntry* find(std::string_view name) const;
    /// Reads one tensor: contiguous, on the CPU. \throws IoError when the file cannot be read any more.
    Tensor read(const TensorEntry& entry) const;

  private:
    InputFile file_;
    std::vector<TensorEntry> entries_;
    Metadata metadata_;
};

/// A whole file in memory.
struct Safetensors {
    StateDict tensors;  ///< in the order of the header; contiguous, on the CPU
    Metadata metadata;
};

/// Reads all tensors of a file; memory is bounded by the file's length. Types F64, F32, BF16, F16, I64, I32
/// and U8 are known. \throws IoError as `SafetensorsFile` does.
Safetensors read_safetensors(const std::filesystem::path& path);

/// Writes tensors of any device and any strides, atomically (see `write_file_atomically`). The same tensors
/// give the same bytes: the header lists them in the given order; in the data, row-major each, wider types
/// come first, so that every tensor is aligned to its element. Needs memory for one tensor beside those
/// given. \throws ValueError for a name that is empty, given twice, `__metadata__`, not UTF-8 or has control
/// characters, and for an undefined tensor; IoError when the file cannot be written.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const Metadata& metadata = {});

}  // namespace fulcrum::nn
