#include "data/loader.h"

#include "core/error.h"
#include "data/sampler.h"
#include "data/synthetic.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fulcrum::data {

namespace {

/// A set whose image i is all `i` in red, `2 i` in green and 7 in blue, with label i % 10.
ImageDataset numbered(std::int64_t count) {
    ImageDataset set = make_synthetic(1, 0, 0).train;
    set.images = empty({count, 3, 32, 32}, {.dtype = DType::u8});
    set.labels = empty({count}, {.dtype = DType::i64});
    auto* pixels = set.images.data<std::uint8_t>();
    for (std::int64_t i = 0; i < count; ++i) {
        set.labels.data<std::int64_t>()[i] = i % 10;
        for (int k = 0; k < 3072; ++k) {
            const std::int64_t value = k < 1024 ? i : k < 2048 ? 2 * i : 7;
            *pixels++ = static_cast<std::uint8_t>(value % 256);
        }
    }
    return set;
}

/// What one batch holds, in comparable form.
struct Content {
    std::vector<float> images;
    std::vector<std::int64_t> labels;

    friend bool operator==(const Content&, const Content&) = default;
};

Content content(const Batch& batch) {
    return {batch.images.to_vector<float>(), batch.labels.to_vector<std::int64_t>()};
}

std::vector<Content> read_epoch(DataLoader& loader) {
    std::vector<Content> batches;
    while (const auto batch = loader.next())
        batches.push_back(content(*batch));
    return batches;
}

/// The places of a `numbered` set in the order that one epoch of an unaugmented, unnormalised loader visits.
std::vector<std::int64_t> read_places(DataLoader& loader) {
    std::vector<std::int64_t> places;
    while (const auto batch = loader.next()) {
        const std::vector<float> values = batch->images.to_vector<float>();
        for (std::size_t i = 0; i < static_cast<std::size_t>(batch->count); ++i) {
            places.push_back(std::llround(values[i * kImageBytes] * 255.0F));
        }
    }
    return places;
}

/// Everything switched on that makes batches differ.
LoaderOptions augmented(std::uint64_t seed) {
    LoaderOptions options;
    options.batch_size = 8;
    options.shuffle = true;
    options.augment = {.crop_padding = 4, .flip = true, .cutout = 8};
    options.normalization = {{0.5, 0.4, 0.3}, {0.25, 0.2, 0.3}};
    options.seed = seed;
    return options;
}

}  // namespace

TEST_CASE("batches are normalised, channels-last and carry their labels") {
    LoaderOptions options;
    options.batch_size = 4;
    options.normalization = {{0.5, 0.4, 0.3}, {0.25, 0.2, 0.3}};
    for (const int workers : {0, 1}) {
        options.workers = workers;
        DataLoader loader(numbered(6), options);
        const auto batch = loader.next();
        REQUIRE(batch);
        CHECK(batch->count == 4);
        CHECK(batch->images.shape() == Shape{4, 3, 32, 32});
        CHECK(batch->images.is_channels_last());
        CHECK(batch->images.dtype() == DType::f32);
        CHECK(batch->labels.dtype() == DType::i64);
        CHECK(batch->labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 3});
        const std::vector<float> values = batch->images.to_vector<float>();
        CHECK(values[3072] == static_cast<float>((1 / 255.0 - 0.5) / 0.25));
        CHECK(values[3072 + 1024] == static_cast<float>((2 / 255.0 - 0.4) / 0.2));
        CHECK(values[3072 + 2048] == static_cast<float>((7 / 255.0 - 0.3) / 0.3));
    }
}

TEST_CASE("bf16 batches are the rounded f32 ones") {
    LoaderOptions options = augmented(3);
    DataLoader plain(numbered(8), options);
    options.dtype = DType::bf16;
    DataLoader half(numbered(8), options);
    const auto batch = half.next();
    REQUIRE(batch);
    CHECK(batch->images.dtype() == DType::bf16);
    CHECK(batch->images.to_vector<float>() == plain.next()->images.to(DType::bf16).to_vector<float>());
}

