#include "core/file.h"

#include "core/error.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

#include <csignal>
#include <fcntl.h>
#include <functional>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fulcrum;
using namespace fulcrum::test;

namespace {

/// What the IoError that `action` raises says; fails the test when none is raised.
std::string io_error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const IoError& error) {
        return error.what();
    }
    FAIL("no IoError");
    return {};
}

std::string text_of(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// A file system of one megabyte, as long as it lives.
class SmallDisk {
  public:
    explicit SmallDisk(std::filesystem::path path) : path_(std::move(path)) {
        std::filesystem::create_directory(path_);
        mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") == 0;
    }
    ~SmallDisk() {
        if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    bool mounted() const { return mounted_; }

  private:
    std::filesystem::path path_;
    bool mounted_ = false;
};

/// Root may write anywhere: acts as nobody for a while.
class WithoutPrivileges {
  public:
    WithoutPrivileges() {
        if (::geteuid() == 0) dropped_ = ::seteuid(65534) == 0;
    }
    ~WithoutPrivileges() {
        if (dropped_ && ::seteuid(0) != 0) std::abort();
    }
    WithoutPrivileges(const WithoutPrivileges&) = delete;
    WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;

  private:
    bool dropped_ = false;
};

/// Files beyond `bytes` cannot be written while it lives.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;

  private:
    void (*handler_)(int);
    rlimit before_{};
};

}  // namespace

TEST_CASE("a file is read whole", "[file]") {
    const TempFolder folder;
    const std::string content("a\0b\xff\n", 5);
    spit(folder / "some", content);
    spit(folder / "none", "");
    CHECK(text_of(read_file(folder / "some")) == content);
    CHECK(read_file(folder / "none").empty());
    CHECK(text_of(read_file(folder / "some", 5)) == content);
    const std::string said = io_error_of([&] { read_file(folder / "some", 4); });
    CHECK(contains(said, "some"));
    CHECK(contains(said, "5 bytes"));
}

TEST_CASE("what is no readable file is refused by name and reason, without waiting", "[file]") {
    const TempFolder folder;
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK(contains(io_error_of([&] { read_file(folder.path()); }), "it is a folder"));
    CHECK(contains(io_error_of([&] { read_file(folder / "pipe"); }), "it is a pipe"));
    CHECK(contains(io_error_of([&] { read_file("/dev/null"); }), "it is a device"));
    const std::string missing = (folder / "absent.bin").string();
    CHECK(contains(io_error_of([&] { read_file(missing); }), "'" + missing + "': No such file"));
    spit(folder / "secret", "x");
    ::chmod((folder / "secret").c_str(), 0);
    ::chmod(folder.path().c_str(), 0755);
    const WithoutPrivileges nobody;
    CHECK(contains(io_error_of([&] { read_file(folder / "secret"); }), "Permission denied"));
}

TEST_CASE("parts of a file are read in place, never beyond its end", "[file]") {
    const TempFolder folder;
    spit(folder / "digits", "0123456789");
    InputFile opened(folder / "digits");
    const InputFile file(std::move(opened));
    CHECK(file.size() == 10);
    std::vector<std::byte> part(4);
    file.read_at(6, part);
    CHECK(text_of(part) == "6789");
    file.read_at(10, std::span<std::byte>());
    CHECK(contains(io_error_of([&] { file.read_at(7, part); }), "the file has 10"));
    CHECK(contains(io_error_of([&] { file.read_at(~std::uint64_t{0} - 1, part); }), "the file has 10"));
    std::filesystem::resize_file(folder / "digits", 8);
    CHECK(contains(io_error_of([&] { file.read_at(6, part); }), "ends at byte 8"));
}

