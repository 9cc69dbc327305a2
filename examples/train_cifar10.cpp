// train-cifar10: trains and tests a network on CIFAR-10, or on the synthetic set. `--help` lists the options.

#include "progress.h"
#include "run_log.h"
#include "stop_signal.h"
#include "train_options.h"

#include <fulcrum/fulcrum.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace train_cifar10 {

namespace {

namespace data = fulcrum::data;
namespace nn = fulcrum::nn;
namespace optim = fulcrum::optim;
using fulcrum::Device;
using fulcrum::DeviceType;

constexpr int kDone = 0, kFailed = 1, kBadUsage = 2, kStopped = 3;

/// The synthetic set is the same whatever the seed of the run, so that runs can be compared.
constexpr std::uint64_t kSyntheticSeed = 1;
constexpr std::int64_t kSyntheticTrain = 10'000, kSyntheticTest = 2'000;

/// Kept in a checkpoint beside the options.
constexpr const char* kDataKey = "train-set";
constexpr const char* kThreadsKey = "threads-used";

Device choose_device(const std::string& wanted) {
    const int cuda = fulcrum::device_count(DeviceType::cuda);
    if (wanted == "cpu" || (wanted == "auto" && cuda == 0)) return fulcrum::kCpu;
    if (cuda == 0) {
        throw fulcrum::DeviceError(
            fmt::format("--device cuda: no CUDA device can be used: {}; --device cpu works",
                        fulcrum::unavailable_reason(DeviceType::cuda)));
    }
    return Device{DeviceType::cuda, 0};
}

/// The images of a run.
struct Images {
    data::DatasetPair sets;
    data::Normalization normalization;
    std::string description;
    bool synthetic = false;

