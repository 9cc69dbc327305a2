#include "train_options.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace train_cifar10 {

namespace fs = std::filesystem;
namespace nn = fulcrum::nn;
namespace optim = fulcrum::optim;

namespace {

/// What a resumed run does with an option.
enum class Keep : std::uint8_t {
    fixed,      ///< kept in the checkpoint, and may not change
    free,       ///< kept in the checkpoint, and may change
    per_start,  ///< not kept: belongs to one start of the program
};

/// One option: how it is read, written and kept.
struct Field {
    std::string name;   ///< without dashes
    std::string value;  ///< what its value is called in the help; empty for a switch
    std::string help;
    std::string group;
    Keep keep = Keep::fixed;
    std::function<void(const std::string&)> set;
    std::function<std::string()> get;
};

// ---- Text to values
// ------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& name, const std::string& text, const std::string& wanted) {
    throw UsageError(fmt::format("--{}: '{}' is not {}", name, text, wanted));
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || rest != end) return std::nullopt;
    return number;
}

template <class Integer>
Integer parse_integer(const std::string& name, const std::string& text, Integer low, Integer high) {
    const auto number = parse_number<Integer>(text);
    if (!number || *number < low || *number > high) {
        refuse(name, text, fmt::format("a whole number from {} to {}", low, high));
    }
    return *number;
}

/// \param wanted says the range in words.
double parse_real(const std::string& name, const std::string& text, double low, double high,
                  bool high_allowed, const char* wanted) {
    const auto number = parse_number<double>(text);
    if (!number || !std::isfinite(*number) || *number < low || *number > high ||
        (*number == high && !high_allowed)) {
        refuse(name, text, wanted);
    }
    return *number;
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

std::string one_of(const std::vector<std::string>& names) {
    return fmt::format("one of {}", fmt::join(names, ", "));
}

/// `none`, or a list of `crop[=N]`, `flip`, `cutout[=N]`.
void parse_augment(Options& options, const std::string& text) {
    options.crop = options.cutout = 0;
    options.flip = false;
    if (text == "none") return;
    const auto size = [&](const std::string& part, std::size_t at, std::int64_t usual) {
        const std::string number = part.substr(at);
        return number.empty()
                   ? usual
                   : parse_integer<std::int64_t>("augment", number.substr(1), 1, fulcrum::data::kImageSide);
    };
    const auto has = [](const std::string& part, const std::string& name) {
        return part == name || part.rfind(name + "=", 0) == 0;
    };
    for (const std::string& part : split(text)) {
        if (has(part, "crop")) {
            options.crop = size(part, 4, 4);
        } else if (part == "flip") {
            options.flip = true;
        } else if (has(part, "cutout")) {
            options.cutout = size(part, 6, 16);
        } else {
            refuse("augment", text,
                   "none, or a list such as crop,flip,cutout (crop=N: pixels, cutout=N: side)");
        }
    }
}

std::string augment_text(const Options& options) {
    std::vector<std::string> parts;
    if (options.crop > 0) parts.push_back(fmt::format("crop={}", options.crop));
    if (options.flip) parts.emplace_back("flip");
    if (options.cutout > 0) parts.push_back(fmt::format("cutout={}", options.cutout));
    return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ","));
}

// ---- The table
// -----------------------------------------------------------------------------------------------------

class FieldTable {
  public:
    explicit FieldTable(Options& options) : o_(options) {
        add_model();
        add_data();
        add_training();
        add_machine();
        add_files();
    }
    const std::vector<Field>& fields() const { return fields_; }

  private:
    template <class Integer>
    void integer(const char* group, const char* name, Keep keep, Integer& target, Integer low, Integer high,
                 const std::string& help) {
        fields_.push_back({name, "N", help, group, keep,
                           [=, &target, key = std::string(name)](const std::string& text) {
                               target = parse_integer<Integer>(key, text, low, high);
                           },
                           [&target] { return std::to_string(target); }});
    }

    void real(const char* group, const char* name, double& target, double low, double high, bool high_allowed,
              const char* wanted, const std::string& help) {
        fields_.push_back({name, "X", help, group, Keep::fixed,
                           [=, &target, key = std::string(name)](const std::string& text) {
                               target = parse_real(key, text, low, high, high_allowed, wanted);
                           },
                           [&target] { return fmt::format("{}", target); }});
    }

