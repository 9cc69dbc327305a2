/// \file
/// Times what a user waits for before training begins: from the start of the process to the end of the first
/// step of a network on drawn images, loader and all, as `train-cifar10 --data synthetic` does it. Prints one
/// JSON object. A fresh process pays for loading the libraries, drawing the images, the weights, and all that
/// is made on first use, so run it several times and take the median.

#include "bench/measure.h"

#include <fulcrum/fulcrum.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>

namespace {

using namespace fulcrum;
using namespace fulcrum::bench;

struct Options {
    std::string model = "small_cnn";
    std::string precision = "f32";
    std::int64_t batch_size = 128;
    std::int64_t train_images = 10000;
    std::int64_t test_images = 2000;
    int threads = 0;
};

nlohmann::json run(const Options& options) {
    const double at_main = milliseconds_since_process_start();
    auto begin = Clock::now();
    const auto lap = [&] {
        const double elapsed = milliseconds_since(begin);
        begin = Clock::now();
        return elapsed;
    };
    if (options.threads > 0) set_num_threads(options.threads);
    const data::DatasetPair sets = data::make_synthetic(1, options.train_images, options.test_images);
    const data::Normalization normalization = data::measure_normalization(sets.train);
    const double images = lap();

    manual_seed(0);
    const auto model = nn::make_model(options.model);
    optim::SGD optimizer(model->named_parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4});
    nn::summarize(*model);
    const double network = lap();

    data::LoaderOptions loader_options;
    loader_options.batch_size = options.batch_size;
    loader_options.normalization = normalization;
    loader_options.dtype = parse_dtype(options.precision);
    loader_options.shuffle = true;
    data::DataLoader loader(sets.train, loader_options);
    const auto batch = loader.next();
    const double first_batch = lap();

    const Tensor loss = cross_entropy((*model)(batch->images), batch->labels);
    loss.backward();
    optimizer.step();
    const double step = lap();
    return {{"model", options.model},
            {"precision", options.precision},
            {"batch_size", options.batch_size},
            {"train_images", options.train_images},
            {"test_images", options.test_images},
            {"threads", num_threads()},
            {"start_ms", at_main},
            {"images_ms", images},
            {"network_ms", network},
            {"first_batch_ms", first_batch},
            {"first_step_ms", step},
            {"total_ms", at_main + images + network + first_batch + step},
            {"loss", loss.item()}};
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app(
        "Times the way from process start to the end of the first training step; prints a JSON object");
    app.add_option("--model", options.model, "a registered model")->capture_default_str();
    app.add_option("--precision", options.precision)
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->capture_default_str();
    app.add_option("--batch-size", options.batch_size)->check(CLI::Range(1, 1 << 20))->capture_default_str();
    app.add_option("--train-images", options.train_images)
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    app.add_option("--test-images", options.test_images)
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str();
    app.add_option("--threads", options.threads, "0 takes all physical cores")->check(CLI::Range(0, 4096));
    CLI11_PARSE(app, argc, argv);
    try {
        std::puts(run(options).dump().c_str());
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "startup: %s\n", failure.what());
        return 1;
    }
    return 0;
}
