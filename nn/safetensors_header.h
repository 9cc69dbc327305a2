#pragma once

/// \file
/// The header of a safetensors file as text: checked reading and writing. Not a public header.

#include "core/file.h"
#include "nn/safetensors.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fulcrum::nn {

/// What the format's own reader accepts at most, in bytes.
inline constexpr std::uint64_t kLargestHeader = 100'000'000;
/// The name under which a header keeps free text.
inline constexpr std::string_view kMetadataName = "__metadata__";

/// A header's content.
struct SafetensorsHeader {
    std::vector<TensorEntry> entries;  ///< in the order of the text
    Metadata metadata;
};

/// Reads a header and makes every check that `SafetensorsFile` promises.
/// \param text the header without its length. \param file_size length of the whole file, at least
/// `8 + text.size()`. \param path for messages. \throws IoError.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t file_size,
                                           const std::string& path);

/// Decides where each tensor lies and writes the header.
/// \param entries names, dtypes and shapes; `begin` and `bytes` are filled in. \return the eight bytes of
/// length and the padded header, ready to be sent. \throws ValueError for an impossible name or text.
std::string format_safetensors_header(std::vector<TensorEntry>& entries, const Metadata& metadata);

/// Sends a whole file, the tensors in the order in which they lie in it. A tensor's elements are read when
/// their turn comes, not before. \throws ValueError as `write_safetensors`.
void send_safetensors(const FileSink& sink, std::span<const NamedTensor> tensors, const Metadata& metadata);

}  // namespace fulcrum::nn
