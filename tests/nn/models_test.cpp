#include "nn/models.h"

#include "core/autograd.h"
#include "nn/loss.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace fulcrum;
using Catch::Matchers::Contains;

namespace {

std::map<std::string, Shape> shapes_of(const nn::Module& model) {
    std::map<std::string, Shape> shapes;
    for (const auto& [name, tensor] : model.state_dict())
        shapes.emplace(name, tensor.shape());
    return shapes;
}

void expect_norm(std::map<std::string, Shape>& expected, const std::string& prefix, std::int64_t channels) {
    for (const char* name : {"weight", "bias", "running_mean", "running_var"})
        expected[prefix + "." + name] = {channels};
    expected[prefix + ".num_batches_tracked"] = {};
}

/// torchvision's names and shapes of a ResNet. \param kernels of a block's convolutions; their widths are the
/// stage's, the last one's times `expansion`.
std::map<std::string, Shape> torchvision_shapes(const std::vector<std::int64_t>& blocks,
                                                const std::vector<std::int64_t>& kernels,
                                                std::int64_t expansion, std::int64_t classes) {
    std::map<std::string, Shape> expected{{"conv1.weight", {64, 3, 7, 7}}};
    expect_norm(expected, "bn1", 64);
    std::int64_t channels = 64;
    for (std::size_t stage = 0; stage < 4; ++stage) {
        const std::int64_t width = 64LL << stage;
        for (std::int64_t block = 0; block < blocks[stage]; ++block) {
            const std::string prefix =
                "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
            std::int64_t in = channels;
            for (std::size_t k = 0; k < kernels.size(); ++k) {
                const std::int64_t out = k + 1 == kernels.size() ? width * expansion : width;
                const std::string number = std::to_string(k + 1);
                expected[prefix + "conv" + number + ".weight"] = {out, in, kernels[k], kernels[k]};
                expect_norm(expected, prefix + "bn" + number, out);
                in = out;
            }
            if (block == 0 && channels != in) {
                expected[prefix + "downsample.0.weight"] = {in, channels, 1, 1};
                expect_norm(expected, prefix + "downsample.1", in);
            }
            channels = in;
        }
    }
    expected["fc.weight"] = {classes, channels};
    expected["fc.bias"] = {classes};
    return expected;
}

}  // namespace

TEST_CASE("ResNet-18 has torchvision's names, shapes, order and counts", "[nn]") {
    CHECK(nn::resnet18({.num_classes = 1000})->parameter_count() == 11'689'512);
    const auto model = nn::resnet18({.num_classes = 10});
    CHECK(model->parameter_count() == 11'181'642);
    const auto state = model->state_dict();
    REQUIRE(state.size() == 122);
    CHECK(state[0].first == "conv1.weight");
    CHECK(state[1].first == "bn1.weight");
    CHECK(state[5].first == "bn1.num_batches_tracked");
    CHECK(state[6].first == "layer1.0.conv1.weight");
    CHECK(state[12].first == "layer1.0.conv2.weight");
    CHECK(state.back().first == "fc.bias");
    CHECK(shapes_of(*model) == torchvision_shapes({2, 2, 2, 2}, {3, 3}, 1, 10));
}

TEST_CASE("ResNet-50 has torchvision's names, shapes and counts", "[nn]") {
    CHECK(nn::resnet50({.num_classes = 1000})->parameter_count() == 25'557'032);
    const auto model = nn::resnet50({.num_classes = 10});
    CHECK(model->parameter_count() == 23'528'522);
    const auto shapes = shapes_of(*model);
    CHECK(shapes.size() == 320);
    CHECK(shapes == torchvision_shapes({3, 4, 6, 3}, {1, 3, 1}, 4, 10));
    CHECK(shapes.at("layer1.0.downsample.0.weight") == Shape{256, 64, 1, 1});
}