TEST_CASE("the last partial batch is kept unless it is dropped") {
    struct Case {
        std::int64_t count, batch_size;
        std::vector<std::int64_t> kept;
    };
    const std::vector<Case> cases{{5, 2, {2, 2, 1}},    {672, 100, {100, 100, 100, 100, 100, 100, 72}},
                                  {672, 672, {672}},    {3, 8, {3}},
                                  {4, 1, {1, 1, 1, 1}}, {0, 4, {}}};
    for (const Case& c : cases) {
        for (const bool drop : {false, true}) {
            for (const int workers : {0, 2}) {
                std::vector<std::int64_t> expected = c.kept;
                if (drop) std::erase_if(expected, [&](std::int64_t n) { return n < c.batch_size; });
                LoaderOptions options;
                options.batch_size = c.batch_size;
                options.drop_last = drop;
                options.workers = workers;
                DataLoader loader(numbered(c.count), options);
                std::vector<std::int64_t> counts;
                std::int64_t total = 0;
                while (const auto batch = loader.next()) {
                    CHECK(batch->images.size(0) == batch->count);
                    CHECK(batch->labels.size(0) == batch->count);
                    counts.push_back(batch->count);
                    total += batch->count;
                }
                CHECK(counts == expected);
                CHECK(loader.size() == static_cast<std::int64_t>(expected.size()));
                CHECK(loader.images_per_epoch() == total);
            }
        }
    }
}

TEST_CASE("every epoch visits every image once in the sampler's order, with its label") {
    LoaderOptions options;
    options.batch_size = 4;
    options.shuffle = true;
    options.seed = 1;
    options.workers = GENERATE(0, 2);
    DataLoader loader(numbered(20), options);
    std::set<std::vector<std::int64_t>> orders;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        CHECK(loader.position() == LoaderPosition{epoch, 0});
        const std::vector<std::int64_t> places = read_places(loader);
        CHECK(places == epoch_order(20, 1, epoch, true));
        orders.insert(places);
    }
    CHECK(orders.size() == 3);
    loader.set_position({0, 0});
    while (const auto batch = loader.next()) {
        const std::vector<float> values = batch->images.to_vector<float>();
        const std::vector<std::int64_t> labels = batch->labels.to_vector<std::int64_t>();
        for (std::size_t i = 0; i < labels.size(); ++i) {
            CHECK(std::llround(values[i * kImageBytes] * 255.0F) % 10 == labels[i]);
        }
    }
}

TEST_CASE("batches do not depend on workers or on how far ahead they prepare") {
    const ImageDataset set = make_synthetic(7, 50, 0).train;
    DataLoader alone(set, augmented(5));
    const std::vector<Content> first = read_epoch(alone), second = read_epoch(alone);
    REQUIRE(first.size() == 7);
    CHECK(first != second);
    for (const int workers : {1, 2, 4}) {
        for (const int prefetch : {1, 3, 16}) {
            LoaderOptions options = augmented(5);
            options.workers = workers;
            options.prefetch = prefetch;
            DataLoader loader(set, options);
            CHECK(read_epoch(loader) == first);
            CHECK(read_epoch(loader) == second);
        }
    }
}

TEST_CASE("an image is augmented by its place in the set, whatever the batch size") {
    const ImageDataset set = make_synthetic(7, 30, 0).train;
    std::vector<std::vector<float>> epochs;
    for (const std::int64_t batch_size : {1, 7, 30}) {
        LoaderOptions options = augmented(5);
        options.batch_size = batch_size;
        DataLoader loader(set, options);
        std::vector<float> values;
        for (const Content& batch : read_epoch(loader)) {
            values.insert(values.end(), batch.images.begin(), batch.images.end());
        }
        epochs.push_back(std::move(values));
    }
    CHECK(epochs[0] == epochs[1]);
    CHECK(epochs[0] == epochs[2]);
}