    void choice(const char* group, const char* name, Keep keep, std::string& target,
                std::vector<std::string> names, const std::string& help) {
        fields_.push_back({name, "NAME", help + ": " + fmt::format("{}", fmt::join(names, ", ")), group, keep,
                           [=, &target, key = std::string(name)](const std::string& text) {
                               if (std::find(names.begin(), names.end(), text) == names.end()) {
                                   refuse(key, text, one_of(names));
                               }
                               target = text;
                           },
                           [&target] { return target; }});
    }

    void toggle(const char* group, const char* name, Keep keep, bool& target, const std::string& help) {
        fields_.push_back({name, "", help, group, keep,
                           [&target](const std::string& text) { target = text == "true"; },
                           [&target] { return std::string(target ? "true" : "false"); }});
    }

    void path(const char* name, fs::path& target, const std::string& help) {
        fields_.push_back({name, "FILE", help, "Files", Keep::per_start,
                           [&target, key = std::string(name)](const std::string& text) {
                               if (text.empty())
                                   throw UsageError(fmt::format("--{}: the path is empty", key));
                               target = text;
                           },
                           [&target] { return target.string(); }});
    }

    void add_model() {
        const char* group = "Network";
        choice(group, "model", Keep::fixed, o_.model, nn::model_names(), "network");
        fields_.push_back({"stem", "NAME", "first layers of a ResNet: imagenet, cifar (3x3, stride 1)", group,
                           Keep::fixed,
                           [this](const std::string& text) {
                               if (text != "imagenet" && text != "cifar")
                                   refuse("stem", text, "imagenet or cifar");
                               o_.stem = nn::parse_stem(text);
                           },
                           [this] { return std::string(nn::name_of(o_.stem)); }});
        integer<std::int64_t>(group, "num-classes", Keep::fixed, o_.num_classes, 1, 1'000'000,
                              "width of the last layer, at least the classes of the data");
    }

    void add_data() {
        const char* group = "Data";
        const std::int64_t most = 1'000'000;
        fields_.push_back({"data", "FOLDER",
                           "folder with CIFAR-10's binary files, or 'synthetic' (default: $FULCRUM_DATA)",
                           group, Keep::free,
                           [this](const std::string& text) {
                               if (text.empty()) throw UsageError("--data: the path is empty");
                               o_.data = text;
                           },
                           [this] { return o_.data; }});
        integer<std::int64_t>(group, "train-limit", Keep::fixed, o_.train_limit, 0, most,
                              "train on the first N images only; 0: all (of the synthetic set: 10000)");
        integer<std::int64_t>(group, "test-limit", Keep::free, o_.test_limit, 0, most,
                              "test on the first N images only; 0: all (of the synthetic set: 2000)");
        fields_.push_back({"augment", "LIST",
                           "none, or any of crop[=4],flip,cutout[=16]: random crop after padding, mirroring, "
                           "a blank square",
                           group, Keep::fixed, [this](const std::string& text) { parse_augment(o_, text); },
                           [this] { return augment_text(o_); }});
        integer<std::int64_t>(
            group, "workers", Keep::free, o_.workers, 0, 64,
            "threads that prepare training batches ahead (and one for the test's); 0: none");
    }