    std::string train_set() const {
        return fmt::format("{}, {} training images", sets.train.name, sets.train.count());
    }
};

data::ImageDataset limited(const data::ImageDataset& set, const char* option, std::int64_t limit) {
    if (limit == 0) return set;
    if (limit > set.count()) {
        throw UsageError(
            fmt::format("--{}: {} is more than the {} images there are", option, limit, set.count()));
    }
    return set.subset(limit);
}

Images load_images(const Options& options) {
    Images images;
    if (options.data == "synthetic") {
        const auto count = [](std::int64_t limit, std::int64_t usual) { return limit > 0 ? limit : usual; };
        images.sets = data::make_synthetic(kSyntheticSeed, count(options.train_limit, kSyntheticTrain),
                                           count(options.test_limit, kSyntheticTest));
    } else {
        images.sets = data::load_cifar10(options.data);
        images.sets.train = limited(images.sets.train, "train-limit", options.train_limit);
        images.sets.test = limited(images.sets.test, "test-limit", options.test_limit);
    }
    const auto classes = static_cast<std::int64_t>(images.sets.train.class_names.size());
    if (classes > options.num_classes) {
        throw UsageError(fmt::format("--num-classes: {} are fewer than the {} classes of the data",
                                     options.num_classes, classes));
    }
    images.synthetic = images.sets.train.synthetic;
    images.normalization = images.sets.train.name == "cifar10"
                               ? data::kCifar10Normalization
                               : data::measure_normalization(images.sets.train);
    images.description = data::describe(images.sets);
    return images;
}

data::DataLoader make_loader(const Options& options, const Images& images, bool training) {
    data::LoaderOptions loader;
    loader.batch_size = options.batch_size;
    loader.normalization = images.normalization;
    loader.dtype = options.precision;
    loader.seed = options.seed;
    // Testing needs no random draws and is a small share of a run.
    loader.workers =
        static_cast<int>(training ? options.workers : std::min<std::int64_t>(options.workers, 1));
    if (training) {
        loader.shuffle = true;
        loader.augment.crop_padding = options.crop;
        loader.augment.flip = options.flip;
        loader.augment.cutout = options.cutout;
    }
    return {training ? images.sets.train : images.sets.test, loader};
}

std::shared_ptr<const optim::Schedule> make_schedule(const Options& options, std::int64_t steps_per_epoch) {
    const auto steps = [&](double epochs) {
        return static_cast<std::int64_t>(std::llround(epochs * static_cast<double>(steps_per_epoch)));
    };
    optim::ScheduleOptions schedule;
    schedule.lr = options.learning_rate();
    schedule.total_steps = options.epochs * steps_per_epoch;
    schedule.warmup_steps = steps(options.warmup);
    schedule.gamma = options.gamma;
    if (options.step_size > 0.0) schedule.step_size = std::max<std::int64_t>(1, steps(options.step_size));
    for (const double epoch : options.milestones)
        schedule.milestones.push_back(steps(epoch));
    return optim::make_schedule(options.schedule, schedule);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Options& options, const nn::Module& model) {
    const auto parameters = model.parameters();
    if (options.optimizer == "sgd") {
        optim::SgdOptions sgd;
        sgd.lr = options.learning_rate();
        sgd.momentum = options.momentum;
        sgd.nesterov = options.nesterov;
        sgd.weight_decay = options.weight_decay;
        return std::make_unique<optim::SGD>(parameters, sgd);
    }
    optim::AdamOptions adam;
    adam.lr = options.learning_rate();
    adam.weight_decay = options.weight_decay;
    if (options.optimizer == "adam") return std::make_unique<optim::Adam>(parameters, adam);
    return std::make_unique<optim::AdamW>(parameters, adam);
}

// ---- What is printed
// -----------------------------------------------------------------------------------------------

std::string synthetic_remark(bool synthetic) {
    return synthetic ? "  [SYNTHETIC images, not CIFAR-10]" : "";
}

void print_settings(const Options& o, const Images& images, Device device, std::int64_t steps_per_epoch) {
    const Settings s = settings_of(o);
    std::string update = fmt::format("{}, rate {}", o.optimizer, s.at("lr"));
    if (o.optimizer == "sgd")
        update += fmt::format(", momentum {}{}", o.momentum, o.nesterov ? " (Nesterov)" : "");
    update += fmt::format(", weight decay {}, schedule {}", o.weight_decay, o.schedule);
    if (o.warmup > 0.0) update += fmt::format(" after {} epochs of warm-up", o.warmup);
    if (o.label_smoothing > 0.0) update += fmt::format(", label smoothing {}", o.label_smoothing);
    const int threads = fulcrum::num_threads();
    std::string where =
        fmt::format("{}, {} thread{}", fulcrum::to_string(device), threads, threads == 1 ? "" : "s");
    if (o.device == "auto" && device == fulcrum::kCpu) {
        where += fmt::format(" (no CUDA: {})", fulcrum::unavailable_reason(DeviceType::cuda));
    }
    const std::string stem = o.model == "small_cnn" ? "" : fmt::format(", {} stem", nn::name_of(o.stem));
    fmt::print("train-cifar10 {}\n", fulcrum::version());
    fmt::print("  data      {}\n", images.description);
    fmt::print("  network   {}{}, {} classes, activations {}\n", o.model, stem, o.num_classes,
               fulcrum::name_of(o.precision));
    if (!o.eval_only) {
        fmt::print("  training  {} epochs of {} steps, batch {}, augmentation {}, seed {}\n", o.epochs,
                   steps_per_epoch, o.batch_size, s.at("augment"), o.seed);
        fmt::print("  update    {}\n", update);
    }
    fmt::print("  device    {}\n", where);
    for (const auto& [name, path] :
         {std::pair{"checkpoint", o.checkpoint}, std::pair{"resume    ", o.resume},
          std::pair{"weights   ", o.weights}, std::pair{"export    ", o.export_path},
          std::pair{"log       ", o.log}}) {
        if (!path.empty()) fmt::print("  {}{}\n", name, name[0] == 'c' ? " " + path.string() : path.string());
    }
}

void print_epoch(const nn::EpochReport& report, std::int64_t epochs, bool synthetic) {
    const auto& stats = report.stats;
    const double total = std::max(stats.time.total(), 1e-9);
    fmt::print("epoch {}/{}{}  loss {:.4f}  accuracy {:.2f}%", stats.epoch + 1, epochs,
               report.complete ? "" : fmt::format(" (up to step {})", report.step), stats.train.loss(),
               100.0 * stats.train.accuracy());
    if (report.test) {
        fmt::print("  test loss {:.4f}  test accuracy {:.2f}%", report.test->loss(),
                   100.0 * report.test->accuracy());
    }
    fmt::print("{}\n", synthetic_remark(synthetic));
    fmt::print(
        "  {} ({:.0f} images/s): data {:.1f}%  transfer {:.1f}%  forward {:.1f}%  backward {:.1f}%  "
        "optimizer "
        "{:.1f}%;  test {:.1f} s;  peak memory {:.0f} MiB\n",
        clock_text(report.seconds), stats.images_per_second(), 100.0 * stats.time.data / total,
        100.0 * stats.time.transfer / total, 100.0 * stats.time.forward / total,
        100.0 * stats.time.backward / total, 100.0 * stats.time.optimizer / total, report.test_seconds,
        static_cast<double>(report.peak_memory) / (1 << 20));
    std::fflush(stdout);
}

std::string quoted(const std::string& text) {
    if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=+,:") ==
        std::string::npos) {
        return text;
    }
    std::string result = "'";
    for (const char c : text)
        result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
}

