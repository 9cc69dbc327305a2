#include "core/autograd.h"
#include "core/ops/activation.h"
#include "core/ops/batch_norm.h"
#include "core/ops/binary.h"
#include "core/ops/reduce.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/flatten.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/pool.h"
#include "nn/sequential.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <cmath>
#include <vector>

using namespace fulcrum;
using Catch::Approx;

namespace {

struct Moments {
    double mean = 0.0, deviation = 0.0, largest = 0.0;
};

Moments moments_of(const Tensor& tensor) {
    const std::vector<double> values = tensor.to_vector<double>();
    Moments moments;
    for (const double value : values) {
        moments.mean += value / static_cast<double>(values.size());
        moments.largest = std::max(moments.largest, std::abs(value));
    }
    for (const double value : values)
        moments.deviation +=
            (value - moments.mean) * (value - moments.mean) / static_cast<double>(values.size());
    moments.deviation = std::sqrt(moments.deviation);
    return moments;
}

}  // namespace

TEST_CASE("Conv2d keeps its weight tap-major under a logical OIHW shape", "[nn]") {
    const nn::Conv2d layer(nn::Conv2dOptions(4, 6, {3, 5}).groups(2).stride(2).padding({1, 2}));
    CHECK(layer.weight().shape() == Shape{6, 2, 3, 5});
    CHECK(layer.weight().strides() == tap_major_strides({6, 2, 3, 5}));
    CHECK(layer.bias().shape() == Shape{6});
    CHECK_FALSE(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).bias(false)).bias().defined());
}

TEST_CASE("Conv2d computes with its options", "[nn]") {
    test::for_each_device([](Device device) {
        nn::Conv2d layer(nn::Conv2dOptions(1, 1, 3).stride(2).padding(1));
        layer.to(device);
        nn::init_constant(layer.weight(), 1.0);
        nn::init_constant(layer.bias(), 0.5);
        const Tensor y = layer(ones({1, 1, 4, 4}, {.device = device}));
        CHECK(y.shape() == Shape{1, 1, 2, 2});
        CHECK(y.to_vector<float>() == std::vector<float>{4.5F, 6.5F, 6.5F, 9.5F});
    });
}

TEST_CASE("layers refuse options out of range", "[nn]") {
    using nn::Conv2d;
    using nn::Conv2dOptions;
    CHECK_THROWS_AS(Conv2d(Conv2dOptions(0, 1, 3)), ValueError);
    CHECK_THROWS_AS(Conv2d(Conv2dOptions(1, 1, 0)), ValueError);
    CHECK_THROWS_AS(Conv2d(Conv2dOptions(1, 1, 3).stride(0)), ValueError);
    CHECK_THROWS_AS(Conv2d(Conv2dOptions(1, 1, 3).padding(-1)), ValueError);
    CHECK_THROWS_AS(Conv2d(Conv2dOptions(1, 1, 3).dilation({1, 0})), ValueError);
    CHECK_THROWS_AS(Conv2d(Conv2dOptions(4, 6, 3).groups(4)), ValueError);
    CHECK_THROWS_AS(Conv2d(Conv2dOptions(4, 6, 3).groups(0)), ValueError);
    CHECK_THROWS_AS(nn::Linear(0, 3), ValueError);
    CHECK_THROWS_AS(nn::Linear(3, -1), ValueError);
    CHECK_THROWS_AS(nn::BatchNorm2d(0), ValueError);
    CHECK_THROWS_AS(nn::BatchNorm2d(nn::BatchNormOptions(3).eps(-1.0)), ValueError);
    CHECK_THROWS_AS(nn::BatchNorm2d(nn::BatchNormOptions(3).momentum(1.5)), ValueError);
    CHECK_THROWS_AS(nn::Dropout(1.5), ValueError);
    CHECK_THROWS_AS(nn::Dropout(std::nan("")), ValueError);
    CHECK_THROWS_AS(nn::CrossEntropyLoss(-0.1), ValueError);
    CHECK_THROWS_AS(nn::Sequential().at(0), ValueError);
}

TEST_CASE("default weights are uniform within 1 / sqrt(fan_in)", "[nn]") {
    manual_seed(3);
    const nn::Conv2d conv(nn::Conv2dOptions(16, 32, 3));
    const double bound = 1.0 / std::sqrt(16.0 * 9.0);
    const Moments weight = moments_of(conv.weight());
    CHECK(weight.largest <= bound);
    CHECK(weight.largest > 0.99 * bound);
    CHECK(weight.mean == Approx(0.0).margin(0.03 * bound));
    CHECK(weight.deviation == Approx(bound / std::sqrt(3.0)).epsilon(0.03));
    CHECK(moments_of(conv.bias()).largest <= bound);
    const nn::Linear linear(64, 256);
    CHECK(moments_of(linear.weight()).largest <= 0.125);
    CHECK(moments_of(linear.weight()).largest > 0.124);
}

