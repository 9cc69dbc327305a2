#pragma once

/// \file
/// Checkpoints: everything that a training run needs to continue bit for bit, in one file.
///
/// The file is a safetensors file, so that any tool can read the weights: tensors `model.*` and
/// `optimizer.*`, the small values as a JSON text in the metadata, and as its last tensor a CRC-64 of every
/// byte before it. `docs/file-formats.md` gives the layout.

#include "core/random.h"
#include "nn/module.h"
#include "nn/optim/optimizer.h"
#include "nn/state_dict.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace fulcrum::nn {

/// Where a training run stood. Tensors share their elements with whoever filled the structure in.
struct Checkpoint {
    /// The layout that this version writes and reads. Newer ones are refused.
    static constexpr std::int64_t kFormatVersion = 1;

    /// Which batch the loader hands out next.
    struct LoaderPosition {
        std::uint64_t seed = 0;
        std::int64_t epoch = 0;
        std::int64_t next_batch = 0;
        friend bool operator==(const LoaderPosition&, const LoaderPosition&) = default;
    };

    StateDict model;                              ///< `Module::state_dict()`
    StateDict optimizer;                          ///< `Optimizer::state_dict()`
    std::string optimizer_name;                   ///< `Optimizer::name()`
    std::int64_t schedule_step = 0;               ///< the step whose rate comes next
    std::int64_t epoch = 0;                       ///< the epoch that runs or comes next, from 0
    std::int64_t step = 0;                        ///< training steps since the start of the run
    Generator::State generator;                   ///< of dropout and the run's other draws
    LoaderPosition loader;                        ///< order and place in the data
    std::map<std::string, std::string> settings;  ///< the run's settings, as text
    std::map<std::string, double> metrics;        ///< running sums, best values; any double, bit for bit
};

/// Writes a checkpoint atomically: whoever opens `path`, at any moment and after any kill, finds the complete
/// old one or the complete new one. \throws IoError naming the path and the reason; ValueError for names that
/// no file can hold, text that is not UTF-8, negative counts, or more than a megabyte of settings and
/// metrics.
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

/// Reads a checkpoint and checks all of it, above all the CRC: a changed bit or a missing end is refused.
/// Memory is bounded by the file's length. \throws IoError, one line that names the file and the cause
/// (damaged, no checkpoint, written by a newer version).
Checkpoint load_checkpoint(const std::filesystem::path& path);

/// Puts the model's and the optimiser's state back, both or neither. The rest of `checkpoint` is the
/// caller's. \param path for messages. \throws IoError, one line that names the file and what does not fit
/// (another optimiser, missing, unexpected and wrong-shape names).
void restore_checkpoint(const Checkpoint& checkpoint, Module& model, optim::Optimizer& optimizer,
                        const std::filesystem::path& path);

}  // namespace fulcrum::nn
