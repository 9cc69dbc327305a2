#include "core/gradcheck.h"
#include "core/ops/shape.h"
#include "nn/batch_norm.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/pool.h"
#include "tests/catch.h"
#include "tests/devices.h"

using namespace fulcrum;

namespace {

/// A residual block with a projection and one without, then pooling and a classifier: everything that a
/// ResNet has, small enough for finite differences.
class TinyResidual : public nn::Module {
  public:
    TinyResidual() {
        const auto conv = [](std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
            return std::make_shared<nn::Conv2d>(
                nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
        };
        stem_ = register_module("stem", conv(3, 2, 3, 1));
        conv1_ = register_module("conv1", conv(2, 4, 3, 2));
        conv2_ = register_module("conv2", conv(4, 4, 3, 1));
        project_ = register_module("project", conv(2, 4, 1, 2));
        conv3_ = register_module("conv3", conv(4, 4, 1, 1));
        for (int i = 0; i < 5; ++i)
            norms_.push_back(
                register_module("bn" + std::to_string(i), std::make_shared<nn::BatchNorm2d>(i == 0 ? 2 : 4)));
        classifier_ = register_module("fc", std::make_shared<nn::Linear>(4, 3));
    }

    Tensor forward(const Tensor& x) override {
        const Tensor a = norms_[0]->forward_fused((*stem_)(x), {}, true);
        const Tensor b = norms_[1]->forward_fused((*conv1_)(a), {}, true);
        const Tensor shortcut = (*norms_[2])((*project_)(a));
        const Tensor c = norms_[3]->forward_fused((*conv2_)(b), shortcut, true);
        const Tensor d = norms_[4]->forward_fused((*conv3_)(c), c, true);
        return (*classifier_)(flatten(nn::AdaptiveAvgPool2d(1)(d), 1));
    }

  private:
    std::shared_ptr<nn::Conv2d> stem_, conv1_, conv2_, conv3_, project_;
    std::vector<std::shared_ptr<nn::BatchNorm2d>> norms_;
    std::shared_ptr<nn::Linear> classifier_;
};

}  // namespace

TEST_CASE("a small residual network passes finite differences in f64", "[nn][gradcheck]") {
    test::for_each_device([](Device device) {
        for (const bool training : {true, false}) {
            INFO("training " << training);
            manual_seed(21);
            TinyResidual model;
            model.to(DType::f64);
            model.to(device);
            model.train(training);
            Generator generator(22);
            Tensor x = normal({3, 3, 5, 5}, 0.0, 1.0, {.dtype = DType::f64, .device = device}, generator);
            x.set_requires_grad();
            const Tensor labels = tensor<std::int64_t>({0, 2, 1}, {3}, device);
            std::vector<Tensor> inputs = model.parameters();
            inputs.push_back(x);
            const nn::CrossEntropyLoss loss(0.1);
            const auto result = gradcheck(
                [&](const std::vector<Tensor>& values) { return loss(model(values.back()), labels); }, inputs,
                {.max_elements = 32});
            INFO(result.message);
            CHECK(result.passed);
        }
    });
}
