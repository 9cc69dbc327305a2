#include "data/dataset.h"

#include "core/error.h"
#include "data/synthetic.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <cstdint>
#include <vector>

namespace fulcrum::data {

TEST_CASE("a subset is the beginning of a set and shares its memory") {
    const ImageDataset set = make_synthetic(1, 20, 0).train;
    const ImageDataset part = set.subset(7);
    CHECK(part.count() == 7);
    CHECK(part.images.shape() == Shape{7, 3, 32, 32});
    CHECK(part.images.raw_data() == set.images.raw_data());
    CHECK(part.labels.raw_data() == set.labels.raw_data());
    CHECK(part.name == set.name);
    CHECK(part.synthetic);
    CHECK(part.class_names == set.class_names);
    CHECK_NOTHROW(part.check());
    CHECK(set.subset(0).count() == 0);
    CHECK(set.subset(20).count() == 20);
    CHECK_THROWS_AS(set.subset(21), ValueError);
    CHECK_THROWS_AS(set.subset(-1), ValueError);
    CHECK(ImageDataset{}.count() == 0);
}

TEST_CASE("a set keeps its bytes on every device") {
    const ImageDataset set = make_synthetic(1, 10, 0).train;
    test::for_each_device([&](Device device) {
        const ImageDataset there = set.to(device);
        CHECK(there.images.device() == device);
        CHECK(there.labels.device() == device);
        CHECK_NOTHROW(there.check());
        CHECK(there.images.to_vector<std::uint8_t>() == set.images.to_vector<std::uint8_t>());
        CHECK(there.labels.to_vector<std::int64_t>() == set.labels.to_vector<std::int64_t>());
    });
}

TEST_CASE("a set that is not what it should be is refused by name") {
    const ImageDataset good = make_synthetic(1, 4, 0).train;
    ImageDataset bad = good;
    SECTION("nothing in it") {
        bad.images = Tensor();
        CHECK_THROWS_AS(bad.check(), ShapeError);
    }
    SECTION("wrong type of images") {
        bad.images = zeros({4, 3, 32, 32});
        CHECK_THROWS_AS(bad.check(), DTypeError);
    }
    SECTION("wrong type of labels") {
        bad.labels = zeros({4}, {.dtype = DType::i32});
        CHECK_THROWS_AS(bad.check(), DTypeError);
    }
    SECTION("wrong size of images") {
        bad.images = zeros({4, 3, 28, 28}, {.dtype = DType::u8});
        CHECK_THROWS_AS(bad.check(), ShapeError);
    }
    SECTION("a scalar for images") {
        bad.images = zeros({}, {.dtype = DType::u8});
        CHECK_THROWS_AS(bad.check(), ShapeError);
    }
    SECTION("channels-last images") {
        bad.images = zeros({4, 3, 32, 32}, {.dtype = DType::u8, .format = MemoryFormat::channels_last});
        CHECK_THROWS_AS(bad.check(), ShapeError);
    }
    SECTION("fewer labels than images") {
        bad.labels = zeros({3}, {.dtype = DType::i64});
        CHECK_THROWS_AS(bad.check(), ShapeError);
    }
    SECTION("a label without a class") {
        bad.labels = full({4}, 10, {.dtype = DType::i64});
        CHECK_THROWS_WITH(bad.check(), Catch::Matchers::ContainsSubstring("image 0 has label 10"));
    }
    SECTION("a negative label") {
        bad.labels = full({4}, -1, {.dtype = DType::i64});
        CHECK_THROWS_AS(bad.check(), ValueError);
    }
}

TEST_CASE("the line about a set tells its size and what it is not") {
    DatasetPair data = make_synthetic(1, 20, 10);
    CHECK(describe(data) ==
          "synthetic: 20 training and 10 test images of drawn shapes; this is not CIFAR-10");
    data.train.synthetic = data.test.synthetic = false;
    data.train.name = data.test.name = "cifar10";
    CHECK(describe(data) ==
          "cifar10: 20 training and 10 test images, fewer than the official 50000 and 10000");
    data.train.labels = zeros({50000}, {.dtype = DType::i64});
    data.test.labels = zeros({10000}, {.dtype = DType::i64});
    CHECK(describe(data) == "cifar10: 50000 training and 10000 test images");
}

TEST_CASE("mean and deviation are taken per channel over all pixels") {
    ImageDataset set = make_synthetic(1, 2, 0).train;
    set.images = empty({2, 3, 32, 32}, {.dtype = DType::u8});
    auto* pixels = set.images.data<std::uint8_t>();
    // Red is 0 and 100 in turns, green is 255, blue is 10 in one image and 30 in the other.
    for (std::size_t i = 0; i < 2 * kImageBytes; ++i) {
        const std::size_t channel = i / 1024 % 3;
        const int blue = i < kImageBytes ? 10 : 30;
        pixels[i] = static_cast<std::uint8_t>(channel == 0 ? i % 2 * 100 : channel == 1 ? 255 : blue);
    }
    const Normalization n = measure_normalization(set);
    CHECK(n.mean[0] == Catch::Approx(50.0 / 255));
    CHECK(n.std[0] == Catch::Approx(50.0 / 255));
    CHECK(n.mean[1] == 1.0);
    CHECK(n.std[1] == 1.0);
    CHECK(n.mean[2] == Catch::Approx(20.0 / 255));
    CHECK(n.std[2] == Catch::Approx(10.0 / 255));
    CHECK_THROWS_AS(measure_normalization(set.subset(0)), ValueError);
}

}  // namespace fulcrum::data
