#include "core/ops/augment.h"

#include "core/threads.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/ops/elements.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

using namespace fulcrum;
using Catch::Matchers::ContainsSubstring;
using fulcrum::test::for_each_device;
using fulcrum::test::kNaN;
using fulcrum::test::read_by_strides;

namespace {

/// A table under which every byte is its own value, shifted by the channel: byte 7 of channel 2 reads 2007.
NormalizationTable byte_table() {
    NormalizationTable table{};
    for (std::size_t c = 0; c < 3; ++c) {
        for (std::size_t v = 0; v < 256; ++v)
            table[c][v] = static_cast<float>(1000 * c + v);
    }
    return table;
}

/// Bytes that differ from pixel to pixel and are never 0, which the padding is.
Tensor stored_images(std::int64_t count, std::int64_t height, std::int64_t width, Device device) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count * 3 * height * width));
    RandomStream random(123, 0);
    for (std::uint8_t& byte : bytes)
        byte = static_cast<std::uint8_t>(1 + random.below(255));
    return from_data<std::uint8_t>(bytes, {count, 3, height, width}, {.dtype = DType::u8, .device = device});
}

Tensor index_list(const std::vector<std::int64_t>& values, Device device) {
    return from_data<std::int64_t>(values, {static_cast<std::int64_t>(values.size())},
                                   {.dtype = DType::i64, .device = device});
}

/// The definition of `AugmentParams`, pixel by pixel.
std::vector<double> augmented_by_definition(const std::vector<double>& image, std::int64_t place,
                                            std::int64_t height, std::int64_t width,
                                            const AugmentParams& params, const NormalizationTable& table) {
    const auto words = random_words(params.seed, params.stream, static_cast<std::uint64_t>(place));
    const std::int64_t range = 2 * params.crop_padding + 1;
    const std::int64_t top = static_cast<std::int64_t>(words[0]) % range;
    const std::int64_t left = static_cast<std::int64_t>(words[1]) % range;
    const std::int64_t hole_y = static_cast<std::int64_t>(words[3] >> 16) % height - params.cutout / 2;
    const std::int64_t hole_x = static_cast<std::int64_t>(words[3] & 0xffffU) % width - params.cutout / 2;
    std::vector<double> result;
    for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t y = 0; y < height; ++y) {
            for (std::int64_t x = 0; x < width; ++x) {
                const std::int64_t mirrored = params.flip && (words[2] & 1U) != 0 ? width - 1 - x : x;
                const std::int64_t from_y = y + top - params.crop_padding;
                const std::int64_t from_x = mirrored + left - params.crop_padding;
                const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
                const double byte =
                    inside ? image[static_cast<std::size_t>((c * height + from_y) * width + from_x)] : 0.0;
                const bool hole =
                    y >= hole_y && y < hole_y + params.cutout && x >= hole_x && x < hole_x + params.cutout;
                result.push_back(hole ? 0.0
                                      : table[static_cast<std::size_t>(c)][static_cast<std::size_t>(byte)]);
            }
        }
    }
    return result;
}

}  // namespace

TEST_CASE("the normalisation table holds (v / 255 - mean) / std, rounded once") {
    const NormalizationTable table =
        make_normalization_table({0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616});
    CHECK(table[0][0] == static_cast<float>(-0.4914 / 0.2470));
    CHECK(table[1][255] == static_cast<float>((1.0 - 0.4822) / 0.2435));
    CHECK(table[2][128] == static_cast<float>((128.0 / 255.0 - 0.4465) / 0.2616));
}

TEST_CASE("with nothing switched on the images are gathered and normalised") {
    for_each_device([](Device device) {
        const Tensor images = stored_images(5, 4, 6, device);
        const NormalizationTable table = make_normalization_table({0.5, 0.25, 0.0}, {0.5, 0.25, 1.0});
        const std::vector<std::int64_t> places{4, 0, 0, 2};
        const Tensor batch = augment(images, index_list(places, device), table, {});
        CHECK(batch.shape() == Shape{4, 3, 4, 6});
        CHECK(batch.dtype() == DType::f32);
        CHECK(batch.is_channels_last());
        const auto bytes = read_by_strides(images);
        const auto values = read_by_strides(batch);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::size_t channel = i / 24 % 3;
            const auto byte = bytes[static_cast<std::size_t>(places[i / 72]) * 72 + i % 72];
            CHECK(values[i] == table[channel][static_cast<std::size_t>(byte)]);
        }
    });
}