TEST_CASE("a resumed loader gives what the uninterrupted one gave") {
    const ImageDataset set = make_synthetic(7, 20, 0).train;
    LoaderOptions options = augmented(1);
    options.batch_size = 4;
    options.workers = GENERATE(0, 2);
    DataLoader straight(set, options);
    std::vector<Content> batches;
    std::vector<LoaderPosition> positions;
    for (int epoch = 0; epoch < 3; ++epoch) {
        positions.push_back(straight.position());
        while (const auto batch = straight.next()) {
            batches.push_back(content(*batch));
            positions.push_back(straight.position());
        }
        positions.pop_back();
    }
    REQUIRE(batches.size() == 15);
    REQUIRE(positions.size() == 15);
    for (std::size_t from = 0; from < batches.size(); from += 2) {
        DataLoader resumed(set, options);
        resumed.set_position(positions[from]);
        CHECK(resumed.position() == positions[from]);
        std::vector<Content> rest;
        while (rest.size() < batches.size() - from) {
            if (const auto batch = resumed.next()) rest.push_back(content(*batch));
        }
        CHECK(std::equal(rest.begin(), rest.end(), batches.begin() + static_cast<std::ptrdiff_t>(from)));
    }
}

TEST_CASE("the position tells what comes next, also around the end of an epoch") {
    LoaderOptions options;
    options.batch_size = 4;
    options.workers = GENERATE(0, 2);
    DataLoader loader(numbered(6), options);
    CHECK(loader.position() == LoaderPosition{0, 0});
    CHECK(loader.next());
    CHECK(loader.next());
    CHECK(loader.position() == LoaderPosition{0, 2});
    CHECK_FALSE(loader.next());
    CHECK(loader.position() == LoaderPosition{1, 0});
    loader.set_position({4, 2});
    CHECK_FALSE(loader.next());
    CHECK(loader.position() == LoaderPosition{5, 0});
    CHECK_THROWS_AS(loader.set_position({0, 3}), ValueError);
    CHECK_THROWS_AS(loader.set_position({0, -1}), ValueError);
    CHECK(loader.position() == LoaderPosition{5, 0});
}

TEST_CASE("jumping about while workers are busy leaves no stale batch") {
    const ImageDataset set = make_synthetic(7, 40, 0).train;
    LoaderOptions options = augmented(2);
    options.batch_size = 4;
    DataLoader reference(set, options);
    options.workers = 3;
    options.prefetch = 5;
    DataLoader loader(set, options);
    for (std::uint64_t jump = 0; jump < 40; ++jump) {
        const LoaderPosition to{jump % 3, static_cast<std::int64_t>(jump * 7 % 10)};
        reference.set_position(to);
        loader.set_position(to);
        CHECK(content(*loader.next()) == content(*reference.next()));
    }
}

TEST_CASE("what a worker throws comes out of next, and the loader goes on") {
    for (const int workers : {0, 1, 3}) {
        std::atomic<bool> broken{true};
        LoaderOptions options;
        options.batch_size = 2;
        options.workers = workers;
        options.transform = [&](Batch& batch) {
            if (broken && batch.labels.to_vector<std::int64_t>()[0] == 4)
                throw ValueError("image 4 is cursed");
        };
        DataLoader loader(numbered(10), options);
        CHECK(loader.next());
        CHECK(loader.next());
        for (int attempt = 0; attempt < 2; ++attempt) {
            CHECK_THROWS_WITH(loader.next(), "image 4 is cursed");
            CHECK(loader.position() == LoaderPosition{0, 2});
        }
        broken = false;
        const auto batch = loader.next();
        REQUIRE(batch);
        CHECK(batch->labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{4, 5});
        CHECK(loader.next());
        CHECK(loader.next());
        CHECK_FALSE(loader.next());
    }
}

TEST_CASE("a transform of the user's is applied to every batch") {
    LoaderOptions options;
    options.batch_size = 4;
    options.workers = GENERATE(0, 2);
    options.transform = [](Batch& batch) { batch.images = full(batch.images.shape(), 3.0); };
    DataLoader loader(numbered(8), options);
    int batches = 0;
    while (const auto batch = loader.next()) {
        CHECK(batch->images.to_vector<float>()[5] == 3.0F);
        ++batches;
    }
    CHECK(batches == 2);
}

