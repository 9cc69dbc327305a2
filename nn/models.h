#pragma once

/// \file
/// The three networks of the study, and a registry by name that takes more.

#include "nn/module.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fulcrum::nn {

/// The first layers of a ResNet.
enum class Stem : std::uint8_t {
    imagenet,  ///< 7x7 convolution of stride 2, then a 3x3 max pool of stride 2
    cifar,     ///< 3x3 convolution of stride 1, no max pool: for small images
};

/// `imagenet`, `cifar`.
std::string_view name_of(Stem stem);
/// The inverse of `name_of`. \throws ValueError for an unknown name, listing the known ones.
Stem parse_stem(std::string_view name);

/// What every model is made from.
struct ModelOptions {
    std::int64_t num_classes = 10;  ///< width of the last layer, at least 1
    Stem stem = Stem::imagenet;     ///< of the ResNets; `small_cnn` has only one

    /// \throws ValueError naming the value that is out of range.
    void check() const;
};

/// Two convolutions and two linear layers for `[N, 3, 32, 32]`: conv1 3->32 3x3, ReLU, max pool 2, conv2
/// 32->64 3x3, ReLU, max pool 2, flatten, fc1 4096->128, ReLU, fc2 128->classes. 545,098 parameters with ten
/// classes. Output `[N, classes]`. \throws ValueError for fewer than one class.
std::shared_ptr<Module> small_cnn(const ModelOptions& options = {});

/// ResNet-18 (He et al., 2016) as torchvision defines it, for `[N, 3, H, W]`: 11,689,512 parameters with 1000
/// classes, 11,181,642 with ten. Output `[N, classes]`. \throws ValueError for fewer than one class.
std::shared_ptr<Module> resnet18(const ModelOptions& options = {});

/// ResNet-50 (stride in the 3x3 of a bottleneck) as torchvision defines it, for `[N, 3, H, W]`: 25,557,032
/// parameters with 1000 classes, 23,528,522 with ten. Output `[N, classes]`. \throws ValueError for fewer
/// than one class.
std::shared_ptr<Module> resnet50(const ModelOptions& options = {});

/// Makes a model.
using ModelFactory = std::function<std::shared_ptr<Module>(const ModelOptions&)>;

/// A model by name; initial values come from the thread's `default_generator`.
/// \throws ValueError for an unknown name, listing the known ones.
std::shared_ptr<Module> make_model(const std::string& name, const ModelOptions& options = {});

/// Names that `make_model` knows: the built-in ones, then those registered, in order.
std::vector<std::string> model_names();

/// Adds a model to the registry. \throws ValueError when the name is empty or taken, or the factory is empty.
void register_model(const std::string& name, ModelFactory factory);

}  // namespace fulcrum::nn