    void add_training() {
        const char* group = "Training";
        const double huge = std::numeric_limits<double>::max();
        integer<std::int64_t>(group, "epochs", Keep::fixed, o_.epochs, 1, 1'000'000,
                              "passes over the training images");
        integer<std::int64_t>(group, "steps", Keep::per_start, o_.steps, 1, std::int64_t{1} << 40,
                              "stop after N steps of the whole run, inside an epoch too");
        integer<std::int64_t>(group, "batch-size", Keep::fixed, o_.batch_size, 1, 1'000'000,
                              "images in a step");
        choice(group, "optimizer", Keep::fixed, o_.optimizer, {"sgd", "adam", "adamw"}, "update rule");
        fields_.push_back({"lr", "X", "learning rate (default: 0.05 with sgd, 0.001 otherwise)", group,
                           Keep::fixed,
                           [this, huge](const std::string& text) {
                               o_.lr = parse_real("lr", text, 0.0, huge, true, "a number of at least 0");
                           },
                           [this] { return fmt::format("{}", o_.learning_rate()); }});
        real(group, "momentum", o_.momentum, 0.0, 1.0, false, "a number from 0 to below 1", "of sgd");
        toggle(group, "nesterov", Keep::fixed, o_.nesterov, "Nesterov's variant of momentum");
        real(group, "weight-decay", o_.weight_decay, 0.0, huge, true, "a number of at least 0",
             "L2 factor (with adamw: decoupled)");
        real(group, "label-smoothing", o_.label_smoothing, 0.0, 1.0, true, "a number from 0 to 1",
             "share of the target spread over all classes");
        choice(group, "schedule", Keep::fixed, o_.schedule, optim::schedule_names(),
               "how the rate moves, step by step");
        real(group, "warmup", o_.warmup, 0.0, 1e6, true, "a number of epochs of at least 0",
             "epochs of linear warm-up before the schedule");
        real(group, "gamma", o_.gamma, 0.0, huge, true, "a number of at least 0",
             "factor of step and multistep");
        real(group, "step-size", o_.step_size, 0.0, 1e6, true, "a number of epochs of at least 0",
             "epochs between drops of step; 0: a third of the run");
        fields_.push_back({"milestones", "LIST",
                           "epochs of multistep's drops, as 60,120 (default: at 1/2 and 3/4)", group,
                           Keep::fixed,
                           [this](const std::string& text) {
                               o_.milestones.clear();
                               if (text.empty()) return;
                               for (const std::string& part : split(text)) {
                                   o_.milestones.push_back(parse_real("milestones", part, 0.0, 1e6, true,
                                                                      "a number of epochs of at least 0"));
                               }
                           },
                           [this] { return fmt::format("{}", fmt::join(o_.milestones, ",")); }});
        fields_.push_back({"precision", "NAME", "of activations: f32, bf16 (weights stay f32)", group,
                           Keep::fixed,
                           [this](const std::string& text) {
                               if (text != "f32" && text != "bf16") refuse("precision", text, "f32 or bf16");
                               o_.precision = fulcrum::parse_dtype(text);
                           },
                           [this] { return std::string(fulcrum::name_of(o_.precision)); }});
        integer<std::uint64_t>(group, "seed", Keep::fixed, o_.seed, 0,
                               std::numeric_limits<std::uint64_t>::max(),
                               "of the first weights, the order and the augmentation");
    }

    void add_machine() {
        const char* group = "Machine";
        choice(group, "device", Keep::free, o_.device, {"auto", "cpu", "cuda"}, "where to compute");
        integer<std::int64_t>(group, "threads", Keep::free, o_.threads, 1, 1024,
                              "CPU threads (default: $OMP_NUM_THREADS, else the physical cores)");
        toggle(group, "deterministic", Keep::free, o_.deterministic,
               "only algorithms that repeat their bits (the CPU's always do)");
        toggle(group, "detect-anomaly", Keep::per_start, o_.detect_anomaly,
               "name the operation that makes the first NaN or infinity (slow)");
    }

    void add_files() {
        path("checkpoint", o_.checkpoint, "save the run here, at the end of each epoch and when stopped");
        integer<std::int64_t>("Files", "save-every", Keep::free, o_.save_every, 0, std::int64_t{1} << 40,
                              "save every N steps too");
        path("resume", o_.resume, "continue the run of this checkpoint, with its settings");
        path("weights", o_.weights, "start from these weights (safetensors)");
        path("export", o_.export_path, "write the final weights here (safetensors)");
        path("log", o_.log, "append JSON lines here: the settings, then one object an epoch");
        toggle("Files", "overwrite", Keep::per_start, o_.overwrite,
               "let --checkpoint replace a file that exists");
        toggle("Files", "eval-only", Keep::per_start, o_.eval_only,
               "only test the weights of --resume or --weights");
    }

    Options& o_;
    std::vector<Field> fields_;
};

// ---- Checks that concern more than one option
// ----------------------------------------------------------------------

using Names = std::set<std::string>;