TEST_CASE("small_cnn has the study's layers", "[nn]") {
    CHECK(nn::small_cnn()->parameter_count() == 545'098);
    CHECK(shapes_of(*nn::small_cnn()) == std::map<std::string, Shape>{{"conv1.weight", {32, 3, 3, 3}},
                                                                      {"conv1.bias", {32}},
                                                                      {"conv2.weight", {64, 32, 3, 3}},
                                                                      {"conv2.bias", {64}},
                                                                      {"fc1.weight", {128, 4096}},
                                                                      {"fc1.bias", {128}},
                                                                      {"fc2.weight", {10, 128}},
                                                                      {"fc2.bias", {10}}});
}

TEST_CASE("the cifar stem keeps the resolution", "[nn]") {
    const auto model = nn::resnet18({.num_classes = 10, .stem = nn::Stem::cifar});
    CHECK(shapes_of(*model).at("conv1.weight") == Shape{64, 3, 3, 3});
    CHECK(model->parameter_count() == 11'181'642 - 64 * 3 * (49 - 9));
    try {
        (*model)(zeros({1, 1, 32, 32}));
        FAIL("one channel was accepted");
    } catch (const ShapeError& error) {
        CHECK_THAT(error.what(), Contains("(in conv1)"));
    }
    const NoGradGuard no_grad;
    CHECK((*model)(zeros({2, 3, 8, 8})).shape() == Shape{2, 10});
    CHECK(nn::parse_stem("cifar") == nn::Stem::cifar);
    CHECK(nn::name_of(nn::parse_stem("imagenet")) == "imagenet");
    CHECK_THROWS_AS(nn::parse_stem("Cifar"), ValueError);
}

TEST_CASE("models map a batch to logits on every device", "[nn]") {
    test::for_each_device([](Device device) {
        for (const std::string name : {"small_cnn", "resnet50"}) {
            INFO(name);
            const auto model = nn::make_model(name, {.num_classes = 3});
            model->to(device);
            model->eval();
            const NoGradGuard no_grad;
            for (const std::int64_t batch : {1, 2}) {
                const Tensor logits = (*model)(zeros({batch, 3, 32, 32}, {.device = device}));
                CHECK(logits.shape() == Shape{batch, 3});
                for (const float value : logits.to_vector<float>())
                    CHECK(std::isfinite(value));
            }
        }
    });
}

TEST_CASE("models refuse other inputs and class counts", "[nn]") {
    const auto small = nn::small_cnn();
    CHECK_THROWS_AS((*small)(zeros({1, 3, 28, 28})), ShapeError);
    CHECK_THROWS_AS((*small)(zeros({3, 32, 32})), ShapeError);
    CHECK_THROWS_AS(nn::resnet18({.num_classes = 0}), ValueError);
    CHECK_THROWS_AS(nn::small_cnn({.num_classes = -3}), ValueError);
}

TEST_CASE("the registry knows its models and takes more", "[nn]") {
    const auto names = nn::model_names();
    REQUIRE(names.size() >= 3);
    CHECK(std::vector<std::string>(names.begin(), names.begin() + 3) ==
          std::vector<std::string>{"small_cnn", "resnet18", "resnet50"});
    try {
        nn::make_model("resnet19");
        FAIL("an unknown model was made");
    } catch (const ValueError& error) {
        CHECK_THAT(error.what(), Contains("resnet19") && Contains("small_cnn, resnet18, resnet50"));
    }
    nn::register_model("my_cnn", [](const nn::ModelOptions& options) { return nn::small_cnn(options); });
    CHECK(nn::make_model("my_cnn", {.num_classes = 4})->parameter_count() == 545'098 - 6 * 129);
    CHECK_THROWS_AS(nn::register_model("my_cnn", nn::small_cnn), ValueError);
    CHECK_THROWS_AS(nn::register_model("", nn::small_cnn), ValueError);
    CHECK_THROWS_AS(nn::register_model("empty", {}), ValueError);
}

TEST_CASE("the same seed makes the same model", "[nn]") {
    const auto weights = [](std::uint64_t seed) {
        manual_seed(seed);
        const auto state = nn::small_cnn()->state_dict();
        return nn::find(state, "conv2.weight")->to_vector<float>();
    };
    CHECK(weights(7) == weights(7));
    CHECK(weights(7) != weights(8));
}

TEST_CASE("a bf16 batch trains f32 parameters", "[nn]") {
    manual_seed(2);
    const auto model = nn::resnet18({.stem = nn::Stem::cifar});
    const Tensor x = normal({2, 3, 8, 8}, 0.0, 1.0, {.dtype = DType::bf16});
    const Tensor logits = (*model)(x);
    CHECK(logits.dtype() == DType::bf16);
    nn::CrossEntropyLoss()(logits, tensor<std::int64_t>({1, 2}, {2})).backward();
    for (const auto& [name, parameter] : model->named_parameters()) {
        INFO(name);
        REQUIRE(parameter.grad().defined());
        CHECK(parameter.grad().dtype() == DType::f32);
    }
}
