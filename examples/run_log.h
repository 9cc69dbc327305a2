#pragma once

/// \file
/// The log of a run: one JSON object a line, first the settings and the environment, then one per epoch.
///
///     {"type": "run", "settings": {...}, "data": {...}, "model": {...}, "environment": {...}, "started":
///     "..."}
///     {"type": "epoch", "epoch": 1, "train_loss": ..., "test_accuracy": ..., ...}
///     {"type": "resume", "epoch": 1, "step": 391, ...}

#include "train_options.h"

#include <fulcrum/fulcrum.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace train_cifar10 {

/// What the first line tells about a run.
struct RunFacts {
    Settings settings;
    std::string data;        ///< a description
    bool synthetic = false;  ///< the images are drawn
    std::int64_t train_images = 0, test_images = 0;
    std::int64_t parameters = 0, multiply_adds = 0;
};

/// Appends to a log, or does nothing without a path. Each line is in the file when the function returns.
class RunLog {
  public:
    explicit RunLog(std::filesystem::path path) : path_(std::move(path)) {}

    /// Begins a run. What the file holds already stays.
    void begin(const RunFacts& facts);
    /// Continues a run that has finished `epochs` epochs: lines of the latest run in the file that tell of
    /// later ones, written after the checkpoint was saved, are dropped together with a half-written last
    /// line. A file that is missing is begun. \throws fulcrum::IoError when a line in the file is no JSON
    /// object.
    void resume(const RunFacts& facts, std::int64_t epochs, std::int64_t step);
    /// Adds an epoch.
    void epoch(const fulcrum::nn::EpochReport& report, bool synthetic);

  private:
    void append(const std::string& line) const;

    std::filesystem::path path_;
};

}  // namespace train_cifar10
