#include "data/synthetic.h"

#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "data/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

namespace fulcrum::data {

namespace {

// The numbers of a set come from streams at 3 * 2^62 and up: bit 61 tells test from training, bit 60 the
// order of the labels from the pixels of an image.
constexpr std::uint64_t kStreams = std::uint64_t{3} << 62;
constexpr std::uint64_t kTestStreams = std::uint64_t{1} << 61;
constexpr std::uint64_t kLabelStreams = std::uint64_t{1} << 60;
/// Images that a thread draws before it asks for more; a multiple of the ten that share a shuffle of labels.
constexpr std::int64_t kChunk = 50;

/// Draws images `begin..end-1` of a split; `begin` is a multiple of ten.
void draw_images(std::uint64_t seed, std::uint64_t split, std::int64_t begin, std::int64_t end,
                 std::uint8_t* images, std::int64_t* labels) {
    std::array<std::int64_t, kShapeKinds> kinds{};
    for (std::int64_t i = begin; i < end; ++i) {
        const auto place = static_cast<std::size_t>(i % kShapeKinds);
        if (place == 0) {
            for (std::size_t k = 0; k < kinds.size(); ++k)
                kinds[k] = static_cast<std::int64_t>(k);
            RandomStream order(seed, split + kLabelStreams + static_cast<std::uint64_t>(i / kShapeKinds));
            for (std::size_t k = kinds.size(); k > 1; --k) {
                std::swap(kinds[k - 1], kinds[order.below(static_cast<std::uint32_t>(k))]);
            }
        }
        labels[i] = kinds[place];
        RandomStream random(seed, split + static_cast<std::uint64_t>(i));
        draw_shape(static_cast<ShapeKind>(kinds[place]), random,
                   std::span<std::uint8_t, kImageBytes>(images + i * std::int64_t{kImageBytes}, kImageBytes));
    }
}

ImageDataset make_split(std::uint64_t seed, std::uint64_t split, std::int64_t count) {
    ImageDataset set;
    set.images = empty({count, kImageChannels, kImageSide, kImageSide}, {.dtype = DType::u8});
    set.labels = empty({count}, {.dtype = DType::i64});
    set.class_names = synthetic_class_names();
    set.name = "synthetic";
    set.synthetic = true;
    if (count == 0) return set;

    auto* images = set.images.data<std::uint8_t>();
    auto* labels = set.labels.data<std::int64_t>();
    std::atomic<std::int64_t> next{0};
    const auto work = [&] {
        for (std::int64_t begin = next.fetch_add(kChunk); begin < count; begin = next.fetch_add(kChunk)) {
            draw_images(seed, split, begin, std::min(begin + kChunk, count), images, labels);
        }
    };
    std::vector<std::jthread> helpers;
    const std::int64_t useful = std::min<std::int64_t>(num_threads(), (count + kChunk - 1) / kChunk);
    try {
        for (std::int64_t i = 1; i < useful; ++i)
            helpers.emplace_back(work);
    } catch (const std::system_error&) {
        // The system gives no more threads: those that run, and this one, draw everything.
    }
    work();
    return set;
}

}  // namespace

const std::vector<std::string>& synthetic_class_names() {
    static const std::vector<std::string> names{"circle", "square",   "triangle",  "star",  "cross",
                                                "ring",   "crescent", "hourglass", "arrow", "bars"};
    return names;
}

DatasetPair make_synthetic(std::uint64_t seed, std::int64_t train_count, std::int64_t test_count) {
    if (train_count < 0 || test_count < 0) {
        throw ValueError(
            fmt::format("make_synthetic: {} training and {} test images; counts must not be negative",
                        train_count, test_count));
    }
    return {make_split(seed, kStreams, train_count), make_split(seed, kStreams + kTestStreams, test_count)};
}

}  // namespace fulcrum::data
