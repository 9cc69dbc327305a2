/// \file
/// Times every kernel of a network's training step where it runs, inside the step, and holds each against
/// what the machine can do: useful work against the peak of a matrix product, bytes against the peak of a
/// copy. Prints a table, the slowest first, identical layers as one row, and the step's roofline; `--json`
/// keeps all of it.

#include "bench/measure.h"
#include "bench/peaks.h"
#include "bench/recorder.h"

#include <fulcrum/fulcrum.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace fulcrum;
using namespace fulcrum::bench;

struct Options {
    std::string model = "small_cnn";
    std::string stem = "imagenet";
    std::string precision = "f32";
    std::string filter;
    std::filesystem::path json;
    std::int64_t batch_size = 128;
    int threads = 0;
    int warmup = 5;
    int steps = 15;
    double seconds = std::numeric_limits<double>::infinity();
};

/// What the machine can do.
struct Peaks {
    double gemm = 0.0;  ///< GFLOP/s in the precision of the activations
    double copy = 0.0;  ///< GB/s
};

/// Identical calls of a step.
struct Row {
    Call call;
    int count = 0;
    double milliseconds = 0.0;  ///< of all of them in a step
};

/// A step's rows, the slowest first, and its time.
struct Profile {
    std::vector<Row> rows;
    double step = 0.0;      ///< milliseconds without the recorder
    double recorded = 0.0;  ///< with it
    double kernels = 0.0;   ///< sum over the rows

    double floor(const Peaks& peaks, bool all_bytes) const;
};

/// The least time a call can take: its useful work at the peak of a matrix product; for a call without
/// products its bytes at the peak of a copy. \param all_bytes count the bytes of products too. In
/// milliseconds.
double floor_of(const Call& call, const Peaks& peaks, bool all_bytes) {
    const double work = call.flops / peaks.gemm * 1e-6;
    const double bytes = call.bytes / peaks.copy * 1e-6;
    return call.flops > 0.0 && !all_bytes ? work : work + bytes;
}

double Profile::floor(const Peaks& peaks, bool all_bytes) const {
    double sum = 0.0;
    for (const Row& row : rows)
        sum += row.count * floor_of(row.call, peaks, all_bytes);
    return sum;
}

std::vector<Row> rows_of(const std::vector<Call>& calls) {
    std::map<std::string, Row> rows;
    for (const Call& call : calls) {
        Row& row = rows[call.key()];
        if (row.count == 0) row.call = call;
        ++row.count;
        row.milliseconds += median(call.milliseconds);
    }
    std::vector<Row> sorted;
    for (auto& [key, row] : rows)
        sorted.push_back(std::move(row));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Row& a, const Row& b) { return a.milliseconds > b.milliseconds; });
    return sorted;
}

Profile profile(const Options& options) {
    manual_seed(0);
    const auto model = nn::make_model(options.model, {.stem = nn::parse_stem(options.stem)});
    optim::SGD optimizer(model->named_parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});
    const Tensor images =
        normal({options.batch_size, 3, 32, 32}, 0.0, 1.0, {.format = MemoryFormat::channels_last})
            .to(parse_dtype(options.precision));
    std::vector<std::int64_t> classes(static_cast<std::size_t>(options.batch_size));
    for (std::size_t i = 0; i < classes.size(); ++i)
        classes[i] = static_cast<std::int64_t>(i) % 10;
    const Tensor labels = from_data<std::int64_t>(classes, {options.batch_size}, {.dtype = DType::i64});

    Recorder recorder;
    const auto step = [&] {
        const auto begin = Clock::now();
        optimizer.zero_grad();
        cross_entropy((*model)(images), labels).backward();
        optimizer.step();
        return milliseconds_since(begin);
    };
    std::vector<double> plain;
    std::vector<double> recorded;
    repeat([&] { step(); }, std::max(1, options.warmup), 2, options.seconds);
    repeat([&] { plain.push_back(step()); }, options.steps, 3, options.seconds);
    const auto record = [&] {
        recorder.begin_step();
        recorded.push_back(step());
    };
    repeat(record, options.steps, 3, options.seconds);
    recorder.end();

    Profile result{.rows = rows_of(recorder.calls()), .step = median(plain), .recorded = median(recorded)};
    for (const Row& row : result.rows)
        result.kernels += row.milliseconds;
    return result;
}

std::string percent(double part, double whole) {
    return fmt::format("{:.1f}%", 100.0 * part / whole);
}