void check_combinations(const Options& o, const Names& given) {
    const auto only_with = [&](const char* name, bool allowed, const char* needs) {
        if (given.count(name) != 0 && !allowed) throw UsageError(fmt::format("--{} needs {}", name, needs));
    };
    only_with("stem", o.model != "small_cnn", "a ResNet: small_cnn has only one stem");
    only_with("momentum", o.optimizer == "sgd", "--optimizer sgd");
    only_with("nesterov", o.optimizer == "sgd" && o.momentum > 0.0,
              "--optimizer sgd and a --momentum above 0");
    only_with("gamma", o.schedule == "step" || o.schedule == "multistep", "--schedule step or multistep");
    only_with("step-size", o.schedule == "step", "--schedule step");
    only_with("milestones", o.schedule == "multistep", "--schedule multistep");
    if (o.warmup > 0.0 && o.schedule == "one_cycle") {
        throw UsageError("--warmup does not go with --schedule one_cycle, which warms up by itself");
    }
    if (o.warmup > 0.0 && o.warmup >= static_cast<double>(o.epochs)) {
        throw UsageError(
            fmt::format("--warmup: {} epochs leave nothing of the run's {}", o.warmup, o.epochs));
    }
    only_with("save-every", !o.checkpoint.empty(), "--checkpoint, which says where");
    only_with("overwrite", !o.checkpoint.empty(), "--checkpoint");
    if (o.eval_only) {
        if (o.weights.empty() && o.resume.empty()) {
            throw UsageError("--eval-only needs weights to test: --resume CHECKPOINT or --weights FILE");
        }
        for (const char* name : {"checkpoint", "export", "log", "steps", "save-every"}) {
            if (given.count(name) != 0)
                throw UsageError(fmt::format("--{} does not go with --eval-only", name));
        }
    }
}

std::string parent_of(const fs::path& path) {
    const fs::path parent = path.parent_path();
    return parent.empty() ? "." : parent.string();
}

bool same_file(const fs::path& a, const fs::path& b) {
    if (a.empty() || b.empty()) return false;
    std::error_code error;
    return fs::weakly_canonical(fs::absolute(a), error) == fs::weakly_canonical(fs::absolute(b), error);
}

/// Refuses an output that is known to fail. \param device_allowed the file may be a device or a pipe, such as
/// /dev/stdout.
void check_output(const char* name, const fs::path& path, bool device_allowed) {
    if (path.empty()) return;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status)) {
        throw UsageError(fmt::format("--{}: '{}' is a folder; name a file in it", name, path.string()));
    }
    if (fs::exists(status) && !fs::is_regular_file(status)) {
        if (device_allowed) return;
        throw UsageError(fmt::format("--{}: '{}' is not a regular file", name, path.string()));
    }
    const std::string parent = parent_of(path);
    if (!fs::is_directory(parent, error)) {
        throw UsageError(fmt::format("--{}: folder '{}' does not exist; make it first", name, parent));
    }
    if (::access(parent.c_str(), W_OK | X_OK) != 0) {
        throw UsageError(fmt::format("--{}: cannot write into folder '{}': {}", name, parent,
                                     std::generic_category().message(errno)));
    }
    if (device_allowed && fs::exists(status) && ::access(path.c_str(), W_OK) != 0) {
        throw UsageError(fmt::format("--{}: cannot write '{}': {}", name, path.string(),
                                     std::generic_category().message(errno)));
    }
}

void check_outputs(const Options& o) {
    check_output("checkpoint", o.checkpoint, false);
    check_output("export", o.export_path, false);
    check_output("log", o.log, true);
    const std::vector<std::pair<const char*, fs::path>> outputs{
        {"checkpoint", o.checkpoint}, {"export", o.export_path}, {"log", o.log}};
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        for (std::size_t j = i + 1; j < outputs.size(); ++j) {
            if (!outputs[i].second.empty() && same_file(outputs[i].second, outputs[j].second)) {
                throw UsageError(fmt::format("--{} and --{} name the same file '{}'", outputs[i].first,
                                             outputs[j].first, outputs[i].second.string()));
            }
        }
        for (const auto& [name, input] : {std::pair{"weights", o.weights}, std::pair{"resume", o.resume}}) {
            const bool continues = i == 0 && std::string_view(name) == "resume";
            if (!continues && !input.empty() && same_file(outputs[i].second, input)) {
                throw UsageError(fmt::format("--{} would replace '{}', which --{} reads", outputs[i].first,
                                             input.string(), name));
            }
        }
    }
    std::error_code error;
    const bool continues = !o.resume.empty() && same_file(o.checkpoint, o.resume);
    if (!o.checkpoint.empty() && !continues && !o.overwrite && fs::exists(o.checkpoint, error)) {
        throw UsageError(
            fmt::format("--checkpoint: '{}' exists: continue it with --resume, or allow its loss with "
                        "--overwrite",
                        o.checkpoint.string()));
    }
}

