#include "core/file.h"

#include "core/error.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace fulcrum {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = std::size_t{256} * 1024;
constexpr std::size_t kLargestTransfer = std::size_t{1} << 30;
constexpr std::size_t kSuffixDigits = 16;
constexpr std::string_view kSuffixEnd = ".tmp";

std::string reason(int error) {
    return std::generic_category().message(error);
}

[[noreturn]] void fail_reading(const fs::path& path, const std::string& why) {
    throw IoError("cannot read '" + path.string() + "': " + why);
}

[[noreturn]] void fail_writing(const fs::path& path, const std::string& why) {
    throw IoError("cannot write '" + path.string() + "': " + why);
}

/// Repeats a system call that a signal interrupted.
template <class Call>
auto retry(Call&& call) {
    auto result = call();
    while (result < 0 && errno == EINTR)
        result = call();
    return result;
}

const char* kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "it is a folder, not a file";
    if (S_ISFIFO(mode)) return "it is a pipe, not a regular file";
    if (S_ISSOCK(mode)) return "it is a socket, not a regular file";
    return "it is a device, not a regular file";
}

/// A descriptor that closes itself.
class Descriptor {
  public:
    explicit Descriptor(int value = -1) : value_(value) {}
    ~Descriptor() { reset(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            value_ = std::exchange(other.value_, -1);
        }
        return *this;
    }

    int get() const { return value_; }
    explicit operator bool() const { return value_ >= 0; }
    int release() { return std::exchange(value_, -1); }
    void reset() {
        if (value_ >= 0) ::close(std::exchange(value_, -1));
    }
    /// Closes and tells whether the system accepted everything that was written.
    int close() { return value_ < 0 ? 0 : ::close(std::exchange(value_, -1)); }

  private:
    int value_;
};

/// The file that a write to `path` replaces: symbolic links are followed, also to a file that is not there
/// yet.
fs::path resolve_target(const fs::path& path) {
    constexpr int kMostLinks = 40;
    if (path.empty()) fail_writing(path, "the path is empty");
    fs::path target = path;
    for (int links = 0;; ++links) {
        std::error_code error;
        if (!fs::is_symlink(fs::symlink_status(target, error))) break;
        if (links == kMostLinks) fail_writing(path, reason(ELOOP));
        const fs::path link = fs::read_symlink(target, error);
        if (error) fail_writing(path, error.message());
        target = target.parent_path() / link;
    }
    const fs::path name = target.filename();
    if (name.empty() || name == "." || name == "..") fail_writing(path, kind_of(S_IFDIR));
    return target;
}

/// Part of a temporary's name that no other live writer uses.
std::string unique_digits() {
    static std::atomic<std::uint64_t> counter{0};
    const auto now = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    std::uint64_t value = now * 0x9E3779B97F4A7C15U;
    value ^= (static_cast<std::uint64_t>(::getpid()) << 20) + counter.fetch_add(1);
    std::string digits(kSuffixDigits, '0');
    for (char& digit : digits) {
        digit = "0123456789abcdef"[value & 15U];
        value >>= 4;
    }
    return digits;
}

/// Removes temporaries that a killed writer of the same target left behind: those that nobody holds locked.
void remove_leftovers(const fs::path& folder, const std::string& prefix) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        const std::string name = it->path().filename().string();
        if (name.size() != prefix.size() + kSuffixDigits + kSuffixEnd.size() || !name.starts_with(prefix) ||
            !name.ends_with(kSuffixEnd)) {
            continue;
        }
        const std::string_view digits = std::string_view(name).substr(prefix.size(), kSuffixDigits);
        if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) continue;
        const Descriptor file(::open(it->path().c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
        if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(it->path().c_str());
    }
}

