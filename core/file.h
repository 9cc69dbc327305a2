#pragma once

/// \file
/// Whole files: read within their own length, written completely or not at all.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace fulcrum {

/// Receives pieces of a file in order.
using FileSink = std::function<void(std::span<const std::byte>)>;

/// A regular file opened for reading; closed with the object. Reads name their place, so several threads may
/// share one.
class InputFile {
  public:
    /// \throws IoError naming the path when it is missing, unreadable, or no regular file (a folder, a pipe,
    /// a device). Never waits for another process.
    explicit InputFile(std::filesystem::path path);
    ~InputFile();
    InputFile(InputFile&& other) noexcept;
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;
    InputFile& operator=(InputFile&&) = delete;

    const std::filesystem::path& path() const { return path_; }
    /// Bytes in the file when it was opened.
    std::uint64_t size() const { return size_; }
    /// Fills `into` from `offset` bytes after the start. \throws IoError when the file ends earlier, naming
    /// both places, or when the system cannot read it.
    void read_at(std::uint64_t offset, std::span<std::byte> into) const;

  private:
    std::filesystem::path path_;
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
};

/// Reads a regular file whole. Memory is the file's own length.
/// \throws IoError naming the path when it is missing, a directory, unreadable, or longer than `limit` bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path,
                                 std::size_t limit = static_cast<std::size_t>(-1));

/// Writes a file through a temporary beside it: everything that `writer` sends, then fsync, then rename over
/// `path`, then fsync of the folder. A reader sees the old content or the new, never a part; on any failure
/// (also an exception from `writer`) the temporary is removed and the old file is intact. An existing file
/// keeps its permissions; a symbolic link keeps pointing where it points, and its target is replaced. The
/// temporary is named `.NAME.<16 hex digits>.tmp`; what a killed process left behind under such a name is
/// removed by the next write to the same path. \throws IoError naming the path and the system's reason (no
/// space, no permission, no such folder), also when `path` is a folder, a pipe or a device.
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const FileSink&)>& writer);

/// The same for content that is already in memory.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content);

}  // namespace fulcrum