TEST_CASE("residual weights are normal with deviation sqrt(2 / fan_out)", "[nn]") {
    manual_seed(4);
    const nn::Conv2d conv(nn::Conv2dOptions(16, 32, 3).init(nn::WeightInit::kaiming_normal_fan_out));
    const double deviation = std::sqrt(2.0 / (32.0 * 9.0));
    const Moments weight = moments_of(conv.weight());
    CHECK(weight.deviation == Approx(deviation).epsilon(0.03));
    CHECK(weight.mean == Approx(0.0).margin(0.05 * deviation));
    CHECK(weight.largest > 3.0 * deviation);
}

TEST_CASE("initial values are drawn in logical order whatever the layout and the device", "[nn]") {
    const Shape shape{4, 3, 2, 5};
    const auto draw = [&](const TensorOptions& options) {
        Generator generator(9);
        const Tensor weight = empty(shape, options);
        nn::init_weight(weight, nn::WeightInit::kaiming_uniform, generator);
        CHECK(generator.state().next_stream == 1);
        return weight.to_vector<float>();
    };
    const std::vector<float> expected = draw({});
    test::for_each_device([&](Device device) {
        CHECK(draw({.device = device, .format = MemoryFormat::tap_major}) == expected);
        CHECK(draw({.device = device, .format = MemoryFormat::channels_last}) == expected);
    });
    CHECK_THROWS_AS(nn::fans({3}), ShapeError);
    CHECK(nn::fans(shape).in == 30);
    CHECK(nn::fans(shape).out == 40);
}

TEST_CASE("the same seed gives the same layer", "[nn]") {
    manual_seed(11);
    const nn::Linear first(5, 7);
    manual_seed(11);
    const nn::Linear second(5, 7);
    const nn::Linear third(5, 7);
    CHECK(first.weight().to_vector<float>() == second.weight().to_vector<float>());
    CHECK(first.bias().to_vector<float>() == second.bias().to_vector<float>());
    CHECK(first.weight().to_vector<float>() != third.weight().to_vector<float>());
}

TEST_CASE("Linear applies weight and bias to the last dimension", "[nn]") {
    test::for_each_device([](Device device) {
        nn::Linear layer(2, 3);
        layer.to(device);
        layer.load_state_dict({{"weight", tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2})},
                               {"bias", tensor<float>({0.5F, 0, -1}, {3})}});
        const Tensor y = layer(tensor<float>({1, 10, 2, 20}, {2, 1, 2}, device));
        CHECK(y.shape() == Shape{2, 1, 3});
        CHECK(y.to_vector<float>() == std::vector<float>{21.5F, 43, 64, 42.5F, 86, 129});
    });
}

TEST_CASE("BatchNorm updates its statistics in training only", "[nn]") {
    test::for_each_device([](Device device) {
        nn::BatchNorm2d layer(nn::BatchNormOptions(4).momentum(1.0));
        layer.to(device);
        const Tensor x = tensor<float>({2, 15, 2, 1, 2, 17, 2, 1, -4, -2, -2, -1}, {3, 4, 1, 1}, device);
        const std::vector<float> y = layer(x).to_vector<float>();
        CHECK(y[0] == Approx(0.7071063));
        CHECK(y[8] == Approx(-1.4142127));
        const std::vector<double> mean = layer.running_mean().to_vector<double>();
        const std::vector<double> variance = layer.running_var().to_vector<double>();
        const std::vector<double> expected_mean{0.0, 10.0, 2.0 / 3.0, 1.0 / 3.0};
        const std::vector<double> expected_variance{12.0, 109.0, 16.0 / 3.0, 4.0 / 3.0};
        for (std::size_t c = 0; c < 4; ++c) {
            CHECK(mean[c] == Approx(expected_mean[c]).margin(1e-6));
            CHECK(variance[c] == Approx(expected_variance[c]));
        }
        CHECK(layer.num_batches_tracked().item() == 1.0);
        layer.eval();
        CHECK(layer(x).to_vector<float>()[1] == Approx(5.0 / std::sqrt(109.0)));
        CHECK(layer.num_batches_tracked().item() == 1.0);
        CHECK(layer.running_mean().to_vector<double>() == mean);
    });
}

TEST_CASE("BatchNorm registers what torchvision's files hold", "[nn]") {
    const nn::BatchNorm1d layer(3);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : layer.state_dict())
        names.push_back(name);
    CHECK(names ==
          std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"});
    CHECK(layer.num_batches_tracked().dtype() == DType::i64);
    CHECK(layer.num_batches_tracked().shape() == Shape{});
    CHECK(nn::BatchNorm1d(nn::BatchNormOptions(3).affine(false)).parameters().empty());
    CHECK(nn::BatchNorm1d(nn::BatchNormOptions(3).track_running_stats(false)).named_buffers().empty());
}

