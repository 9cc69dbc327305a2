#include "nn/trainer.h"

#include "core/allocator.h"
#include "core/autograd.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/ops/copy.h"
#include "core/ops/cross_entropy.h"
#include "nn/evaluate.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <utility>

namespace fulcrum::nn {

namespace {

/// Time since the last lap. Waits for the device first when told so.
class Stopwatch {
  public:
    Stopwatch(Device device, bool wait) : device_(device), wait_(wait), last_(Clock::now()) {}

    double lap() {
        if (wait_) synchronize(device_);
        const Clock::time_point now = Clock::now();
        return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
    }

  private:
    using Clock = std::chrono::steady_clock;
    Device device_;
    bool wait_;
    Clock::time_point last_;
};

Device device_of(const Module& model) {
    const auto parameters = model.parameters();
    if (parameters.empty()) throw ValueError("Trainer: the network has no parameters to train");
    return parameters.front().device();
}

void require(bool condition, const char* option, const char* range) {
    if (!condition) throw ValueError(fmt::format("Trainer: {} must be {}", option, range));
}

/// A value that a checkpoint must hold.
double metric(const Checkpoint& checkpoint, const std::string& name, const std::string& path) {
    const auto found = checkpoint.metrics.find(name);
    if (found == checkpoint.metrics.end()) {
        throw IoError(
            fmt::format("{}: the checkpoint has no value '{}', so no Trainer wrote it", path, name));
    }
    return found->second;
}

/// A count that a checkpoint must hold: whole, not negative, and exact as a double.
std::int64_t count_metric(const Checkpoint& checkpoint, const std::string& name, const std::string& path) {
    const double value = metric(checkpoint, name, path);
    if (!(value >= 0.0 && value <= 0x1p53 && value == std::floor(value))) {
        throw IoError(fmt::format("{}: the checkpoint's '{}' is {}, not a count", path, name, value));
    }
    return static_cast<std::int64_t>(value);
}

/// The running epoch's sums under the names that checkpoints use.
void put_stats(const EpochStats& stats, std::map<std::string, double>& metrics) {
    metrics["epoch.steps"] = static_cast<double>(stats.steps);
    metrics["epoch.images"] = static_cast<double>(stats.train.images);
    metrics["epoch.correct"] = static_cast<double>(stats.train.correct);
    metrics["epoch.loss_sum"] = stats.train.loss_sum;
    metrics["epoch.learning_rate"] = stats.learning_rate;
    metrics["time.data"] = stats.time.data;
    metrics["time.transfer"] = stats.time.transfer;
    metrics["time.forward"] = stats.time.forward;
    metrics["time.backward"] = stats.time.backward;
    metrics["time.optimizer"] = stats.time.optimizer;
}

/// The inverse of `put_stats`.
EpochStats take_stats(const Checkpoint& checkpoint, const std::string& path) {
    EpochStats stats;
    stats.epoch = checkpoint.epoch;
    stats.steps = count_metric(checkpoint, "epoch.steps", path);
    stats.train.images = count_metric(checkpoint, "epoch.images", path);
    stats.train.correct = count_metric(checkpoint, "epoch.correct", path);
    stats.train.loss_sum = metric(checkpoint, "epoch.loss_sum", path);
    stats.learning_rate = metric(checkpoint, "epoch.learning_rate", path);
    stats.time.data = metric(checkpoint, "time.data", path);
    stats.time.transfer = metric(checkpoint, "time.transfer", path);
    stats.time.forward = metric(checkpoint, "time.forward", path);
    stats.time.backward = metric(checkpoint, "time.backward", path);
    stats.time.optimizer = metric(checkpoint, "time.optimizer", path);
    return stats;
}

}  // namespace

Trainer::Trainer(Module& model, optim::Optimizer& optimizer, const optim::Schedule& schedule,
                 TrainerOptions options)
    : model_(model),
      optimizer_(optimizer),
      schedule_(schedule),
      options_(options),
      device_(device_of(model)) {
    require(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0, "label_smoothing", "in 0..1");
    require(options.loss_interval >= 0, "loss_interval", "0 (automatic) or more");
    if (options_.loss_interval == 0) options_.loss_interval = device_.type == DeviceType::cpu ? 1 : 20;
}

void Trainer::step(const data::Batch& batch) {
    std::optional<AnomalyGuard> anomaly;
    if (options_.detect_anomaly) anomaly.emplace();
    if (!model_.is_training()) model_.train();
    Stopwatch watch(device_, options_.split_times);

    const Tensor images = batch.images.to(device_);
    const Tensor labels = batch.labels.to(device_);
    const double transfer = watch.lap();

    const double rate = schedule_.rate(step_);
    optimizer_.set_lr(rate);
    if (const auto momentum = schedule_.momentum(step_)) optimizer_.set_momentum(*momentum);
    const Tensor logits = model_(images);
    const Tensor loss = cross_entropy(logits, labels, {options_.label_smoothing, Reduction::mean});
    pending_.push_back({loss.detach(), count_correct(logits, labels), batch.count, step_, rate});
    if (static_cast<std::int64_t>(pending_.size()) >= options_.loss_interval) read_losses();
    const double forward = watch.lap();

    // Cleared here rather than after the update: what a failed step left behind must not be added to.
    optimizer_.zero_grad();
    loss.backward();
    const double backward = watch.lap();

    optimizer_.step();
    const double update = watch.lap();

    ++step_;
    ++stats_.steps;
    stats_.learning_rate = rate;
    stats_.time += {0.0, transfer, forward, backward, update};
}

void Trainer::read_losses() {
    // Taken out first: after an error the run is over, and its losses must not be read again.
    const std::vector<Pending> pending = std::exchange(pending_, {});
    for (const Pending& one : pending) {
        const double loss = one.loss.item();
        if (!std::isfinite(loss)) {
            throw Error(fmt::format(
                "train: the loss is {} at step {} (epoch {}): lower the learning rate (now {:g}), or "
                "switch anomaly detection on, which names the op that made it",
                std::isnan(loss) ? "NaN" : "infinite", one.step + 1, stats_.epoch + 1, one.rate));
        }
        stats_.train += {one.images, static_cast<std::int64_t>(one.correct.item()),
                         loss * static_cast<double>(one.images)};
    }
}

const EpochStats& Trainer::epoch_stats() {
    read_losses();
    return stats_;
}

std::optional<FitEnd> Trainer::wanted_end(const FitOptions& options) const {
    if (options.stop != nullptr && options.stop->load()) return FitEnd::stopped;
    if (options.max_steps > 0 && step_ >= options.max_steps) return FitEnd::steps_done;
    return std::nullopt;
}

std::optional<FitEnd> Trainer::run_steps(data::DataLoader& train, const FitOptions& options) {
    while (stats_.steps < train.size()) {
        if (const auto end = wanted_end(options)) return end;
        Stopwatch watch(device_, false);
        const auto batch = train.next();
        stats_.time.data += watch.lap();
        step(*batch);
        if (options.on_step) options.on_step({stats_, train.size(), step_});
        if (options.save_every > 0 && step_ % options.save_every == 0) save(train, options);
    }
    return wanted_end(options);
}

FitEnd Trainer::fit(data::DataLoader& train, data::DataLoader* test, const FitOptions& options) {
    require(options.epochs >= 0 && options.max_steps >= 0 && options.save_every >= 0,
            "epochs, max_steps and save_every", "0 or more");
    check_loader(train);
    save(train, options);
    while (stats_.epoch < options.epochs) {
        // A run that already stands inside an epoch still owes the report on it.
        if (stats_.steps == 0) {
            if (const auto end = wanted_end(options)) return *end;
        }
        const data::LoaderPosition place{static_cast<std::uint64_t>(stats_.epoch), stats_.steps};
        if (!(train.position() == place)) train.set_position(place);
        reset_peak_memory(device_);
        Stopwatch watch(device_, true);

        const auto end = run_steps(train, options);
        EpochReport report{epoch_stats(), stats_.steps == train.size(), step_, std::nullopt, 0.0, 0.0, 0};
        if (end == FitEnd::stopped && !report.complete) {
            save(train, options);
            return FitEnd::stopped;
        }
        report.seconds = watch.lap();
        if (test != nullptr) {
            report.test = evaluate(model_, *test, options.stop);
            if (!report.test) {
                save(train, options);
                return FitEnd::stopped;
            }
            report.test_seconds = watch.lap();
            report.seconds += report.test_seconds;
        }
        report.peak_memory = memory_stats(device_).peak;
        if (options.on_epoch) options.on_epoch(report);
        if (report.complete) {
            stats_ = EpochStats{};
            stats_.epoch = report.stats.epoch + 1;
        }
        save(train, options);
        if (end && stats_.epoch < options.epochs) return *end;
    }
    return FitEnd::epochs_done;
}

void Trainer::check_loader(const data::DataLoader& train) const {
    if (train.size() == 0) {
        throw ValueError(fmt::format("train: the loader gives no batches ({} images, batch size {})",
                                     train.dataset().count(), train.options().batch_size));
    }
    if (!expected_loader_) return;
    const LoaderIdentity& expected = *expected_loader_;
    const auto compare = [](const char* what, auto here, auto there) {
        if (here != there) {
            throw ValueError(
                fmt::format("train: the checkpoint was made with {} {}, the loader has {}; an exact resume "
                            "needs the same",
                            what, there, here));
        }
    };
    compare("seed", train.options().seed, expected.seed);
    compare("batch size", train.options().batch_size, expected.batch_size);
    compare("images per epoch", train.images_per_epoch(), expected.images);
}

void Trainer::check_finite() const {
    const auto check = [](const NamedTensor& entry) {
        const auto& [name, tensor] = entry;
        if (!is_floating(tensor.dtype()) || kernels<CopyKernels>(tensor.device()).all_finite(tensor)) return;
        throw Error(fmt::format(
            "train: '{}' holds NaN or infinity, so the state is not saved: lower the learning rate", name));
    };
    for (const NamedTensor& entry : model_.named_parameters())
        check(entry);
    for (const NamedTensor& entry : model_.named_buffers())
        check(entry);
}

Checkpoint Trainer::checkpoint(const data::DataLoader& train, std::map<std::string, std::string> settings) {
    read_losses();
    check_finite();
    Checkpoint state;
    state.model = model_.state_dict();
    state.optimizer = optimizer_.state_dict();
    state.optimizer_name = optimizer_.name();
    state.schedule_step = step_;
    state.epoch = stats_.epoch;
    state.step = step_;
    state.generator = default_generator().state();
    state.loader = {train.options().seed, stats_.epoch, stats_.steps};
    state.settings = std::move(settings);
    put_stats(stats_, state.metrics);
    state.metrics["loader.batch_size"] = static_cast<double>(train.options().batch_size);
    state.metrics["loader.images"] = static_cast<double>(train.images_per_epoch());
    return state;
}

void Trainer::save(const data::DataLoader& train, const FitOptions& options) {
    if (!options.checkpoint.empty()) save_checkpoint(options.checkpoint, checkpoint(train, options.settings));
}

void Trainer::restore(const Checkpoint& checkpoint, const std::filesystem::path& path) {
    const EpochStats stats = take_stats(checkpoint, path.string());
    const LoaderIdentity loader{checkpoint.loader.seed, count_metric(checkpoint, "loader.batch_size", path),
                                count_metric(checkpoint, "loader.images", path)};
    if (checkpoint.step < 0 || checkpoint.epoch < 0 || checkpoint.loader.epoch != checkpoint.epoch ||
        checkpoint.loader.next_batch != stats.steps) {
        throw IoError(fmt::format(
            "{}: the checkpoint's places disagree (step {}, epoch {}, {} steps in it, loader at {}.{})",
            path.string(), checkpoint.step, checkpoint.epoch, stats.steps, checkpoint.loader.epoch,
            checkpoint.loader.next_batch));
    }
    restore_checkpoint(checkpoint, model_, optimizer_, path);
    optimizer_.zero_grad();
    default_generator().set_state(checkpoint.generator);
    step_ = checkpoint.step;
    stats_ = stats;
    pending_.clear();
    expected_loader_ = loader;
}

}  // namespace fulcrum::nn
