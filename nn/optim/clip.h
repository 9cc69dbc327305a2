#pragma once

/// \file
/// Gradient clipping.

#include "core/tensor.h"

#include <span>

namespace fulcrum::optim {

/// Scales all gradients by one factor so that their joint L2 norm is at most `max_norm`; parameters without a
/// gradient do not count. Waits for the device. Gradients that are not finite are left alone.
/// \return the norm before. \throws ValueError unless `max_norm` > 0.
double clip_grad_norm(std::span<const Tensor> parameters, double max_norm);

}  // namespace fulcrum::optim