/// A new file beside the target, locked while it is written, removed unless it is committed.
class TemporaryFile {
  public:
    /// \param shown the path that messages name.
    TemporaryFile(const fs::path& shown, fs::path target) : shown_(shown), target_(std::move(target)) {
        constexpr std::size_t kNameBytes = 200;
        folder_ = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
        struct stat existing {};
        const bool replaces = ::stat(target_.c_str(), &existing) == 0;
        if (replaces && !S_ISREG(existing.st_mode)) fail_writing(shown_, kind_of(existing.st_mode));
        if (replaces && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0)
            fail_writing(shown_, reason(errno));

        std::string prefix(1, '.');
        prefix.append(target_.filename().string(), 0, kNameBytes).push_back('.');
        remove_leftovers(folder_, prefix);
        while (!file_)
            create(prefix);
        if (replaces && ::fchmod(file_.get(), existing.st_mode & 07777U) != 0) {
            const int error = errno;
            discard();
            fail_writing(shown_, reason(error));
        }
        buffer_.reserve(kBufferBytes);
    }
    ~TemporaryFile() { discard(); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    void write(std::span<const std::byte> bytes) {
        if (buffer_.size() + bytes.size() > kBufferBytes) flush();
        if (bytes.size() >= kBufferBytes) {
            write_through(bytes);
        } else {
            buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
        }
    }

    void commit() {
        flush();
        if (retry([&] { return ::fsync(file_.get()); }) != 0) fail_writing(shown_, reason(errno));
        // The lock goes with the descriptor, so the name is given away first.
        if (::rename(path_.c_str(), target_.c_str()) != 0) fail_writing(shown_, reason(errno));
        path_.clear();
        if (file_.close() != 0 && errno != EINTR) fail_writing(shown_, reason(errno));
        const Descriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        // Some file systems cannot sync a folder, and a folder may be writable but not readable: the rename
        // stands in both cases.
        if (folder && retry([&] { return ::fsync(folder.get()); }) != 0 && errno != EINVAL &&
            errno != EROFS) {
            throw IoError("'" + shown_.string() +
                          "' is written, but its folder could not be synced: " + reason(errno));
        }
    }

  private:
    void create(const std::string& prefix) {
        path_ = folder_ / (prefix + unique_digits() + std::string(kSuffixEnd));
        Descriptor file(retry([&] {
            return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        }));
        if (!file) {
            const int error = errno;
            path_.clear();
            if (error == EEXIST) return;
            if (error == ENOENT) fail_writing(shown_, "the folder '" + folder_.string() + "' does not exist");
            fail_writing(shown_, reason(error));
        }
        // Between creation and lock another writer may have taken the file for a leftover: then try again. A
        // file system without locks gives an error other than EWOULDBLOCK and is used without.
        const bool taken = ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        struct stat made {};
        if (taken || (::fstat(file.get(), &made) == 0 && made.st_nlink == 0)) {
            path_.clear();
            return;
        }
        file_ = std::move(file);
    }

    void flush() {
        write_through(buffer_);
        buffer_.clear();
    }

    void write_through(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            const ssize_t written = retry(
                [&] { return ::write(file_.get(), bytes.data(), std::min(bytes.size(), kLargestTransfer)); });
            if (written <= 0) fail_writing(shown_, reason(written < 0 ? errno : EIO));
            bytes = bytes.subspan(static_cast<std::size_t>(written));
        }
    }

    void discard() {
        if (!path_.empty()) ::unlink(path_.c_str());
        path_.clear();
        file_.reset();
    }

    fs::path shown_;
    fs::path target_;
    fs::path folder_;
    fs::path path_;
    Descriptor file_;
    std::vector<std::byte> buffer_;
};

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
    // Without O_NONBLOCK, opening a pipe waits for a writer.
    Descriptor file(
        retry([&] { return ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); }));
    if (!file) {
        const int error = errno;
        struct stat status {};
        if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
            fail_reading(path_, kind_of(status.st_mode));
        }
        fail_reading(path_, reason(error));
    }
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) fail_reading(path_, reason(errno));
    if (!S_ISREG(status.st_mode)) fail_reading(path_, kind_of(status.st_mode));
    size_ = static_cast<std::uint64_t>(status.st_size);
    descriptor_ = file.release();
}

InputFile::~InputFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> into) const {
    const std::uint64_t end = offset + into.size();
    if (end < offset || end > size_) {
        fail_reading(path_, "bytes " + std::to_string(offset) + " to " + std::to_string(end) +
                                " are asked for, the file has " + std::to_string(size_));
    }
    while (!into.empty()) {
        const ssize_t got = retry([&] {
            return ::pread(descriptor_, into.data(), std::min(into.size(), kLargestTransfer),
                           static_cast<off_t>(offset));
        });
        if (got < 0) fail_reading(path_, reason(errno));
        if (got == 0) {
            fail_reading(path_, "it ends at byte " + std::to_string(offset) + " though it had " +
                                    std::to_string(size_) + " when it was opened");
        }
        into = into.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
}

std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t limit) {
    const InputFile file(path);
    if (file.size() > limit) {
        fail_reading(path, "it has " + std::to_string(file.size()) + " bytes, more than the " +
                               std::to_string(limit) + " that are expected at most");
    }
    std::vector<std::byte> content(static_cast<std::size_t>(file.size()));
    file.read_at(0, content);
    return content;
}

void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const FileSink&)>& writer) {
    TemporaryFile file(path, resolve_target(path));
    writer([&](std::span<const std::byte> bytes) { file.write(bytes); });
    file.commit();
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content) {
    write_file_atomically(path, [&](const FileSink& sink) { sink(content); });
}

}  // namespace fulcrum
