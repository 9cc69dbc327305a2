// Defines a small residual network, trains it for three epochs on drawn images and keeps its weights.
#include <fulcrum/fulcrum.h>

#include <cstdio>
#include <memory>

namespace nn = fulcrum::nn;
namespace optim = fulcrum::optim;
using fulcrum::Tensor;

// A module registers what it owns and computes its output in forward; gradients come by themselves.
class ResidualBlock : public nn::Module {
  public:
    explicit ResidualBlock(std::int64_t c)
        : conv_(register_module("conv", std::make_shared<nn::Conv2d>(nn::Conv2dOptions(c, c, 3).padding(1)))),
          norm_(register_module("norm", std::make_shared<nn::BatchNorm2d>(c))) {}

    Tensor forward(const Tensor& x) override { return fulcrum::relu(x + (*norm_)((*conv_)(x))); }

  private:
    std::shared_ptr<nn::Conv2d> conv_;
    std::shared_ptr<nn::BatchNorm2d> norm_;
};

int main() try {
    fulcrum::manual_seed(1);
    nn::Sequential network{
        std::make_shared<nn::Conv2d>(nn::Conv2dOptions(3, 16, 3).stride(2).padding(1)),  // to 16x16x16
        std::make_shared<ResidualBlock>(16),
        std::make_shared<nn::MaxPool2d>(2),  // to 16x8x8
        std::make_shared<ResidualBlock>(16),
        std::make_shared<nn::Flatten>(),
        std::make_shared<nn::Linear>(16 * 8 * 8, 10),
    };
    std::printf("%s\n", to_string(nn::summarize(network)).c_str());

    const auto images = fulcrum::data::make_synthetic(1, 2000, 500);
    fulcrum::data::LoaderOptions options;
    options.batch_size = 50;
    options.normalization = fulcrum::data::measure_normalization(images.train);
    fulcrum::data::DataLoader test(images.test, options);
    options.shuffle = true;
    options.augment.flip = true;
    fulcrum::data::DataLoader train(images.train, options);

    optim::SGD optimizer(network.parameters(), {.lr = 0.02, .momentum = 0.9, .weight_decay = 5e-4});
    const optim::CosineAnnealingLR schedule(0.02, 3 * train.size());
    nn::Trainer trainer(network, optimizer, schedule);
    nn::FitOptions fit;
    fit.epochs = 3;
    fit.on_epoch = [](const nn::EpochReport& report) {
        std::printf("epoch %d: loss %.3f, test accuracy %.1f%%\n", static_cast<int>(report.stats.epoch + 1),
                    report.stats.train.loss(), 100.0 * report.test->accuracy());
    };
    trainer.fit(train, &test, fit);
    nn::save_weights(network, "network.safetensors");
} catch (const fulcrum::Error& error) {
    std::fprintf(stderr, "define-network: %s\n", error.what());
    return 1;
}