TEST_CASE("a flip mirrors columns, not rows, image by image") {
    for_each_device([](Device device) {
        // Both images hold {1,2,3; 4,5,6; 7,8,9} in each channel.
        std::vector<std::uint8_t> bytes;
        for (int plane = 0; plane < 40 * 3; ++plane) {
            for (std::uint8_t v = 1; v <= 9; ++v)
                bytes.push_back(v);
        }
        const Tensor images =
            from_data<std::uint8_t>(bytes, {40, 3, 3, 3}, {.dtype = DType::u8, .device = device});
        std::vector<std::int64_t> places(40);
        std::iota(places.begin(), places.end(), 0);
        const AugmentParams params{.flip = true, .seed = 4, .stream = 2};
        const auto values =
            read_by_strides(augment(images, index_list(places, device), byte_table(), params));
        const std::vector<double> plain{1, 2, 3, 4, 5, 6, 7, 8, 9};
        const std::vector<double> mirrored{3, 2, 1, 6, 5, 4, 9, 8, 7};
        int flips = 0;
        for (std::size_t n = 0; n < 40; ++n) {
            const bool flip = (random_words(4, 2, n)[2] & 1U) != 0;
            flips += flip ? 1 : 0;
            const std::vector<double> first(values.begin() + static_cast<std::ptrdiff_t>(n) * 27,
                                            values.begin() + static_cast<std::ptrdiff_t>(n) * 27 + 9);
            CHECK(first == (flip ? mirrored : plain));
        }
        CHECK(flips > 8);
        CHECK(flips < 32);
    });
}

TEST_CASE("crop, flip and cutout follow the documented words in any combination") {
    for_each_device([](Device device) {
        const std::int64_t height = 7;
        const std::int64_t width = 10;
        const std::int64_t count = 30;
        const Tensor images = stored_images(count, height, width, device);
        const auto bytes = read_by_strides(images);
        std::vector<std::int64_t> places(static_cast<std::size_t>(count));
        std::iota(places.begin(), places.end(), 0);
        for (const std::int64_t padding : {0, 1, 4, 15}) {
            for (const bool flip : {false, true}) {
                for (const std::int64_t cutout : {0, 1, 4, 5, 40}) {
                    INFO("padding " << padding << " flip " << flip << " cutout " << cutout);
                    const AugmentParams params{
                        .crop_padding = padding, .flip = flip, .cutout = cutout, .seed = 99, .stream = 7};
                    const auto values =
                        read_by_strides(augment(images, index_list(places, device), byte_table(), params));
                    const std::size_t size = static_cast<std::size_t>(3 * height * width);
                    for (std::size_t n = 0; n < places.size(); ++n) {
                        const auto at = static_cast<std::ptrdiff_t>(n * size);
                        const std::vector<double> image(
                            bytes.begin() + at, bytes.begin() + at + static_cast<std::ptrdiff_t>(size));
                        const std::vector<double> result(
                            values.begin() + at, values.begin() + at + static_cast<std::ptrdiff_t>(size));
                        REQUIRE(result == augmented_by_definition(image, places[n], height, width, params,
                                                                  byte_table()));
                    }
                }
            }
        }
    });
}

TEST_CASE("the cutout is a square of the mean, clipped at the border") {
    for_each_device([](Device device) {
        const Tensor images = stored_images(50, 32, 32, device);
        std::vector<std::int64_t> places(50);
        std::iota(places.begin(), places.end(), 0);
        // No byte maps to 0 in this table, except for byte 0, which the images do not hold.
        const AugmentParams params{.cutout = 8, .seed = 1, .stream = 1};
        const auto values =
            read_by_strides(augment(images, index_list(places, device), byte_table(), params));
        for (std::size_t n = 0; n < 50; ++n) {
            const auto words = random_words(1, 1, n);
            const auto inside = [](std::uint32_t centre) {
                int length = 0;
                for (int place = static_cast<int>(centre % 32) - 4; place < static_cast<int>(centre % 32) + 4;
                     ++place) {
                    length += place >= 0 && place < 32 ? 1 : 0;
                }
                return length;
            };
            int zeros = 0;
            for (std::size_t i = 0; i < 3072; ++i)
                zeros += values[n * 3072 + i] == 0.0 ? 1 : 0;
            CHECK(zeros == 3 * inside(words[3] >> 16) * inside(words[3] & 0xffffU));
        }
    });
}

