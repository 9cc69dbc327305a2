#pragma once

/// \file
/// Trainer: the training loop, from one step to a whole run that can be stopped at any moment and continued
/// bit for bit.

#include "core/device.h"
#include "data/loader.h"
#include "nn/checkpoint.h"
#include "nn/module.h"
#include "nn/optim/optimizer.h"
#include "nn/optim/schedule.h"
#include "nn/train_stats.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fulcrum::nn {

/// How a `Trainer` makes its steps.
struct TrainerOptions {
    double label_smoothing = 0.0;  ///< of the training loss, in [0, 1]
    bool detect_anomaly = false;   ///< check every op's result (slow): see `AnomalyGuard`
    bool split_times = true;       ///< wait for the device between activities, so that `TimeSplit` is true
    /// The loss is read, and checked to be finite, every so many steps; reading it waits for the device. With
    /// 1 a loss that is not finite stops the run before it reaches the weights. 0 means 1 on the CPU and 20
    /// elsewhere. Sums do not depend on it.
    std::int64_t loss_interval = 0;
};

/// An epoch's end, or the end of a run inside an epoch.
struct EpochReport {
    EpochStats stats;             ///< of training
    bool complete = true;         ///< false when the run ended inside the epoch
    std::int64_t step = 0;        ///< steps since the start of the run
    std::optional<Tally> test;    ///< evaluation, when there is a test set
    double test_seconds = 0.0;    ///< that it took
    double seconds = 0.0;         ///< wall clock of this process for the epoch: steps, saving, evaluation
    std::size_t peak_memory = 0;  ///< most bytes of tensors that were alive on the device in this epoch
};

/// Where a run is, after a step.
struct StepReport {
    const EpochStats& stats;          ///< of the running epoch; losses may lag by `loss_interval`
    std::int64_t steps_in_epoch = 0;  ///< of a whole epoch
    std::int64_t step = 0;            ///< steps since the start of the run
};

/// What `Trainer::fit` is to do.
struct FitOptions {
    std::int64_t epochs = 1;           ///< of the whole run, those before a resume included
    std::int64_t max_steps = 0;        ///< of the whole run; stops there, also inside an epoch; 0: no limit
    std::filesystem::path checkpoint;  ///< where to save; empty: nowhere
    std::int64_t save_every = 0;  ///< steps between saves, beside those at each epoch's end; 0: only those
    std::map<std::string, std::string> settings;  ///< kept in the checkpoint, for whoever reads it
    const std::atomic<bool>* stop = nullptr;      ///< looked at between steps; true saves and returns
    std::function<void(const StepReport&)> on_step;
    std::function<void(const EpochReport&)> on_epoch;  ///< called before the epoch's end is saved
};

/// Why `Trainer::fit` returned.
enum class FitEnd : std::uint8_t { epochs_done, steps_done, stopped };

/// Trains a network with cross-entropy on batches of images. The network, the optimiser and the schedule are
/// the caller's and must outlive the trainer. Not thread-safe.
///
/// A step: `schedule` gives the rate (and momentum) for the step number, forward, loss, backward, update.
/// With a 16-bit loader and f32 parameters, activations are 16-bit and everything else stays f32.
class Trainer {
  public:
    /// \param model on its device already; batches follow it there.
    /// \param schedule counted in steps. \throws ValueError for options out of range or a network without
    /// parameters.
    Trainer(Module& model, optim::Optimizer& optimizer, const optim::Schedule& schedule,
            TrainerOptions options = {});

    /// Trains on one batch. \throws Error when the loss is not finite (naming the step, the rate and the way
    /// out), and whatever the network throws.
    void step(const data::Batch& batch);

    /// Runs until the epochs or the steps are done or `stop` is set, from wherever this trainer stands: the
    /// start, an earlier `fit`, or what `restore` brought. Each epoch ends with an evaluation, a report and,
    /// with a checkpoint path, a save; a run saves also once before its first step, so that what cannot be
    /// written is known before time is spent, and when it ends inside an epoch. A step limit inside an epoch
    /// evaluates and reports too, `stop` does not.
    /// \param train its position is set to where the trainer stands. \param test null: no evaluation.
    /// \throws ValueError when `train` is not the loader that a restored run used (seed, batch size, images);
    /// Error when the loss is not finite; IoError when a checkpoint cannot be written (the previous one is
    /// intact).
    FitEnd fit(data::DataLoader& train, data::DataLoader* test, const FitOptions& options);

    /// Statistics of the running epoch. Waits for outstanding losses.
    const EpochStats& epoch_stats();
    /// Steps since the start of the run.
    std::int64_t step_count() const { return step_; }
    /// The epoch that runs or comes next, from 0.
    std::int64_t epoch() const { return stats_.epoch; }

    /// The run's whole state: network, optimiser, step, epoch and its running sums, this thread's
    /// `default_generator`, the loader's place. Tensors are shared, not copied. \throws Error when a
    /// parameter or buffer is not finite: such a state is not worth keeping.
    Checkpoint checkpoint(const data::DataLoader& train, std::map<std::string, std::string> settings = {});
    /// Puts the run where `checkpoint` was taken; on an error everything is as before. \param path for
    /// messages. \throws IoError naming what does not fit this network or optimiser.
    void restore(const Checkpoint& checkpoint, const std::filesystem::path& path = "checkpoint");

  private:
    /// Results of a step that have not been read yet.
    struct Pending {
        Tensor loss, correct;
        std::int64_t images = 0;
        std::int64_t step = 0;
        double rate = 0.0;
    };
    /// Which loader a restored run used.
    struct LoaderIdentity {
        std::uint64_t seed = 0;
        std::int64_t batch_size = 0;
        std::int64_t images = 0;
    };

    void read_losses();
    std::optional<FitEnd> wanted_end(const FitOptions& options) const;
    std::optional<FitEnd> run_steps(data::DataLoader& train, const FitOptions& options);
    void check_loader(const data::DataLoader& train) const;
    void check_finite() const;
    void save(const data::DataLoader& train, const FitOptions& options);

    Module& model_;
    optim::Optimizer& optimizer_;
    const optim::Schedule& schedule_;
    TrainerOptions options_;
    Device device_;
    std::int64_t step_ = 0;
    EpochStats stats_;
    std::vector<Pending> pending_;
    std::optional<LoaderIdentity> expected_loader_;
};

}  // namespace fulcrum::nn