TEST_CASE("workers prepare no more batches than asked, and none before the first is wanted") {
    std::atomic<int> made{0};
    LoaderOptions options;
    options.batch_size = 1;
    options.workers = 2;
    options.prefetch = 3;
    options.transform = [&](Batch&) { ++made; };
    DataLoader loader(numbered(50), options);
    CHECK(made == 0);
    for (int taken = 1; taken <= 10; ++taken) {
        REQUIRE(loader.next());
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        CHECK(made >= taken);
        CHECK(made <= taken + options.prefetch);
    }
}

TEST_CASE("a loader can be dropped at any moment") {
    const ImageDataset set = make_synthetic(7, 64, 0).train;
    for (int taken = 0; taken < 9; ++taken) {
        LoaderOptions options = augmented(2);
        options.workers = 1 + taken % 4;
        options.prefetch = 2;
        DataLoader loader(set, options);
        for (int i = 0; i < taken; ++i)
            loader.next();
        DataLoader moved = std::move(loader);
        CHECK(moved.position().epoch == (taken == 9 ? 1U : 0U));
    }
}

TEST_CASE("the time spent in next is measured") {
    LoaderOptions options;
    options.batch_size = 4;
    options.workers = GENERATE(0, 1);
    options.transform = [](Batch&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    DataLoader loader(numbered(4), options);
    CHECK(loader.seconds_waiting() == 0.0);
    loader.next();
    CHECK(loader.seconds_waiting() >= 0.004);
}

TEST_CASE("batches are handed out on the device that was asked for, from wherever the set lives") {
    const ImageDataset set = make_synthetic(7, 20, 0).train;
    DataLoader reference(set, augmented(4));
    const std::vector<Content> expected = read_epoch(reference);
    test::for_each_device([&](Device device) {
        for (const bool resident : {false, true}) {
            for (const int workers : {0, 2}) {
                LoaderOptions options = augmented(4);
                options.device = device;
                options.workers = workers;
                DataLoader loader(resident ? set.to(device) : set, options);
                std::vector<Content> batches;
                while (const auto batch = loader.next()) {
                    CHECK(batch->images.device() == device);
                    CHECK(batch->labels.device() == device);
                    batches.push_back(content(*batch));
                }
                CHECK(batches == expected);
            }
        }
    });
}

TEST_CASE("options that make no sense are refused by name") {
    const ImageDataset set = numbered(4);
    const auto refusal = [&](auto&& change) {
        LoaderOptions options;
        change(options);
        try {
            DataLoader loader(set, options);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    using Catch::Matchers::ContainsSubstring;
    CHECK_THAT(refusal([](LoaderOptions& o) { o.batch_size = 0; }), ContainsSubstring("batch_size is 0"));
    CHECK_THAT(refusal([](LoaderOptions& o) { o.workers = -1; }), ContainsSubstring("workers is -1"));
    CHECK_THAT(refusal([](LoaderOptions& o) { o.prefetch = 0; }), ContainsSubstring("prefetch is 0"));
    CHECK_THAT(refusal([](LoaderOptions& o) { o.augment.crop_padding = -2; }),
               ContainsSubstring("crop_padding is -2"));
    CHECK_THAT(refusal([](LoaderOptions& o) { o.augment.cutout = 65; }), ContainsSubstring("cutout is 65"));
    CHECK_THAT(refusal([](LoaderOptions& o) { o.dtype = DType::i64; }), ContainsSubstring("dtype is i64"));
    CHECK_THAT(refusal([](LoaderOptions& o) { o.normalization.std[1] = 0; }), !ContainsSubstring("accepted"));
    CHECK_THAT(refusal([](LoaderOptions& o) {
                   o.device = {DeviceType::cpu, 3};
               }),
               !ContainsSubstring("accepted"));
    ImageDataset bad = set;
    bad.labels = full({4}, 10, {.dtype = DType::i64});
    CHECK_THROWS_AS(DataLoader(bad, LoaderOptions{}), ValueError);
    CHECK_THROWS_AS(DataLoader(ImageDataset{}, LoaderOptions{}), ShapeError);
}

}  // namespace fulcrum::data
