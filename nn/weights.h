#pragma once

/// \file
/// Model weights in safetensors files, under torchvision's names: what PyTorch saves loads here, and what is
/// saved here loads in PyTorch.

#include "nn/module.h"

#include <filesystem>

namespace fulcrum::nn {

/// Writes `module.state_dict()`: row-major, each tensor in its own type, atomically. \throws IoError when the
/// file cannot be written.
void save_weights(const Module& module, const std::filesystem::path& path);

/// Loads a safetensors file into a module, all or nothing (see `Module::load_state_dict`). The whole file is
/// read before anything changes; memory is bounded by the file's length, and without `strict` by the tensors
/// that the module knows. \param strict names that only one side has are errors too.
/// \throws IoError, one line that names the file and what does not fit: missing, unexpected and wrong-shape
/// names.
void load_weights(Module& module, const std::filesystem::path& path, bool strict = true);

}  // namespace fulcrum::nn
