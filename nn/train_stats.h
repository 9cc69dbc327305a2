#pragma once

/// \file
/// What a training run counts: images and losses, and where the time goes.

#include <cstdint>

namespace fulcrum::nn {

/// Sums over images, so that averages are right whatever the size of the last batch.
struct Tally {
    std::int64_t images = 0;
    std::int64_t correct = 0;  ///< images whose largest logit is at the label
    double loss_sum = 0.0;     ///< sum of the images' losses

    /// Mean loss of an image; NaN when there are none.
    double loss() const;
    /// Share of correct images, in 0..1; NaN when there are none.
    double accuracy() const;
    Tally& operator+=(const Tally& other);
    friend bool operator==(const Tally&, const Tally&) = default;
};

/// Seconds by activity. On a device that works asynchronously the split is true only when the device was
/// waited for between activities (`TrainerOptions::split_times`); the total is true either way.
struct TimeSplit {
    double data = 0.0;       ///< waiting for the loader
    double transfer = 0.0;   ///< copying batches from the host to the device
    double forward = 0.0;    ///< the network and the loss
    double backward = 0.0;   ///< gradients
    double optimizer = 0.0;  ///< the update

    double total() const { return data + transfer + forward + backward + optimizer; }
    TimeSplit& operator+=(const TimeSplit& other);
};

/// One epoch of training, or the part of it that has run.
struct EpochStats {
    std::int64_t epoch = 0;      ///< from 0
    std::int64_t steps = 0;      ///< batches that have been trained on
    Tally train;                 ///< measured while training: each batch before its update
    TimeSplit time;              ///< of those steps
    double learning_rate = 0.0;  ///< of the latest step

    /// Training throughput; zero before the first step.
    double images_per_second() const;
};

}  // namespace fulcrum::nn