void check_data(Options& o) {
    if (o.data.empty()) {
        const char* variable = std::getenv("FULCRUM_DATA");
        if (variable != nullptr) o.data = variable;
    }
    if (o.data.empty()) {
        throw UsageError(
            "no images: give --data FOLDER (data/download.sh FOLDER fetches CIFAR-10), set FULCRUM_DATA, or "
            "take drawn ones with --data synthetic");
    }
    if (o.data != "synthetic") o.data = fs::absolute(o.data).lexically_normal().string();
}

// ---- Resuming
// ------------------------------------------------------------------------------------------------------

/// True when another number of epochs would change rates that the run has had already.
bool schedule_depends_on_length(const Options& o) {
    return !(o.schedule == "constant" || (o.schedule == "step" && o.step_size > 0.0) ||
             (o.schedule == "multistep" && !o.milestones.empty()));
}

/// Takes from `kept` what was not given, and refuses what differs.
void adopt(const std::vector<Field>& fields, const Settings& kept, const Names& given, Options& o) {
    static const Names of_the_network{"model", "stem", "num-classes"};
    std::vector<std::string> conflicts;
    for (const Field& field : fields) {
        const auto found = kept.find(field.name);
        if (field.keep == Keep::per_start || found == kept.end()) continue;
        if (given.count(field.name) == 0) {
            field.set(found->second);
        } else if (field.keep == Keep::fixed && field.name != "epochs" && field.get() != found->second &&
                   (!o.eval_only || of_the_network.count(field.name) != 0)) {
            conflicts.push_back(fmt::format("--{} {} (there {})", field.name, field.get(), found->second));
        }
    }
    const auto epochs = kept.find("epochs");
    if (!o.eval_only && epochs != kept.end() && epochs->second != std::to_string(o.epochs) &&
        schedule_depends_on_length(o)) {
        conflicts.push_back(fmt::format("--epochs {} (there {}, and the {} schedule depends on it)", o.epochs,
                                        epochs->second, o.schedule));
    }
    if (!conflicts.empty()) {
        throw UsageError(
            fmt::format("'{}' was made with other settings: {}; leave them out to continue it, or start anew",
                        o.resume.string(), fmt::join(conflicts, ", ")));
    }
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, std::optional<nn::Checkpoint>& checkpoint) {
    Options options;
    const FieldTable table(options);
    Names given;

    CLI::App app{"Trains and tests networks on CIFAR-10.", "train-cifar10"};
    app.set_version_flag("--version", std::string(fulcrum::version()), "print the version and exit");
    app.footer(
        "Exit codes: 0 done, 1 failed, 2 a command line that cannot be followed, 3 stopped by Ctrl-C or "
        "SIGTERM\n"
        "after saving (a second Ctrl-C ends at once).");
    for (const Field& field : table.fields()) {
        const auto note = [&field, &given](const std::string& text) {
            field.set(text);
            given.insert(field.name);
        };
        CLI::Option* option = nullptr;
        if (field.value.empty()) {
            option = app.add_flag_callback(
                "--" + field.name, [note] { note("true"); }, field.help);
        } else {
            option = app.add_option_function<std::string>("--" + field.name, note, field.help)
                         ->type_name(field.value)
                         ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
            if (field.keep != Keep::per_start) {
                const std::string usual = field.get();
                if (!usual.empty() && field.name != "lr" && field.name != "threads")
                    option->default_str(usual);
            }
        }
        option->group(field.group);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& wanted) {
        app.exit(wanted);
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        throw UsageError(fmt::format("{} (--help lists the options)", error.what()));
    }

    if (!options.weights.empty() && !options.resume.empty()) {
        throw UsageError("--weights and --resume both say where the weights come from: give one of them");
    }
    if (!options.resume.empty()) {
        checkpoint = nn::load_checkpoint(options.resume);
        adopt(table.fields(), checkpoint->settings, given, options);
        if (options.checkpoint.empty() && !options.eval_only) options.checkpoint = options.resume;
    }
    check_combinations(options, given);
    check_data(options);
    check_outputs(options);
    return options;
}

Settings settings_of(Options options) {
    const FieldTable table(options);
    Settings settings;
    for (const Field& field : table.fields()) {
        if (field.keep == Keep::per_start) continue;
        if (field.name == "threads" && options.threads == 0) continue;
        settings[field.name] = field.get();
    }
    return settings;
}

}  // namespace train_cifar10