TEST_CASE("an image's transformation does not depend on its batch or on the threads") {
    const int before = num_threads();
    for_each_device([](Device device) {
        const Tensor images = stored_images(100, 8, 8, device);
        const AugmentParams params{.crop_padding = 2, .flip = true, .cutout = 3, .seed = 5, .stream = 6};
        std::vector<std::int64_t> places(100);
        std::iota(places.rbegin(), places.rend(), 0);
        set_num_threads(1);
        const auto together =
            read_by_strides(augment(images, index_list(places, device), byte_table(), params));
        set_num_threads(3);
        CHECK(read_by_strides(augment(images, index_list(places, device), byte_table(), params)) == together);
        const auto alone = read_by_strides(augment(images, index_list({70}, device), byte_table(), params));
        const auto at = static_cast<std::ptrdiff_t>(29 * 192);
        CHECK(alone == std::vector<double>(together.begin() + at, together.begin() + at + 192));
        AugmentParams other = params;
        other.stream = 7;
        CHECK(read_by_strides(augment(images, index_list(places, device), byte_table(), other)) != together);
    });
    set_num_threads(before);
}

TEST_CASE("bf16 batches are the f32 ones, rounded") {
    for_each_device([](Device device) {
        const Tensor images = stored_images(6, 9, 9, device);
        const NormalizationTable table =
            make_normalization_table({0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616});
        const AugmentParams params{.crop_padding = 2, .flip = true, .cutout = 4, .seed = 3, .stream = 1};
        const Tensor indices = index_list({5, 1, 3}, device);
        const Tensor batch = augment(images, indices, table, params, DType::bf16);
        CHECK(batch.dtype() == DType::bf16);
        CHECK(batch.is_channels_last());
        CHECK(read_by_strides(batch) ==
              read_by_strides(augment(images, indices, table, params).to(DType::bf16)));
    });
}

TEST_CASE("an empty batch and a batch of one") {
    for_each_device([](Device device) {
        const Tensor images = stored_images(2, 5, 5, device);
        CHECK(augment(images, index_list({}, device), byte_table(), {}).shape() == Shape{0, 3, 5, 5});
        CHECK(augment(images, index_list({1}, device), byte_table(), {}).shape() == Shape{1, 3, 5, 5});
    });
}

TEST_CASE("a bad index is an error that names it and its place") {
    for_each_device([](Device device) {
        const Tensor images = stored_images(4, 5, 5, device);
        for (const std::int64_t bad : {std::int64_t{4}, std::int64_t{-1}, std::int64_t{1} << 40}) {
            CHECK_THROWS_AS(augment(images, index_list({0, 3, bad}, device), byte_table(), {}), ValueError);
        }
        CHECK_THROWS_WITH(augment(images, index_list({0, 3, 4}, device), byte_table(), {}),
                          ContainsSubstring("augment: index 4 at position 2 is outside the 4 images"));
        CHECK(augment(images, index_list({3}, device), byte_table(), {}).numel() == 75);
    });
}

TEST_CASE("augment refuses wrong shapes, types and amounts by name") {
    for_each_device([](Device device) {
        const Tensor images = stored_images(4, 5, 5, device);
        const Tensor indices = index_list({0}, device);
        const NormalizationTable table = byte_table();
        CHECK_THROWS_AS(augment(images.to(DType::f32), indices, table, {}), DTypeError);
        CHECK_THROWS_AS(
            augment(zeros({4, 1, 5, 5}, {.dtype = DType::u8, .device = device}), indices, table, {}),
            ShapeError);
        CHECK_THROWS_WITH(augment(images.contiguous(MemoryFormat::channels_last), indices, table, {}),
                          ContainsSubstring("planar"));
        CHECK_THROWS_AS(augment(images, indices.to(DType::i32), table, {}), DTypeError);
        CHECK_THROWS_AS(augment(images, zeros({1, 1}, {.dtype = DType::i64, .device = device}), table, {}),
                        ShapeError);
        CHECK_THROWS_AS(augment(images, indices, table, {}, DType::f64), DTypeError);
        CHECK_THROWS_AS(augment(images, indices, table, {.crop_padding = -1}), ValueError);
        CHECK_THROWS_WITH(augment(images, indices, table, {.cutout = -2}), ContainsSubstring("cutout is -2"));
        CHECK_THROWS_AS(augment(Tensor(), indices, table, {}), ValueError);
        CHECK_THROWS_AS(augment(images, Tensor(), table, {}), ValueError);
        CHECK_THROWS_AS(make_normalization_table({0, 0, 0}, {1, 0, 1}), ValueError);
        CHECK_THROWS_WITH(make_normalization_table({0, 0, 0}, {1, 1, kNaN}), ContainsSubstring("channel 2"));
    });
}
