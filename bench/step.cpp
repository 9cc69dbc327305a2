/// \file
/// Times one training step of a network: forward, cross-entropy, backward and an SGD step with momentum, on
/// one fixed batch of random images. Prints one JSON object, so that a script can set it beside
/// bench/peers/pytorch_step.py. With `--busy` another process spins on one of the cores meanwhile, which
/// shows what waiting for a thread that has lost its core costs.

#include "bench/measure.h"

#include <fulcrum/fulcrum.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace fulcrum;
using namespace fulcrum::bench;

struct Options {
    std::string model = "small_cnn";
    std::string stem = "imagenet";
    std::string precision = "f32";
    std::string device = "cpu";
    std::int64_t num_classes = 10;
    std::int64_t batch_size = 128;
    int threads = 0;
    int warmup = 5;
    int steps = 20;
    double seconds = std::numeric_limits<double>::infinity();
    bool busy = false;
};

nlohmann::json run(const Options& options) {
    std::optional<BusyNeighbour> neighbour;
    if (options.busy) neighbour.emplace();
    const Device device = parse_device(options.device);
    if (options.threads > 0) set_num_threads(options.threads);
    manual_seed(0);
    const auto model = nn::make_model(
        options.model, {.num_classes = options.num_classes, .stem = nn::parse_stem(options.stem)});
    model->to(device);
    optim::SGD optimizer(model->named_parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});

    const DType dtype = parse_dtype(options.precision);
    const Tensor images =
        normal({options.batch_size, 3, 32, 32}, 0.0, 1.0, {.format = MemoryFormat::channels_last})
            .to(dtype)
            .to(device);
    std::vector<std::int64_t> classes(static_cast<std::size_t>(options.batch_size));
    for (std::size_t i = 0; i < classes.size(); ++i)
        classes[i] = static_cast<std::int64_t>(i) % options.num_classes;
    const Tensor labels =
        from_data<std::int64_t>(classes, {options.batch_size}, {.dtype = DType::i64, .device = device});

    struct Split {
        std::vector<double> forward, backward, optimizer, total;
    } split;
    Tensor loss;
    const auto step = [&] {
        const auto begin = Clock::now();
        optimizer.zero_grad();
        loss = cross_entropy((*model)(images), labels);
        synchronize(device);
        const double forward = milliseconds_since(begin);
        loss.backward();
        synchronize(device);
        const double backward = milliseconds_since(begin);
        optimizer.step();
        synchronize(device);
        const double total = milliseconds_since(begin);
        split.forward.push_back(forward);
        split.backward.push_back(backward - forward);
        split.optimizer.push_back(total - backward);
        split.total.push_back(total);
    };
    repeat(step, options.warmup, 2, options.seconds);
    split = {};
    reset_peak_memory(device);
    repeat(step, options.steps, 3, options.seconds);

    nlohmann::json environment;
    for (const auto& [key, value] : runtime(device).describe())
        environment[key] = value;
    const double typical = median(split.total);
    return {{"framework", "fulcrum"},
            {"version", version()},
            {"model", options.model},
            {"stem", options.stem},
            {"parameters", model->parameter_count()},
            {"batch_size", options.batch_size},
            {"precision", options.precision},
            {"device", to_string(device)},
            {"threads", num_threads()},
            {"busy_neighbour", options.busy},
            {"step_ms", split.total},
            {"median_ms", typical},
            {"forward_ms", median(split.forward)},
            {"backward_ms", median(split.backward)},
            {"optimizer_ms", median(split.optimizer)},
            {"images_per_second", static_cast<double>(options.batch_size) / typical * 1e3},
            {"loss", loss.item()},
            {"peak_tensor_mib", static_cast<double>(memory_stats(device).peak) / (1024.0 * 1024.0)},
            {"peak_rss_mib", peak_rss_mib()},
            {"environment", environment}};
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Times one training step of a network and prints a JSON object");
    app.add_option("--model", options.model, "a registered model")->capture_default_str();
    app.add_option("--stem", options.stem, "imagenet or cifar")->capture_default_str();
    app.add_option("--num-classes", options.num_classes)
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    app.add_option("--batch-size", options.batch_size)->check(CLI::Range(1, 1 << 20))->capture_default_str();
    app.add_option("--precision", options.precision)
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->capture_default_str();
    app.add_option("--device", options.device, "cpu or cuda")->capture_default_str();
    app.add_option("--threads", options.threads, "0 takes all physical cores")->check(CLI::Range(0, 4096));
    app.add_option("--warmup", options.warmup)->check(CLI::Range(0, 1 << 20))->capture_default_str();
    app.add_option("--steps", options.steps)->check(CLI::Range(1, 1 << 20))->capture_default_str();
    app.add_option("--seconds", options.seconds,
                   "warm up and measure no longer than this each, but for two and three steps at least")
        ->check(CLI::NonNegativeNumber);
    app.add_flag("--busy", options.busy, "beside a process that keeps one of our cores busy");
    CLI11_PARSE(app, argc, argv);
    try {
        std::puts(run(options).dump().c_str());
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "step: %s\n", failure.what());
        return 1;
    }
    return 0;
}
