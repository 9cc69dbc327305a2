#pragma once

/// \file
/// A labelled set of 32x32 colour images in memory, as CIFAR-10's files store them.

#include "core/tensor.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fulcrum::data {

/// Height and width of every image.
inline constexpr std::int64_t kImageSide = 32;
/// Red, green and blue, in this order.
inline constexpr std::int64_t kImageChannels = 3;
/// Bytes of one image: 3 x 32 x 32.
inline constexpr std::size_t kImageBytes = 3072;

/// Images with one label each. Copying it shares the tensors.
struct ImageDataset {
    Tensor images;                         ///< u8 `[count, 3, 32, 32]`, contiguous: planar red, green, blue
    Tensor labels;                         ///< i64 `[count]`, each an index into `class_names`
    std::vector<std::string> class_names;  ///< one per class
    std::string name;                      ///< `cifar10`, `synthetic`, or `custom`
    bool synthetic = false;                ///< drawn by `make_synthetic`, not photographed

    /// Number of images; 0 for a default-made set.
    std::int64_t count() const;
    /// The first `n` images, as views. \throws ValueError unless `0 <= n <= count()`.
    ImageDataset subset(std::int64_t n) const;
    /// The same set with images and labels on `device`. \throws DeviceError.
    ImageDataset to(Device device) const;
    /// Checks what the comments above promise (shapes, types, memory order, one device, labels in range;
    /// labels are read through the host). \throws ShapeError, DTypeError, DeviceError or ValueError, each
    /// naming `name`.
    void check() const;
};

/// A training set and the test set that goes with it.
struct DatasetPair {
    ImageDataset train;
    ImageDataset test;
};

/// One line for logs: what the set is and how many images it has, with a remark when a set named `cifar10`
/// has fewer than the official 50,000 and 10,000, and a plain warning when the images are synthetic.
std::string describe(const DatasetPair& data);

/// Per-channel mean and standard deviation of pixel values scaled to 0..1.
struct Normalization {
    std::array<double, 3> mean{0.0, 0.0, 0.0};
    std::array<double, 3> std{1.0, 1.0, 1.0};

    friend bool operator==(const Normalization&, const Normalization&) = default;
};

/// Mean and (population) standard deviation over all pixels of all images; the sums are exact integers, so
/// the result has the same bits on every machine. A channel without any spread gets deviation 1. \throws
/// ValueError when the set is empty.
Normalization measure_normalization(const ImageDataset& dataset);

}  // namespace fulcrum::data
