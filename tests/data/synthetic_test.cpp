#include "data/synthetic.h"

#include "core/error.h"
#include "core/threads.h"
#include "data/shapes.h"
#include "tests/catch.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace fulcrum::data {

namespace {

/// FNV-1a (Fowler, Noll, Vo), 64 bits.
std::uint64_t hash_of(std::span<const std::uint8_t> bytes) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const std::uint8_t byte : bytes)
        hash = (hash ^ byte) * 0x100000001b3U;
    return hash;
}

std::uint64_t hash_of_images(const ImageDataset& set) {
    return hash_of({set.images.data<std::uint8_t>(), static_cast<std::size_t>(set.images.numel())});
}

std::vector<std::uint8_t> pixels_of(const ImageDataset& set) {
    return set.images.to_vector<std::uint8_t>();
}

}  // namespace

TEST_CASE("the synthetic set has the same bytes on every machine") {
    const DatasetPair data = make_synthetic(1, 100, 50);
    CHECK(hash_of_images(data.train) == 0x1b02024819a62898U);
    CHECK(hash_of_images(data.test) == 0x9137c4537941dbe7U);
    const std::vector<std::int64_t> first = data.train.subset(10).labels.to_vector<std::int64_t>();
    CHECK(first == std::vector<std::int64_t>{3, 5, 1, 9, 8, 0, 4, 7, 6, 2});
}

TEST_CASE("the synthetic set says what it is") {
    const DatasetPair data = make_synthetic(1, 10, 10);
    for (const ImageDataset* set : {&data.train, &data.test}) {
        CHECK(set->name == "synthetic");
        CHECK(set->synthetic);
        CHECK(set->class_names == synthetic_class_names());
        CHECK_NOTHROW(set->check());
    }
    CHECK(synthetic_class_names().size() == kShapeKinds);
}

TEST_CASE("each class appears once in every ten synthetic images") {
    const DatasetPair data = make_synthetic(5, 1000, 200);
    for (const ImageDataset* set : {&data.train, &data.test}) {
        const std::vector<std::int64_t> labels = set->labels.to_vector<std::int64_t>();
        bool balanced = true;
        for (std::size_t begin = 0; begin < labels.size(); begin += 10) {
            std::array<int, 10> seen{};
            for (std::size_t i = begin; i < begin + 10; ++i)
                ++seen[static_cast<std::size_t>(labels[i])];
            balanced = balanced && std::ranges::all_of(seen, [](int times) { return times == 1; });
        }
        CHECK(balanced);
        CHECK_FALSE(std::equal(labels.begin(), labels.begin() + 10, labels.begin() + 10));
    }
}

TEST_CASE("a smaller synthetic set is the beginning of a larger one") {
    const DatasetPair large = make_synthetic(2, 120, 60), small = make_synthetic(2, 33, 7);
    CHECK(pixels_of(small.train) == pixels_of(large.train.subset(33)));
    CHECK(pixels_of(small.test) == pixels_of(large.test.subset(7)));
    CHECK(small.train.labels.to_vector<std::int64_t>() ==
          large.train.subset(33).labels.to_vector<std::int64_t>());
}

TEST_CASE("seed, split and place each give another synthetic image") {
    const DatasetPair data = make_synthetic(1, 50, 50), other = make_synthetic(2, 50, 50);
    std::vector<std::uint64_t> hashes;
    for (const ImageDataset* set : {&data.train, &data.test, &other.train, &other.test}) {
        for (std::size_t i = 0; i < 50; ++i) {
            hashes.push_back(hash_of({set->images.data<std::uint8_t>() + i * kImageBytes, kImageBytes}));
        }
    }
    std::sort(hashes.begin(), hashes.end());
    CHECK(std::adjacent_find(hashes.begin(), hashes.end()) == hashes.end());
}

TEST_CASE("threads do not change the synthetic set") {
    const int before = num_threads();
    set_num_threads(1);
    const std::vector<std::uint8_t> alone = pixels_of(make_synthetic(4, 170, 0).train);
    set_num_threads(3);
    CHECK(pixels_of(make_synthetic(4, 170, 0).train) == alone);
    set_num_threads(before);
}

TEST_CASE("every outline fits the unit circle and differs from the others") {
    std::vector<std::uint64_t> outlines;
    for (int kind = 0; kind < kShapeKinds; ++kind) {
        std::vector<std::uint8_t> inside;
        bool fits = true;
        int points = 0;
        for (int y = -15; y <= 15; ++y) {
            for (int x = -15; x <= 15; ++x) {
                const double u = x / 12.0, v = y / 12.0;
                const bool in = inside_shape(static_cast<ShapeKind>(kind), u, v);
                fits = fits && (!in || u * u + v * v <= 1.01);
                points += in ? 1 : 0;
                inside.push_back(in ? 1 : 0);
            }
        }
        CHECK(fits);
        CHECK(points > 60);
        outlines.push_back(hash_of(inside));
    }
    std::sort(outlines.begin(), outlines.end());
    CHECK(std::adjacent_find(outlines.begin(), outlines.end()) == outlines.end());
}

TEST_CASE("an empty synthetic set is a set, a negative count is refused") {
    CHECK(make_synthetic(1, 0, 0).train.count() == 0);
    CHECK_NOTHROW(make_synthetic(1, 0, 0).train.check());
    CHECK_THROWS_AS(make_synthetic(1, -1, 10), ValueError);
    CHECK_THROWS_AS(make_synthetic(1, 10, -1), ValueError);
}

}  // namespace fulcrum::data
