#pragma once

/// \file
/// Checkpoints: everything that a training run needs to continue bit for bit, in one file.
///
/// The file is a safetensors file (so that any tool can read the weights): tensors `model.*` and
/// `optimizer.*`, the small values as a JSON text in the metadata, and as its last tensor a CRC-64 of every
/// byte before it. `docs/file-formats.md` gives the layout.

#include "core/random.h"
#include "nn/state_dict.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace fulcrum::nn {

/// Where a training run stood. The tensors share their elements with whoever filled the structure in.
struct Checkpoint {
    /// The layout that this version writes. Older ones are read, newer ones refused.
    static constexpr std::int64_t kFormatVersion = 1;

    /// Which batch the loader hands out next.
    struct LoaderPosition {
        std::uint64_t seed = 0;
        std::int64_t epoch = 0;
        std::int64_t next_batch = 0;
        friend bool operator==(const LoaderPosition&, const LoaderPosition&) = default;
    };

    StateDict model;                              ///< parameters and buffers, torchvision's names
    StateDict optimizer;                          ///< moments by parameter name
    std::int64_t optimizer_step = 0;              ///< steps that the optimiser has made
    std::int64_t schedule_step = 0;               ///< steps that the schedule has made
    std::int64_t epoch = 0;                       ///< the epoch that runs or comes next
    std::int64_t step = 0;                        ///< training steps since the start of the run
    Generator::State generator;                   ///< dropout and other draws of the run
    LoaderPosition loader;                        ///< order and place in the data
    std::map<std::string, std::string> settings;  ///< the run's settings, as text
    std::map<std::string, double> metrics;        ///< running sums and best values; any double, bit for bit
};

/// Writes a checkpoint atomically: whoever opens `path`, at any moment and after any kill, finds the complete
/// old one or the complete new one. \throws IoError naming the path and the reason; ValueError for impossible
/// names.
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

/// Reads a checkpoint and checks all of it, the CRC first of all: a changed bit or a missing end is refused.
/// \throws IoError naming the file and the cause (damaged, not a checkpoint, written by a newer version).
Checkpoint load_checkpoint(const std::filesystem::path& path);

}  // namespace fulcrum::nn