/// The command that continues a run.
std::string resume_command(const std::string& program, const Options& options) {
    std::string command = quoted(program) + " --resume " + quoted(options.checkpoint.string());
    if (!options.export_path.empty()) command += " --export " + quoted(options.export_path.string());
    if (!options.log.empty()) command += " --log " + quoted(options.log.string());
    return command;
}

/// Refuses a run whose last batch of an epoch would have a single image where batch norm needs more: known
/// from the start, so not worth an epoch's wait.
void check_last_batch(const Options& options, std::int64_t images, const nn::Summary& summary) {
    if (options.batch_size > 1 && images % options.batch_size != 1) return;
    for (const nn::SummaryRow& row : summary.rows) {
        const bool single =
            row.output.size() == 2 || (row.output.size() == 4 && row.output[2] * row.output[3] == 1);
        if (row.type.rfind("BatchNorm", 0) == 0 && single) {
            throw UsageError(fmt::format(
                "--batch-size: {} leaves a last batch of one image ({} in all), of which batch norm "
                "'{}' would see one value per channel; choose another batch size or --train-limit",
                options.batch_size, images, row.path));
        }
    }
}

// ---- The two jobs
// --------------------------------------------------------------------------------------------------

int evaluate_only(const Options& options, const Images& images, nn::Module& model,
                  const std::optional<nn::Checkpoint>& checkpoint) {
    if (checkpoint) {
        try {
            model.load_state_dict(checkpoint->model);
        } catch (const fulcrum::Error& error) {
            throw fulcrum::IoError(fmt::format("{}: {}", options.resume.string(), error.what()));
        }
    }
    data::DataLoader loader = make_loader(options, images, false);
    const auto tally = nn::evaluate(model, loader, &stop_wanted());
    if (!tally) return kStopped;
    fmt::print("test loss {:.6f}  test accuracy {:.2f}% ({} of {}){}\n", tally->loss(),
               100.0 * tally->accuracy(), tally->correct, tally->images, synthetic_remark(images.synthetic));
    return kDone;
}

/// Refuses to continue on other images, and says when bits may differ.
void compare_with_checkpoint(const nn::Checkpoint& checkpoint, const Options& options, const Images& images) {
    const auto kept = [&](const char* key) {
        const auto found = checkpoint.settings.find(key);
        return found == checkpoint.settings.end() ? std::string() : found->second;
    };
    if (kept(kDataKey) != images.train_set()) {
        throw fulcrum::ValueError(
            fmt::format("'{}' was trained on other images ({}) than those of --data {} ({})",
                        options.resume.string(), kept(kDataKey), options.data, images.train_set()));
    }
    const std::string threads = std::to_string(fulcrum::num_threads());
    if (kept(kThreadsKey) != threads) {
        fmt::print("note: CPU threads here: {}, before: {}; results may differ in their last bits\n", threads,
                   kept(kThreadsKey));
    }
}

