#pragma once

/// \file
/// CIFAR-10's binary files (Krizhevsky, "Learning multiple layers of features from tiny images", 2009):
/// records of one label byte and 3,072 planar pixel bytes. Nothing is handed out before everything was
/// checked; memory is bounded by the files' own length.

#include "data/dataset.h"

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fulcrum::data {

/// Bytes of one record: the label and the image.
inline constexpr std::size_t kCifar10RecordBytes = 1 + kImageBytes;
/// Most records in one file of the official layout; the official files hold exactly so many.
inline constexpr std::int64_t kCifar10FileRecords = 10'000;
/// The training files, in order.
inline constexpr std::array<std::string_view, 5> kCifar10TrainFiles{
    "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
/// The test file.
inline constexpr std::string_view kCifar10TestFile = "test_batch.bin";
/// The file of class names, one a line.
inline constexpr std::string_view kCifar10NamesFile = "batches.meta.txt";
/// The folder that the official archive unpacks to.
inline constexpr std::string_view kCifar10Folder = "cifar-10-batches-bin";
/// The statistics that published CIFAR-10 recipes normalise with.
inline constexpr Normalization kCifar10Normalization{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};

/// `airplane`, `automobile`, ..., `truck`: the official names, in label order.
const std::vector<std::string>& cifar10_class_names();

/// Reads records from memory.
/// \param bytes a whole file. \param name what to call it in messages, usually its path.
/// \return the images and labels in file order, named `cifar10`, on the CPU.
/// \throws IoError when there are no records, when the size is no multiple of 3,073 (saying so when the bytes
/// look like gzip or an HTML page), or when a label exceeds 9 (naming record and label).
ImageDataset parse_cifar10(std::span<const std::byte> bytes, const std::string& name);

/// Reads one file of any number of records. \throws IoError as `parse_cifar10`, and when `path` is missing,
/// not a regular file or unreadable.
ImageDataset read_cifar10_file(const std::filesystem::path& path);

/// The folder that holds the six files: `dir` itself or `dir/cifar-10-batches-bin`. It may lack some of them.
/// \throws IoError when `dir` does not exist, is no folder, or when no CIFAR-10 file is in either place,
/// naming the way out.
std::filesystem::path find_cifar10(const std::filesystem::path& dir);

/// Reads the five training files and the test file in `find_cifar10(dir)`. Files with fewer records than the
/// official ones are accepted (`describe` tells the count). Class names come from `batches.meta.txt` where it
/// is there: a set written from `make_synthetic` is recognised by them and named `synthetic`, one with other
/// names `custom`. \throws IoError as `read_cifar10_file`, and for missing files (naming them all), a file of
/// more than 10,000 records, or a names file that does not hold ten names.
DatasetPair load_cifar10(const std::filesystem::path& dir);

/// Writes a set in the official layout into `dir` (made when missing): the training images spread over the
/// five files in order, the test file, and the names. Each file is written whole or not at all. \throws
/// ValueError unless there are 5..50,000 training and 1..10,000 test images and ten class names, IoError when
/// a file cannot be written.
void write_cifar10(const std::filesystem::path& dir, const ImageDataset& train, const ImageDataset& test);

}  // namespace fulcrum::data