void print(const Options& options, const Profile& p, const Peaks& peaks) {
    fmt::print("{}, {} stem, {}, batch {}, {} threads: step {:.2f} ms, {:.0f} images/s\n", options.model,
               options.stem, options.precision, options.batch_size, num_threads(), p.step,
               1e3 * static_cast<double>(options.batch_size) / p.step);
    fmt::print("peaks: matrix product {:.0f} GFLOP/s ({}), copy {:.1f} GB/s\n\n", peaks.gemm,
               options.precision, peaks.copy);
    fmt::print("{:24}{:32}{:>4}{:>9}{:>9}{:>7}{:>9}{:>8}{:>8}{:>8}  {}\n", "op", "layer", "n", "ms each",
               "ms all", "share", "GFLOP/s", "GB/s", "of gemm", "of copy", "implementation");
    for (const Row& row : p.rows) {
        const Call& call = row.call;
        if (!options.filter.empty() && call.key().find(options.filter) == std::string::npos) continue;
        const double each = row.milliseconds / row.count;
        const double flops = call.flops / each * 1e-6;
        const double bytes = call.bytes / each * 1e-6;
        fmt::print("{:24}{:32}{:4}{:9.3f}{:9.3f}{:>7}{:>9}{:8.1f}{:>8}{:>8}  {}\n", call.op, call.shape,
                   row.count, each, row.milliseconds, percent(row.milliseconds, p.step),
                   call.flops > 0.0 ? fmt::format("{:.0f}", flops) : "", bytes,
                   call.flops > 0.0 ? percent(flops, peaks.gemm) : "", percent(bytes, peaks.copy),
                   call.implementation.empty() ? "-" : call.implementation);
    }
    fmt::print(
        "\nkernels {:.2f} ms, {} of the step ({:.2f} ms while recorded); the rest, {:.2f} ms, is tape, "
        "allocation and timing\n",
        p.kernels, percent(p.kernels, p.step), p.recorded, p.step - p.kernels);
    const double floor = p.floor(peaks, false);
    fmt::print(
        "roofline: {:.2f} ms, {:.0f} images/s (useful products at the product's peak, the bytes of all else "
        "at "
        "the copy's); reached {}\n",
        floor, 1e3 * static_cast<double>(options.batch_size) / floor, percent(floor, p.step));
    fmt::print("with the products' bytes too: {:.2f} ms; reached {}\n", p.floor(peaks, true),
               percent(p.floor(peaks, true), p.step));
}

nlohmann::json report(const Options& options, const Profile& p, const Peaks& peaks) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Row& row : p.rows) {
        rows.push_back({{"op", row.call.op},
                        {"layer", row.call.shape},
                        {"count", row.count},
                        {"ms", row.milliseconds},
                        {"gflop", row.count * row.call.flops * 1e-9},
                        {"gbyte", row.count * row.call.bytes * 1e-9},
                        {"floor_ms", row.count * floor_of(row.call, peaks, false)},
                        {"implementation", row.call.implementation}});
    }
    nlohmann::json facts = nlohmann::json::object();
    for (const Fact& fact : environment())
        facts[fact.group][fact.name] = fact.value;
    return {{"model", options.model},
            {"stem", options.stem},
            {"precision", options.precision},
            {"batch_size", options.batch_size},
            {"threads", num_threads()},
            {"gemm_peak_gflops", peaks.gemm},
            {"copy_peak_gbs", peaks.copy},
            {"step_ms", p.step},
            {"recorded_step_ms", p.recorded},
            {"kernels_ms", p.kernels},
            {"roofline_ms", p.floor(peaks, false)},
            {"roofline_all_bytes_ms", p.floor(peaks, true)},
            {"rows", rows},
            {"environment", facts}};
}

void run(const Options& options) {
    if (options.threads > 0) set_num_threads(options.threads);
    const Peaks peaks{.gemm = gemm_peak(parse_dtype(options.precision)), .copy = copy_peak()};
    const Profile result = profile(options);
    print(options, result, peaks);
    if (options.json.empty()) return;
    const std::string text = report(options, result, peaks).dump(1) + "\n";
    write_file_atomically(options.json, std::as_bytes(std::span(text)));
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Times every kernel of a training step and holds it against the machine's peaks");
    app.add_option("--model", options.model, "a registered model")->capture_default_str();
    app.add_option("--stem", options.stem, "imagenet or cifar")->capture_default_str();
    app.add_option("--precision", options.precision)
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->capture_default_str();
    app.add_option("--batch-size", options.batch_size)->check(CLI::Range(1, 1 << 20))->capture_default_str();
    app.add_option("--threads", options.threads, "0 takes all physical cores")->check(CLI::Range(0, 4096));
    app.add_option("--filter", options.filter, "print only rows that contain this text");
    app.add_option("--json", options.json, "also write everything to this file");
    app.add_option("--warmup", options.warmup)->check(CLI::Range(0, 1 << 20))->capture_default_str();
    app.add_option("--steps", options.steps, "plain steps, and as many recorded ones")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    app.add_option(
           "--seconds", options.seconds,
           "spend no more than this on the warm-up and on either kind of step, but for two or three steps")
        ->check(CLI::NonNegativeNumber);
    CLI11_PARSE(app, argc, argv);
    try {
        run(options);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "ops: %s\n", failure.what());
        return 1;
    }
    return 0;
}