int train(const std::string& program, const Options& options, const Images& images, nn::Module& model,
          const nn::Summary& summary, const std::optional<nn::Checkpoint>& checkpoint) {
    data::DataLoader train_loader = make_loader(options, images, true);
    data::DataLoader test_loader = make_loader(options, images, false);
    const auto schedule = make_schedule(options, train_loader.size());
    const auto optimizer = make_optimizer(options, model);
    nn::TrainerOptions trainer_options;
    trainer_options.label_smoothing = options.label_smoothing;
    trainer_options.detect_anomaly = options.detect_anomaly;
    nn::Trainer trainer(model, *optimizer, *schedule, trainer_options);

    RunFacts facts;
    facts.settings = settings_of(options);
    facts.data = images.description;
    facts.synthetic = images.synthetic;
    facts.train_images = images.sets.train.count();
    facts.test_images = images.sets.test.count();
    facts.parameters = summary.parameters;
    facts.multiply_adds = summary.multiply_adds.usual;

    nn::FitOptions fit;
    fit.epochs = options.epochs;
    fit.max_steps = options.steps;
    fit.checkpoint = options.checkpoint;
    fit.save_every = options.save_every;
    fit.settings = facts.settings;
    fit.settings[kDataKey] = images.train_set();
    fit.settings[kThreadsKey] = std::to_string(fulcrum::num_threads());
    fit.stop = &stop_wanted();

    RunLog log(options.log);
    if (checkpoint) {
        compare_with_checkpoint(*checkpoint, options, images);
        trainer.restore(*checkpoint, options.resume);
        fmt::print("continuing after {} steps, in epoch {}\n", trainer.step_count(), trainer.epoch() + 1);
        log.resume(facts, trainer.epoch(), trainer.step_count());
    } else {
        log.begin(facts);
    }
    std::fflush(stdout);

    const std::int64_t all_steps = options.epochs * train_loader.size();
    Progress progress(options.epochs, options.steps > 0 ? std::min(options.steps, all_steps) : all_steps,
                      trainer.step_count());
    std::optional<nn::Tally> last_test;
    fit.on_step = [&](const nn::StepReport& report) { progress.step(report); };
    fit.on_epoch = [&](const nn::EpochReport& report) {
        progress.clear();
        log.epoch(report, images.synthetic);
        print_epoch(report, options.epochs, images.synthetic);
        last_test = report.test;
    };
    const nn::FitEnd end = trainer.fit(train_loader, &test_loader, fit);
    progress.clear();

    if (end == nn::FitEnd::stopped) {
        fmt::print("stopped after step {}, in epoch {}\n", trainer.step_count(), trainer.epoch() + 1);
        if (options.checkpoint.empty()) {
            fmt::print("nothing was saved: --checkpoint FILE keeps the run the next time\n");
        } else {
            fmt::print("saved; continue with\n  {}\n", resume_command(program, options));
        }
        return kStopped;
    }
    if (!options.export_path.empty()) {
        nn::save_weights(model, options.export_path);
        fmt::print("weights written to {}\n", options.export_path.string());
    }
    if (last_test) {
        fmt::print("{} after {} steps: test accuracy {:.2f}% on {}{}\n", options.model, trainer.step_count(),
                   100.0 * last_test->accuracy(), images.sets.test.name, synthetic_remark(images.synthetic));
    } else {
        fmt::print("nothing was left to train: the run has its {} epochs\n", options.epochs);
    }
    return kDone;
}

int run(int argc, char** argv) {
    std::optional<nn::Checkpoint> checkpoint;
    const auto options = parse_options(argc, argv, checkpoint);
    if (!options) return kDone;
    const Device device = choose_device(options->device);
    if (options->threads > 0) fulcrum::set_num_threads(static_cast<int>(options->threads));
    catch_stop_signals();

    const Images images = load_images(*options);
    fulcrum::manual_seed(options->seed);
    const auto model = nn::make_model(options->model, {options->num_classes, options->stem});
    if (!options->weights.empty()) nn::load_weights(*model, options->weights);
    model->to(device);

    const std::int64_t count = images.sets.train.count();
    print_settings(*options, images, device, (count + options->batch_size - 1) / options->batch_size);
    const nn::Summary summary = nn::summarize(*model);
    fmt::print("\n{}\n", nn::to_string(summary));
    if (options->eval_only) return evaluate_only(*options, images, *model, checkpoint);
    check_last_batch(*options, count, summary);
    return train(argv[0], *options, images, *model, summary, checkpoint);
}

/// One line for the user.
int complain(std::string message, int code) {
    std::replace(message.begin(), message.end(), '\n', ' ');
    // After an error of standard output itself there is nothing to flush it for.
    std::fflush(stdout);
    fmt::print(stderr, "train-cifar10: {}\n", message);
    return code;
}

}  // namespace

}  // namespace train_cifar10

int main(int argc, char** argv) {
    using namespace train_cifar10;
    try {
        const int code = run(argc, argv);
        if (std::fflush(stdout) != 0) return complain("standard output cannot be written", kFailed);
        return code;
    } catch (const UsageError& error) {
        return complain(error.what(), kBadUsage);
    } catch (const std::bad_alloc&) {
        return complain("the machine's memory is exhausted; a smaller --batch-size needs less", kFailed);
    } catch (const std::exception& error) {
        return complain(error.what(), kFailed);
    }
}
