#include "data/dataset.h"

#include "core/error.h"
#include "core/ops/shape.h"

#include <fmt/format.h>

#include <cmath>

namespace fulcrum::data {

namespace {

/// What the official files hold.
constexpr std::int64_t kOfficialTrain = 50'000, kOfficialTest = 10'000;

/// Sums over one channel of every image.
struct ChannelSums {
    std::uint64_t values = 0, squares = 0;
};

}  // namespace

std::int64_t ImageDataset::count() const {
    return labels.defined() ? labels.size(0) : 0;
}

ImageDataset ImageDataset::subset(std::int64_t n) const {
    if (n < 0 || n > count()) {
        throw ValueError(fmt::format("{}: a subset of {} images was asked of {}", name, n, count()));
    }
    ImageDataset result = *this;
    if (n == count()) return result;
    result.images = narrow(images, 0, 0, n);
    result.labels = narrow(labels, 0, 0, n);
    return result;
}

ImageDataset ImageDataset::to(Device device) const {
    ImageDataset result = *this;
    if (images.defined()) result.images = images.to(device);
    if (labels.defined()) result.labels = labels.to(device);
    return result;
}

void ImageDataset::check() const {
    if (!images.defined() || !labels.defined()) {
        throw ShapeError(
            fmt::format("data set '{}': images and labels are needed, and one is undefined", name));
    }
    if (images.dtype() != DType::u8 || labels.dtype() != DType::i64) {
        throw DTypeError(fmt::format("data set '{}': images are {} and labels {}; u8 and i64 are needed",
                                     name, name_of(images.dtype()), name_of(labels.dtype())));
    }
    const std::int64_t n = images.dim() == 0 ? 0 : images.size(0);
    if (images.shape() != Shape{n, kImageChannels, kImageSide, kImageSide} || !images.is_contiguous()) {
        throw ShapeError(
            fmt::format("data set '{}': images have shape {}; contiguous [count, 3, 32, 32] is needed", name,
                        to_string(images.shape())));
    }
    if (labels.shape() != Shape{n} || !labels.is_contiguous()) {
        throw ShapeError(fmt::format("data set '{}': {} images but labels of shape {}", name, n,
                                     to_string(labels.shape())));
    }
    if (images.device() != labels.device()) {
        throw DeviceError(fmt::format("data set '{}': images are on {} but labels on {}", name,
                                      to_string(images.device()), to_string(labels.device())));
    }
    const Tensor host = labels.to(kCpu);
    const auto classes = static_cast<std::int64_t>(class_names.size());
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t label = host.data<std::int64_t>()[i];
        if (label < 0 || label >= classes) {
            throw ValueError(fmt::format("data set '{}': image {} has label {}, but there are {} class names",
                                         name, i, label, classes));
        }
    }
}

std::string describe(const DatasetPair& data) {
    const std::int64_t train = data.train.count(), test = data.test.count();
    std::string line = fmt::format("{}: {} training and {} test images", data.train.name, train, test);
    if (data.train.synthetic) return line + " of drawn shapes; this is not CIFAR-10";
    if (data.train.name == "cifar10" && (train < kOfficialTrain || test < kOfficialTest)) {
        line += fmt::format(", fewer than the official {} and {}", kOfficialTrain, kOfficialTest);
    }
    return line;
}

Normalization measure_normalization(const ImageDataset& dataset) {
    dataset.check();
    if (dataset.count() == 0) {
        throw ValueError(fmt::format("measure_normalization: data set '{}' is empty", dataset.name));
    }
    const Tensor images = dataset.images.to(kCpu);
    const auto* pixel = images.data<std::uint8_t>();
    constexpr std::size_t kPlane = kImageBytes / 3;
    std::array<ChannelSums, 3> sums;
    for (std::int64_t i = 0; i < dataset.count(); ++i) {
        for (ChannelSums& sum : sums) {
            for (std::size_t k = 0; k < kPlane; ++k, ++pixel) {
                sum.values += *pixel;
                sum.squares += std::uint64_t{*pixel} * *pixel;
            }
        }
    }
    Normalization result;
    const double n = static_cast<double>(dataset.count()) * static_cast<double>(kPlane);
    for (std::size_t c = 0; c < 3; ++c) {
        const double mean = static_cast<double>(sums[c].values) / n;
        const double variance = static_cast<double>(sums[c].squares) / n - mean * mean;
        result.mean[c] = mean / 255.0;
        result.std[c] = variance > 1e-9 ? std::sqrt(variance) / 255.0 : 1.0;
    }
    return result;
}

}  // namespace fulcrum::data
