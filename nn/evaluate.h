#pragma once

/// \file
/// Loss and accuracy of a network on a data set.

#include "data/loader.h"
#include "nn/module.h"
#include "nn/train_stats.h"

#include <atomic>
#include <optional>

namespace fulcrum::nn {

/// Runs `model` in evaluation mode, without recording, over one epoch of `loader` and adds up the plain
/// cross-entropy (no label smoothing) and the correct images: every image counts once, so the batch size does
/// not matter. Batches move to the device of the model's parameters. The modules' modes are put back, also
/// after an error.
/// \param loader read from the beginning of its current epoch; its position is then the next epoch's.
/// \param stop looked at between batches: once true, nothing is returned.
/// \throws Error for logits that do not fit the labels.
std::optional<Tally> evaluate(Module& model, data::DataLoader& loader,
                              const std::atomic<bool>* stop = nullptr);

}  // namespace fulcrum::nn