TEST_CASE("a written file holds everything that was sent", "[file]") {
    const TempFolder folder;
    std::string expected;
    write_file_atomically(folder / "out", [&](const FileSink& sink) {
        for (std::size_t length : {0UL, 1UL, 1000UL, 300000UL, 7UL, 262144UL, 262143UL, 2UL}) {
            const std::string piece(length, static_cast<char>('a' + expected.size() % 26));
            sink(bytes_of(piece));
            expected += piece;
        }
    });
    CHECK((slurp(folder / "out") == expected));
    write_file_atomically(folder / "out", bytes_of("short"));
    CHECK(slurp(folder / "out") == "short");
    write_file_atomically(folder / "empty", std::span<const std::byte>());
    CHECK(folder.names() == std::vector<std::string>{"empty", "out"});
}

TEST_CASE("a writer that throws leaves the old file and no trace", "[file]") {
    const TempFolder folder;
    spit(folder / "kept", "old");
    for (const char* name : {"kept", "never"}) {
        CHECK_THROWS_AS(write_file_atomically(folder / name,
                                              [](const FileSink& sink) {
                                                  sink(bytes_of(std::string(1 << 20, 'x')));
                                                  throw std::runtime_error("changed my mind");
                                              }),
                        std::runtime_error);
    }
    CHECK(folder.names() == std::vector<std::string>{"kept"});
    CHECK(slurp(folder / "kept") == "old");
}

TEST_CASE("a full disk is named, the old file stays and nothing else is left", "[file]") {
    const TempFolder folder;
    const SmallDisk disk(folder / "disk");
    if (!disk.mounted()) {
        WARN("skipped: mounting a tmpfs is not permitted here");
        return;
    }
    const std::filesystem::path path = folder / "disk" / "state";
    write_file_atomically(path, bytes_of(std::string(400000, 'a')));
    const std::string said =
        io_error_of([&] { write_file_atomically(path, bytes_of(std::string(900000, 'b'))); });
    CHECK(contains(said, path.string()));
    CHECK(contains(said, "No space left on device"));
    CHECK((slurp(path) == std::string(400000, 'a')));
    CHECK(std::distance(std::filesystem::directory_iterator(folder / "disk"), {}) == 1);
}

TEST_CASE("a write that stops half-way is named and leaves the old file", "[file]") {
    const TempFolder folder;
    spit(folder / "kept", "old");
    std::string said;
    {
        const FileSizeLimit limit(100000);
        said =
            io_error_of([&] { write_file_atomically(folder / "kept", bytes_of(std::string(400000, 'b'))); });
    }
    CHECK(contains(said, "kept': File too large"));
    CHECK(slurp(folder / "kept") == "old");
    CHECK(folder.names() == std::vector<std::string>{"kept"});
}

TEST_CASE("what cannot be written to is refused by name and reason", "[file]") {
    const TempFolder folder;
    const auto refuse = [&](const std::filesystem::path& path) {
        return io_error_of([&] { write_file_atomically(path, bytes_of("new")); });
    };
    CHECK(contains(refuse(folder.path()), "it is a folder"));
    CHECK(contains(refuse(folder.path() / ""), "it is a folder"));
    CHECK(contains(refuse(""), "the path is empty"));
    CHECK(contains(refuse("/dev/null"), "it is a device"));
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK(contains(refuse(folder / "pipe"), "it is a pipe"));
    const std::string absent = (folder / "absent").string();
    CHECK(contains(refuse(folder / "absent" / "x"), "the folder '" + absent + "' does not exist"));
    spit(folder / "file", "");
    CHECK(contains(refuse(folder / "file" / "x"), "Not a directory"));
    std::filesystem::create_symlink("loop", folder / "loop");
    CHECK(contains(refuse(folder / "loop"), "symbolic links"));

    std::filesystem::create_directory(folder / "locked");
    spit(folder / "locked" / "x", "old");
    ::chmod((folder / "locked").c_str(), 0555);
    std::filesystem::create_directory(folder / "open");
    ::chmod((folder / "open").c_str(), 0777);
    spit(folder / "open" / "read-only", "old");
    ::chmod((folder / "open" / "read-only").c_str(), 0444);
    ::chmod(folder.path().c_str(), 0755);
    {
        const WithoutPrivileges nobody;
        CHECK(contains(refuse(folder / "locked" / "y"), "Permission denied"));
        CHECK(contains(refuse(folder / "locked" / "x"), "Permission denied"));
        CHECK(contains(refuse(folder / "open" / "read-only"), "Permission denied"));
    }
    ::chmod((folder / "locked").c_str(), 0755);
    CHECK(slurp(folder / "locked" / "x") == "old");
    CHECK(slurp(folder / "open" / "read-only") == "old");
    CHECK(folder.names() == std::vector<std::string>{"file", "locked", "loop", "open", "pipe"});
}

