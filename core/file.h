#pragma once

/// \file
/// Whole files: read within their own length, written completely or not at all.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace fulcrum {

/// Receives pieces of a file in order.
using FileSink = std::function<void(std::span<const std::byte>)>;

/// Reads a regular file.
/// \throws IoError naming the path when it is missing, a directory, unreadable, or longer than `limit` bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path,
                                 std::size_t limit = static_cast<std::size_t>(-1));

/// Writes a file through a temporary beside it: everything that `writer` sends, then fsync, then rename over
/// `path`, then fsync of the folder. A reader sees the old content or the new, never a part; on any failure
/// (also an exception from `writer`) the temporary is removed and the old file is intact. \throws IoError
/// naming the path and the system's reason (no space, no permission).
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const FileSink&)>& writer);

/// The same for content that is already in memory.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content);

}  // namespace fulcrum
