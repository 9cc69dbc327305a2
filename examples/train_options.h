#pragma once

/// \file
/// The command line of train-cifar10: what can be set, what each value may be, and what a checkpoint keeps of
/// it.

#include <fulcrum/fulcrum.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace train_cifar10 {

/// A command line that cannot be followed; the message is one line that names the option.
class UsageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Everything that can be set. The values are those of a run without any option.
struct Options {
    std::string model = "small_cnn";
    fulcrum::nn::Stem stem = fulcrum::nn::Stem::imagenet;
    std::int64_t num_classes = 10;
    std::string data;  ///< a folder, or `synthetic`

    std::int64_t epochs = 10;
    std::int64_t steps = 0;  ///< 0: as many as the epochs have
    std::int64_t batch_size = 128;
    std::string optimizer = "sgd";
    std::optional<double> lr;  ///< without a value it follows from the optimiser
    double momentum = 0.9;
    bool nesterov = false;
    double weight_decay = 5e-4;
    double label_smoothing = 0.0;

    std::string schedule = "constant";
    double warmup = 0.0;  ///< epochs
    double gamma = 0.1;
    double step_size = 0.0;          ///< epochs; 0: a third of the run
    std::vector<double> milestones;  ///< epochs; empty: at a half and three quarters

    std::int64_t crop = 0;  ///< zeros around an image before a random crop
    bool flip = false;
    std::int64_t cutout = 0;                       ///< side of the square
    std::int64_t train_limit = 0, test_limit = 0;  ///< 0: all images
    std::int64_t workers = 0;

    fulcrum::DType precision = fulcrum::DType::f32;
    std::string device = "auto";
    std::int64_t threads = 0;  ///< 0: the library's choice
    std::uint64_t seed = 1;
    bool deterministic = false;
    bool detect_anomaly = false;

    std::filesystem::path checkpoint, resume, weights, export_path, log;
    std::int64_t save_every = 0;
    bool overwrite = false;
    bool eval_only = false;

    /// The rate in force: the given one, or the optimiser's usual one.
    double learning_rate() const { return lr.value_or(optimizer == "sgd" ? 0.05 : 1e-3); }
};

/// Settings of a run as text, by option name: what the log and the checkpoint keep.
using Settings = std::map<std::string, std::string>;

/// Reads the command line, and with `--resume` the checkpoint: settings that were not given come from it, and
/// one that differs from it where that would change the run is refused. \param checkpoint receives what
/// `--resume` read, if anything. \return nothing when help or the version was asked for and has been printed.
/// \throws UsageError, fulcrum::Error (a checkpoint that cannot be read).
std::optional<Options> parse_options(int argc, char** argv,
                                     std::optional<fulcrum::nn::Checkpoint>& checkpoint);

/// The settings in force. `--lr` has its value here even when it was not given.
Settings settings_of(Options options);

}  // namespace train_cifar10
