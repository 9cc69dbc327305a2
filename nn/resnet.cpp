#include "core/ops/shape.h"
#include "nn/batch_norm.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/models.h"
#include "nn/pool.h"
#include "nn/sequential.h"

#include <array>

namespace fulcrum::nn {
namespace {

std::shared_ptr<Conv2d> conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                             std::int64_t stride = 1) {
    return std::make_shared<Conv2d>(Conv2dOptions(in, out, kernel)
                                        .stride(stride)
                                        .padding(kernel / 2)
                                        .bias(false)
                                        .init(WeightInit::kaiming_normal_fan_out));
}

/// A convolution and the batch norm that follows it, registered side by side in their block.
struct ConvNorm {
    std::shared_ptr<Conv2d> conv;
    std::shared_ptr<BatchNorm2d> norm;

    /// `relu(norm(conv(x)) + residual)`; the residual may be undefined.
    Tensor operator()(const Tensor& x, const Tensor& residual = {}) const {
        return norm->forward_fused((*conv)(x), residual, true);
    }
};

/// A residual block: a main branch, and a projection of the input where shapes change.
class Block : public Module {
  public:
    Tensor forward(const Tensor& x) override {
        Tensor y = x;
        for (std::size_t i = 0; i + 1 < branch_.size(); ++i)
            y = branch_[i](y);
        return branch_.back()(y, downsample_ != nullptr ? (*downsample_)(x) : x);
    }

  protected:
    void add_conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
        const std::string number = std::to_string(branch_.size() + 1);
        auto layer = register_module("conv" + number, conv(in, out, kernel, stride));
        branch_.push_back({layer, register_module("bn" + number, std::make_shared<BatchNorm2d>(out))});
    }

    void add_downsample(std::int64_t in, std::int64_t out, std::int64_t stride) {
        if (in == out && stride == 1) return;
        downsample_ = std::make_shared<Sequential>();
        downsample_->push_back(conv(in, out, 1, stride));
        downsample_->push_back(std::make_shared<BatchNorm2d>(out));
        register_module("downsample", downsample_);
    }

  private:
    std::vector<ConvNorm> branch_;
    std::shared_ptr<Sequential> downsample_;
};

/// Two 3x3 convolutions.
class BasicBlock : public Block {
  public:
    static constexpr std::int64_t kExpansion = 1;

    BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride) {
        add_conv(in, width, 3, stride);
        add_conv(width, width, 3);
        add_downsample(in, width, stride);
    }
};

/// 1x1 down, 3x3 (which has the stride), 1x1 up.
class Bottleneck : public Block {
  public:
    static constexpr std::int64_t kExpansion = 4;

    Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride) {
        add_conv(in, width, 1);
        add_conv(width, width, 3, stride);
        add_conv(width, width * kExpansion, 1);
        add_downsample(in, width * kExpansion, stride);
    }
};

template <class BlockType>
class ResNet : public Module {
  public:
    ResNet(const std::array<int, 4>& blocks, const ModelOptions& options) {
        const bool cifar = options.stem == Stem::cifar;
        auto first = register_module("conv1", cifar ? conv(3, 64, 3) : conv(3, 64, 7, 2));
        stem_ = {first, register_module("bn1", std::make_shared<BatchNorm2d>(64))};
        if (!cifar)
            max_pool_ = register_module("maxpool",
                                        std::make_shared<MaxPool2d>(Pool2dOptions(3).stride(2).padding(1)));
        std::int64_t channels = 64;
        for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
            const std::int64_t width = std::int64_t{64} << stage;
            auto layer = std::make_shared<Sequential>();
            for (int i = 0; i < blocks[stage]; ++i) {
                layer->push_back(std::make_shared<BlockType>(channels, width, stage > 0 && i == 0 ? 2 : 1));
                channels = width * BlockType::kExpansion;
            }
            stages_[stage] = register_module("layer" + std::to_string(stage + 1), layer);
        }
        average_ = register_module("avgpool", std::make_shared<AdaptiveAvgPool2d>(1));
        classifier_ = register_module("fc", std::make_shared<Linear>(channels, options.num_classes));
    }

    Tensor forward(const Tensor& x) override {
        Tensor y = stem_(x);
        if (max_pool_ != nullptr) y = (*max_pool_)(y);
        for (const auto& stage : stages_)
            y = (*stage)(y);
        return (*classifier_)(flatten((*average_)(y), 1));
    }

  private:
    ConvNorm stem_;
    std::shared_ptr<MaxPool2d> max_pool_;
    std::array<std::shared_ptr<Sequential>, 4> stages_;
    std::shared_ptr<AdaptiveAvgPool2d> average_;
    std::shared_ptr<Linear> classifier_;
};

}  // namespace

std::shared_ptr<Module> resnet18(const ModelOptions& options) {
    options.check();
    return std::make_shared<ResNet<BasicBlock>>(std::array{2, 2, 2, 2}, options);
}

std::shared_ptr<Module> resnet50(const ModelOptions& options) {
    options.check();
    return std::make_shared<ResNet<Bottleneck>>(std::array{3, 4, 6, 3}, options);
}

}  // namespace fulcrum::nn
