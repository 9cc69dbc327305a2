#include "data/cifar10.h"

#include "core/error.h"
#include "core/file.h"
#include "data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <system_error>

namespace fulcrum::data {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWayOut = "fetch the set with data/download.sh, or use --data synthetic";
/// How many bytes of a file are looked at to tell what else it may be.
constexpr std::size_t kHeadBytes = 512;
/// Records that are read at once.
constexpr std::uint64_t kChunkRecords = 512;
/// Far more than ten names need.
constexpr std::size_t kNamesFileLimit = 4096;

bool starts_with(std::span<const std::byte> bytes, std::string_view text, std::size_t at = 0) {
    return bytes.size() >= at + text.size() && std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

/// What a file that holds no records seems to be, as the end of a message; empty when its first bytes tell
/// nothing.
std::string guess_kind(std::span<const std::byte> head) {
    if (starts_with(head, "\x1f\x8b")) return "; it is gzip-compressed: unpack it first";
    if (starts_with(head, "PK\x03\x04")) return "; it is a zip archive: unpack it first";
    if (starts_with(head, "ustar", 257)) return "; it is a tar archive: unpack it first";
    if (starts_with(head, "\x80\x02") || starts_with(head, "\x80\x03")) {
        return "; it seems to be the Python version of the set: the binary version is needed";
    }
    std::string text;
    for (const std::byte byte : head.first(std::min<std::size_t>(head.size(), 64))) {
        const int character = std::to_integer<int>(byte);
        if (text.empty() && std::isspace(character) != 0) continue;
        text.push_back(static_cast<char>(std::tolower(character)));
    }
    if (text.starts_with("<!doctype") || text.starts_with("<html") || text.starts_with("<?xml")) {
        return "; it is an HTML page, as servers send in place of a missing file";
    }
    return "";
}

/// Number of records in a file of `size` bytes that begins with `head`. \throws IoError unless it is whole.
std::int64_t count_records(std::uint64_t size, std::span<const std::byte> head, const std::string& name) {
    if (size == 0) throw IoError(fmt::format("cifar10: {} is empty: no records; {}", name, kWayOut));
    if (size % kCifar10RecordBytes != 0) {
        throw IoError(
            fmt::format("cifar10: {} has {} bytes, no multiple of {} (one label and {} pixel bytes): it is "
                        "truncated or no CIFAR-10 data file{}; {}",
                        name, size, kCifar10RecordBytes, kImageBytes, guess_kind(head), kWayOut));
    }
    return static_cast<std::int64_t>(size / kCifar10RecordBytes);
}

/// Splits whole records into images and labels. \param first the place of the first one, for messages.
void unpack_records(std::span<const std::byte> bytes, std::int64_t first, const std::string& name,
                    std::uint8_t* images, std::int64_t* labels) {
    const std::size_t count = bytes.size() / kCifar10RecordBytes;
    for (std::size_t i = 0; i < count; ++i) {
        const std::byte* record = bytes.data() + i * kCifar10RecordBytes;
        const int label = std::to_integer<int>(record[0]);
        if (label > 9) {
            const std::int64_t place = first + static_cast<std::int64_t>(i);
            throw IoError(
                fmt::format("cifar10: {}: record {} has label {}, outside 0..9: the file is damaged or "
                            "no CIFAR-10 data file{}; {}",
                            name, place, label, place == 0 ? guess_kind(bytes) : "", kWayOut));
        }
        labels[i] = label;
        std::memcpy(images + i * kImageBytes, record + 1, kImageBytes);
    }
}

/// A set of `count` images that are yet to be filled in.
ImageDataset make_dataset(std::int64_t count) {
    ImageDataset set;
    set.images = empty({count, kImageChannels, kImageSide, kImageSide}, {.dtype = DType::u8});
    set.labels = empty({count}, {.dtype = DType::i64});
    set.class_names = cifar10_class_names();
    set.name = "cifar10";
    return set;
}

/// A data file whose length was found right.
struct RecordFile {
    InputFile file;
    std::int64_t records;
};

RecordFile open_records(const fs::path& path) {
    InputFile file(path);
    std::vector<std::byte> head(std::min<std::uint64_t>(file.size(), kHeadBytes));
    file.read_at(0, head);
    const std::int64_t records = count_records(file.size(), head, path.string());
    return {std::move(file), records};
}

/// Reads all records of a file.
void read_records(const RecordFile& source, std::uint8_t* images, std::int64_t* labels) {
    const std::string name = source.file.path().string();
    const auto records = static_cast<std::uint64_t>(source.records);
    std::vector<std::byte> bytes(std::min(records, kChunkRecords) * kCifar10RecordBytes);
    for (std::uint64_t first = 0; first < records; first += kChunkRecords) {
        const std::uint64_t count = std::min(records - first, kChunkRecords);
        const auto chunk = std::span(bytes).first(count * kCifar10RecordBytes);
        source.file.read_at(first * kCifar10RecordBytes, chunk);
        unpack_records(chunk, static_cast<std::int64_t>(first), name, images + first * kImageBytes,
                       labels + first);
    }
}

/// Joins files into one set.
ImageDataset read_dataset(std::span<const RecordFile> files) {
    std::int64_t count = 0;
    for (const RecordFile& file : files)
        count += file.records;
    ImageDataset set = make_dataset(count);
    auto* images = set.images.data<std::uint8_t>();
    auto* labels = set.labels.data<std::int64_t>();
    for (const RecordFile& file : files) {
        read_records(file, images, labels);
        images += file.records * std::int64_t{kImageBytes};
        labels += file.records;
    }
    return set;
}

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

/// The six data files' names.
std::vector<std::string_view> data_file_names() {
    std::vector<std::string_view> names(kCifar10TrainFiles.begin(), kCifar10TrainFiles.end());
    names.push_back(kCifar10TestFile);
    return names;
}

bool has_data_files(const fs::path& folder) {
    return std::ranges::any_of(data_file_names(),
                               [&](std::string_view name) { return is_there(folder / name); });
}

/// The names in a folder's names file; the official ones when there is none.
std::vector<std::string> read_class_names(const fs::path& folder) {
    const fs::path path = folder / kCifar10NamesFile;
    if (!is_there(path)) return cifar10_class_names();
    std::vector<std::string> names(1);
    for (const std::byte byte : read_file(path, kNamesFileLimit)) {
        const char character = static_cast<char>(byte);
        if (character == '\n') {
            names.emplace_back();
        } else if (character != '\r') {
            names.back().push_back(character);
        }
    }
    while (!names.empty() && names.back().empty())
        names.pop_back();
    if (names.size() != 10 || std::ranges::any_of(names, &std::string::empty)) {
        throw IoError(fmt::format("cifar10: {} holds {} lines; ten class names, one a line, are needed; {}",
                                  path.string(), names.size(), kWayOut));
    }
    return names;
}

/// Names a set after its classes.
void identify(ImageDataset& set, const std::vector<std::string>& names) {
    set.class_names = names;
    set.synthetic = names == synthetic_class_names();
    set.name = set.synthetic ? "synthetic" : names == cifar10_class_names() ? "cifar10" : "custom";
}

void write_records(const fs::path& path, const Tensor& images, const Tensor& labels, std::int64_t begin,
                   std::int64_t end) {
    const auto* pixels = images.data<std::uint8_t>();
    const auto* label = labels.data<std::int64_t>();
    write_file_atomically(path, [&](const FileSink& sink) {
        std::vector<std::byte> bytes;
        bytes.reserve(kChunkRecords * kCifar10RecordBytes);
        for (std::int64_t i = begin; i < end; ++i) {
            bytes.push_back(static_cast<std::byte>(label[i]));
            const auto image = std::as_bytes(std::span(pixels + i * std::int64_t{kImageBytes}, kImageBytes));
            bytes.insert(bytes.end(), image.begin(), image.end());
            if (i + 1 == end || bytes.size() == kChunkRecords * kCifar10RecordBytes) {
                sink(bytes);
                bytes.clear();
            }
        }
    });
}

void check_writable(const ImageDataset& train, const ImageDataset& test) {
    train.check();
    test.check();
    const auto files = static_cast<std::int64_t>(kCifar10TrainFiles.size());
    if (train.count() < files || train.count() > files * kCifar10FileRecords || test.count() < 1 ||
        test.count() > kCifar10FileRecords) {
        throw ValueError(fmt::format(
            "write_cifar10: {} training and {} test images; the layout takes {}..{} and "
            "1..{}",
            train.count(), test.count(), files, files * kCifar10FileRecords, kCifar10FileRecords));
    }
    const auto usable = [](const std::string& name) {
        return !name.empty() && name.find_first_of("\r\n") == std::string::npos;
    };
    if (train.class_names != test.class_names || train.class_names.size() != 10 ||
        !std::ranges::all_of(train.class_names, usable)) {
        throw ValueError("write_cifar10: both sets need the same ten class names of one line each");
    }
}

}  // namespace

const std::vector<std::string>& cifar10_class_names() {
    static const std::vector<std::string> names{"airplane", "automobile", "bird",  "cat",  "deer",
                                                "dog",      "frog",       "horse", "ship", "truck"};
    return names;
}

ImageDataset parse_cifar10(std::span<const std::byte> bytes, const std::string& name) {
    const auto head = bytes.first(std::min(bytes.size(), kHeadBytes));
    ImageDataset set = make_dataset(count_records(bytes.size(), head, name));
    unpack_records(bytes, 0, name, set.images.data<std::uint8_t>(), set.labels.data<std::int64_t>());
    return set;
}

ImageDataset read_cifar10_file(const fs::path& path) {
    const RecordFile file = open_records(path);
    return read_dataset({&file, 1});
}

fs::path find_cifar10(const fs::path& dir) {
    std::error_code error;
    const fs::file_status status = fs::status(dir, error);
    if (!fs::exists(status)) {
        throw IoError(fmt::format("cifar10: there is no folder {}; {}", dir.string(), kWayOut));
    }
    if (!fs::is_directory(status)) {
        throw IoError(fmt::format("cifar10: {} is no folder: name the folder that holds {}; {}", dir.string(),
                                  kCifar10TestFile, kWayOut));
    }
    for (const fs::path& folder : {dir, dir / kCifar10Folder}) {
        if (has_data_files(folder)) return folder;
    }
    if (is_there(dir / "data_batch_1") || is_there(dir / "cifar-10-batches-py")) {
        throw IoError(
            fmt::format("cifar10: {} holds the Python version of the set: the binary version is needed; {}",
                        dir.string(), kWayOut));
    }
    throw IoError(
        fmt::format("cifar10: neither {} nor its {} holds data_batch_1.bin to data_batch_5.bin and {}; {}",
                    dir.string(), kCifar10Folder, kCifar10TestFile, kWayOut));
}

DatasetPair load_cifar10(const fs::path& dir) {
    const fs::path folder = find_cifar10(dir);
    std::string missing;
    for (const std::string_view name : data_file_names()) {
        if (!is_there(folder / name)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
    }
    if (!missing.empty()) {
        throw IoError(fmt::format("cifar10: {} lacks {}; {}", folder.string(), missing, kWayOut));
    }
    const std::vector<std::string> names = read_class_names(folder);

    // All lengths are checked before the first image is read.
    std::vector<RecordFile> files;
    for (const std::string_view name : data_file_names()) {
        files.push_back(open_records(folder / name));
        if (files.back().records > kCifar10FileRecords) {
            throw IoError(fmt::format("cifar10: {} holds {} records; a file of this set has at most {}; {}",
                                      files.back().file.path().string(), files.back().records,
                                      kCifar10FileRecords, kWayOut));
        }
    }
    const auto all = std::span<const RecordFile>(files);
    DatasetPair data{read_dataset(all.first(kCifar10TrainFiles.size())), read_dataset(all.last(1))};
    identify(data.train, names);
    identify(data.test, names);
    return data;
}

void write_cifar10(const fs::path& dir, const ImageDataset& train, const ImageDataset& test) {
    check_writable(train, test);
    std::error_code error;
    fs::create_directories(dir, error);
    if (error) {
        throw IoError(
            fmt::format("write_cifar10: cannot make the folder {}: {}", dir.string(), error.message()));
    }
    if (has_data_files(dir) && read_class_names(dir) != train.class_names) {
        throw IoError(
            fmt::format("write_cifar10: {} already holds a set with other class names, which would be "
                        "lost; choose another folder",
                        dir.string()));
    }
    // The names go first: a folder left unfinished is never taken for another set.
    const std::string names = fmt::format("{}\n", fmt::join(train.class_names, "\n"));
    write_file_atomically(dir / kCifar10NamesFile, std::as_bytes(std::span(names)));

    const auto files = static_cast<std::int64_t>(kCifar10TrainFiles.size());
    const Tensor images = train.images.to(kCpu), labels = train.labels.to(kCpu);
    for (std::int64_t i = 0; i < files; ++i) {
        write_records(dir / kCifar10TrainFiles[static_cast<std::size_t>(i)], images, labels,
                      train.count() * i / files, train.count() * (i + 1) / files);
    }
    write_records(dir / kCifar10TestFile, test.images.to(kCpu), test.labels.to(kCpu), 0, test.count());
}

}  // namespace fulcrum::data