TEST_CASE("a symbolic link stays and its target is replaced", "[file]") {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "store");
    spit(folder / "store" / "real", "old");
    std::filesystem::create_symlink("store/real", folder / "link");
    std::filesystem::create_symlink("link", folder / "link-to-link");
    std::filesystem::create_symlink("store/later", folder / "dangling");
    write_file_atomically(folder / "link-to-link", bytes_of("new"));
    write_file_atomically(folder / "dangling", bytes_of("made"));
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(std::filesystem::is_symlink(folder / "link-to-link"));
    CHECK(slurp(folder / "store" / "real") == "new");
    CHECK(slurp(folder / "store" / "later") == "made");
}

TEST_CASE("an existing file keeps its permissions, a new one follows the mask", "[file]") {
    const TempFolder folder;
    const auto mode = [&](const char* name) {
        struct stat status {};
        ::stat((folder / name).c_str(), &status);
        return status.st_mode & 07777U;
    };
    spit(folder / "private", "old");
    ::chmod((folder / "private").c_str(), 0640);
    const mode_t mask = ::umask(027);
    write_file_atomically(folder / "private", bytes_of("new"));
    write_file_atomically(folder / "fresh", bytes_of("new"));
    ::umask(mask);
    CHECK(mode("private") == 0640U);
    CHECK(mode("fresh") == 0640U);
}

TEST_CASE("what a killed writer left is swept, what a live one holds is not", "[file]") {
    const TempFolder folder;
    spit(folder / ".state.0123456789abcdef.tmp", "left by a killed writer");
    spit(folder / ".state.fedcba9876543210.tmp", "being written");
    spit(folder / ".state.mine.tmp", "somebody's own");
    spit(folder / ".other.0123456789abcdef.tmp", "of another file");
    const int held = ::open((folder / ".state.fedcba9876543210.tmp").c_str(), O_RDWR);
    REQUIRE(::flock(held, LOCK_EX) == 0);
    write_file_atomically(folder / "state", bytes_of("new"));
    ::close(held);
    CHECK(folder.names() == std::vector<std::string>{".other.0123456789abcdef.tmp",
                                                     ".state.fedcba9876543210.tmp", ".state.mine.tmp",
                                                     "state"});
}

TEST_CASE("a reader sees the old content or the new, whoever else writes", "[file]") {
    const TempFolder folder;
    const std::filesystem::path path = folder / "state";
    write_file_atomically(path, bytes_of(std::string(5000, 'a')));
    // A write within a write: two writers of one path do not disturb each other, and the last to finish wins.
    write_file_atomically(path, [&](const FileSink& sink) {
        sink(bytes_of(std::string(300000, 'b')));
        CHECK((slurp(path) == std::string(5000, 'a')));
        write_file_atomically(path, bytes_of("inner"));
        CHECK(slurp(path) == "inner");
    });
    CHECK((slurp(path) == std::string(300000, 'b')));
    CHECK(folder.names() == std::vector<std::string>{"state"});
}

TEST_CASE("names as long as the file system allows can be written", "[file]") {
    const TempFolder folder;
    const std::string name(255, 'n');
    write_file_atomically(folder / name, bytes_of("x"));
    CHECK(folder.names() == std::vector<std::string>{name});
    CHECK(contains(io_error_of([&] { write_file_atomically(folder / (name + "n"), bytes_of("x")); }),
                   "File name too long"));
}
