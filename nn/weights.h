#pragma once

/// \file
/// Model weights in safetensors files, and the all-or-nothing copy of saved tensors into live ones.

#include "nn/state_dict.h"

#include <filesystem>
#include <span>
#include <string>

namespace fulcrum::nn {

/// Copies saved tensors into live ones by name, all or nothing: every name and shape is checked before the
/// first element changes. Element types may differ among floating types (values are rounded); devices may
/// differ.
/// \param into live tensors, as `Module::state_dict` hands them out.
/// \param from saved tensors in any order.
/// \param strict every name must be on both sides; otherwise names that only one side has are left alone.
/// \param what begins the message: a path, or "checkpoint x.ckpt: optimizer".
/// \throws IoError, one line with the missing names, the unexpected names and the shapes that differ.
void load_state(std::span<const NamedTensor> into, std::span<const NamedTensor> from, bool strict,
                const std::string& what);

/// Writes a state (`module.state_dict()`) as a safetensors file that PyTorch and torchvision read as it is:
/// the same names, row-major. Atomic. \throws IoError, ValueError.
void save_weights(std::span<const NamedTensor> state, const std::filesystem::path& path);

/// Loads a safetensors file into a state (`module.state_dict()`), all or nothing; the header is compared
/// before any element is read. Memory is bounded by the file's length. \param strict as in `load_state`.
/// \throws IoError, one line that names the file and what does not fit.
void load_weights(std::span<const NamedTensor> state, const std::filesystem::path& path, bool strict = true);

}  // namespace fulcrum::nn