TEST_CASE("BatchNorm without running statistics uses the batch in evaluation too", "[nn]") {
    nn::BatchNorm1d layer(nn::BatchNormOptions(1).track_running_stats(false));
    layer.eval();
    const std::vector<float> y = layer(tensor<float>({1, 3}, {2, 1})).to_vector<float>();
    CHECK(y[0] == Approx(-1.0).epsilon(1e-4));
    CHECK(y[1] == Approx(1.0).epsilon(1e-4));
}

TEST_CASE("BatchNorm refuses inputs of the other rank", "[nn]") {
    CHECK_THROWS_AS(nn::BatchNorm2d(3)(zeros({2, 3})), ShapeError);
    CHECK_THROWS_AS(nn::BatchNorm1d(3)(zeros({2, 3, 4, 4})), ShapeError);
}

TEST_CASE("the fused form equals batch norm, addition and ReLU in turn", "[nn]") {
    test::for_each_device([](Device device) {
        Generator generator(5);
        const TensorOptions options{
            .dtype = DType::f64, .device = device, .format = MemoryFormat::channels_last};
        const Tensor x = normal({3, 2, 2, 2}, 0.0, 1.0, options, generator);
        const Tensor residual = normal({3, 2, 2, 2}, 0.0, 1.0, options, generator);
        nn::BatchNorm2d fused(2);
        nn::BatchNorm2d plain(2);
        for (nn::Module* layer : {static_cast<nn::Module*>(&fused), static_cast<nn::Module*>(&plain)}) {
            layer->to(DType::f64);
            layer->to(device);
        }
        const std::vector<double> expected = relu(plain(x) + residual).to_vector<double>();
        const std::vector<double> found = fused.forward_fused(x, residual, true).to_vector<double>();
        REQUIRE(found.size() == expected.size());
        for (std::size_t i = 0; i < found.size(); ++i)
            CHECK(found[i] == Approx(expected[i]).margin(1e-12));
        CHECK(fused.running_var().to_vector<double>() == plain.running_var().to_vector<double>());
    });
}

TEST_CASE("pooling, flattening and activations are the ops of their names", "[nn]") {
    test::for_each_device([](Device device) {
        const Tensor x = tensor<float>({1, 2, 3, 4, -1, -2, -3, -4}, {1, 2, 2, 2}, device);
        CHECK(nn::MaxPool2d(2)(x).to_vector<float>() == std::vector<float>{4, -1});
        CHECK(nn::AvgPool2d(2)(x).to_vector<float>() == std::vector<float>{2.5F, -2.5F});
        CHECK(nn::AdaptiveAvgPool2d(1)(x).to_vector<float>() == std::vector<float>{2.5F, -2.5F});
        CHECK(nn::MaxPool2d(nn::Pool2dOptions(2).stride(1).padding(1))(x).shape() == Shape{1, 2, 3, 3});
        const Tensor flat = nn::Flatten()(x);
        CHECK(flat.shape() == Shape{1, 8});
        CHECK(flat.to_vector<float>() == x.to_vector<float>());
        CHECK(nn::ReLU()(x).to_vector<float>() == std::vector<float>{1, 2, 3, 4, 0, 0, 0, 0});
        CHECK(nn::Sigmoid()(x).to_vector<float>()[0] == Approx(1.0 / (1.0 + std::exp(-1.0))));
        CHECK(nn::Tanh()(x).to_vector<float>()[1] == Approx(std::tanh(2.0)));
        CHECK(nn::GELU()(x).to_vector<float>()[0] == Approx(0.5 * (1.0 + std::erf(std::sqrt(0.5)))));
        CHECK(nn::SiLU()(x).to_vector<float>()[0] == Approx(1.0 / (1.0 + std::exp(-1.0))));
    });
}

TEST_CASE("an empty Sequential hands its input on", "[nn]") {
    const Tensor x = ones({2});
    CHECK(nn::Sequential()(x).is_same(x));
}

TEST_CASE("CrossEntropyLoss carries smoothing and reduction", "[nn]") {
    test::for_each_device([](Device device) {
        const Tensor logits = zeros({2, 5}, {.device = device});
        const Tensor labels = tensor<std::int64_t>({0, 4}, {2}, device);
        CHECK(nn::CrossEntropyLoss()(logits, labels).item() == Approx(std::log(5.0)));
        CHECK(nn::CrossEntropyLoss(0.1, Reduction::sum)(logits, labels).item() == Approx(2 * std::log(5.0)));
        CHECK(nn::CrossEntropyLoss(0.0, Reduction::none)(logits, labels).shape() == Shape{2});
        CHECK_THROWS_AS(nn::CrossEntropyLoss()(logits, tensor<std::int64_t>({0, 5}, {2}, device)),
                        ValueError);
    });
}
