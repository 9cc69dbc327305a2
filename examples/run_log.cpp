#include "run_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <ctime>
#include <fcntl.h>
#include <span>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace train_cifar10 {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

/// A file descriptor, closed at the end.
class Descriptor {
  public:
    explicit Descriptor(int value) : value_(value) {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return value_; }

  private:
    int value_;
};

[[noreturn]] void fail(const fs::path& path, int error) {
    throw fulcrum::IoError(
        fmt::format("log '{}': cannot write: {}", path.string(), std::generic_category().message(error)));
}

Json number_or_null(double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json environment_json() {
    Json groups = Json::object();
    for (const auto& [group, name, value] : fulcrum::environment())
        groups[group][name] = value;
    return groups;
}

std::string now_text() {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

Json run_json(const RunFacts& facts) {
    return {{"type", "run"},
            {"started", now_text()},
            {"settings", facts.settings},
            {"data",
             {{"description", facts.data},
              {"synthetic", facts.synthetic},
              {"train_images", facts.train_images},
              {"test_images", facts.test_images}}},
            {"model", {{"parameters", facts.parameters}, {"multiply_adds", facts.multiply_adds}}},
            {"environment", environment_json()}};
}

std::vector<std::string> read_lines(const fs::path& path) {
    const auto bytes = fulcrum::read_file(path);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::vector<std::string> lines;
    // A last line without its newline was cut off by a kill or a full disk.
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
        lines.push_back(text.substr(begin, end - begin));
    }
    return lines;
}

}  // namespace

void RunLog::append(const std::string& line) const {
    if (path_.empty()) return;
    const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (file.get() < 0) fail(path_, errno);
    const std::string text = line + "\n";
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t count = ::write(file.get(), text.data() + done, text.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail(path_, errno);
        done += static_cast<std::size_t>(count);
    }
    // Devices and pipes cannot be synced, and need not be.
    if (::fsync(file.get()) != 0 && errno != EINVAL && errno != EROFS) fail(path_, errno);
}

void RunLog::begin(const RunFacts& facts) {
    append(run_json(facts).dump());
}

void RunLog::resume(const RunFacts& facts, std::int64_t epochs, std::int64_t step) {
    std::error_code error;
    if (path_.empty()) return;
    if (!fs::exists(path_, error)) return begin(facts);
    if (fs::is_regular_file(path_, error)) {
        std::vector<std::string> lines = read_lines(path_);
        std::size_t first = 0;  // line of the latest run
        std::vector<Json> parsed;
        for (std::size_t i = 0; i < lines.size(); ++i) {
            parsed.push_back(Json::parse(lines[i], nullptr, false));
            if (!parsed.back().is_object()) {
                throw fulcrum::IoError(fmt::format("log '{}': line {} is no JSON object; give another --log",
                                                   path_.string(), i + 1));
            }
            if (parsed.back().value("type", "") == "run") first = i;
        }
        std::string kept;
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const bool later =
                i > first && parsed[i].value("type", "") == "epoch" &&
                (!parsed[i].value("complete", true) || parsed[i].value("epoch", epochs) > epochs);
            if (!later) kept += lines[i] + "\n";
        }
        fulcrum::write_file_atomically(path_, std::as_bytes(std::span(kept)));
        if (lines.empty()) return begin(facts);
    }
    append(Json{{"type", "resume"},
                {"started", now_text()},
                {"epoch", epochs},
                {"step", step},
                {"settings", facts.settings},
                {"environment", environment_json()}}
               .dump());
}

void RunLog::epoch(const fulcrum::nn::EpochReport& report, bool synthetic) {
    const auto& stats = report.stats;
    Json line{{"type", "epoch"},
              {"epoch", stats.epoch + 1},
              {"complete", report.complete},
              {"step", report.step},
              {"learning_rate", stats.learning_rate},
              {"train_images", stats.train.images},
              {"train_loss", number_or_null(stats.train.loss())},
              {"train_accuracy", number_or_null(stats.train.accuracy())}};
    if (report.test) {
        line["test_images"] = report.test->images;
        line["test_loss"] = number_or_null(report.test->loss());
        line["test_accuracy"] = number_or_null(report.test->accuracy());
        line["test_seconds"] = report.test_seconds;
    }
    line["seconds"] = report.seconds;
    line["images_per_second"] = stats.images_per_second();
    line["time"] = {{"data", stats.time.data},
                    {"transfer", stats.time.transfer},
                    {"forward", stats.time.forward},
                    {"backward", stats.time.backward},
                    {"optimizer", stats.time.optimizer}};
    line["peak_memory_bytes"] = report.peak_memory;
    line["synthetic_data"] = synthetic;
    append(line.dump());
}

}  // namespace train_cifar10
