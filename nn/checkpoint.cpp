#include "nn/checkpoint.h"

#include "core/error.h"
#include "core/file.h"
#include "nn/crc64.h"
#include "nn/safetensors.h"
#include "nn/safetensors_header.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

namespace fulcrum::nn {

namespace {

using nlohmann::json;

constexpr std::string_view kModelPrefix = "model.";
constexpr std::string_view kOptimizerPrefix = "optimizer.";
constexpr const char* kChecksumName = "checksum";
constexpr const char* kFormatKey = "fulcrum.format";
constexpr const char* kFormatValue = "checkpoint";
constexpr const char* kVersionKey = "fulcrum.version";
constexpr const char* kStateKey = "fulcrum.state";
constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);
/// A JSON text grows many times when it is taken apart; this keeps a hostile one small.
constexpr std::size_t kLargestState = 1 << 20;

/// Doubles as JSON numbers, which keep all bits; what JSON cannot express as its 16 hexadecimal digits.
json from_double(double value) {
    if (std::isfinite(value)) return value;
    return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value));
}

json make_state(const Checkpoint& checkpoint) {
    json metrics = json::object();
    for (const auto& [name, value] : checkpoint.metrics)
        metrics[name] = from_double(value);
    return {{"optimizer", checkpoint.optimizer_name},
            {"schedule_step", checkpoint.schedule_step},
            {"epoch", checkpoint.epoch},
            {"step", checkpoint.step},
            {"generator",
             {{"seed", checkpoint.generator.seed}, {"next_stream", checkpoint.generator.next_stream}}},
            {"loader",
             {{"seed", checkpoint.loader.seed},
              {"epoch", checkpoint.loader.epoch},
              {"next_batch", checkpoint.loader.next_batch}}},
            {"settings", json(checkpoint.settings)},
            {"metrics", std::move(metrics)}};
}

/// Reads the values of the JSON text, each with its type and range.
class StateReader {
  public:
    StateReader(const json& values, const std::string& path, std::string place)
        : values_(values), path_(path), place_(std::move(place)) {
        if (!values_.is_object()) fail("", "is no object");
    }

    std::int64_t count(const char* name) const {
        const json& value = at(name);
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{1} << 62) {
            fail(name, "is no count");
        }
        return value.get<std::int64_t>();
    }
    std::uint64_t word(const char* name) const {
        const json& value = at(name);
        if (!value.is_number_unsigned()) fail(name, "is no unsigned number");
        return value.get<std::uint64_t>();
    }
    std::string text(const std::string& name) const {
        const json& value = at(name);
        if (!value.is_string()) fail(name, "is no text");
        return value.get<std::string>();
    }
    double real(const std::string& name) const {
        const json& value = at(name);
        if (value.is_number()) return value.get<double>();
        if (value.is_string()) {
            const auto& digits = value.get_ref<const std::string&>();
            std::uint64_t bits = 0;
            const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
            if (error == std::errc{} && end == digits.data() + digits.size()) {
                return std::bit_cast<double>(bits);
            }
        }
        fail(name, "is no number");
    }
    StateReader part(const char* name) const { return {at(name), path_, place_ + name + "."}; }
    std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const auto& item : values_.items())
            names.push_back(item.key());
        return names;
    }

  private:
    const json& at(const std::string& name) const {
        const auto found = values_.find(name);
        if (found == values_.end()) fail(name, "is missing");
        return *found;
    }
    [[noreturn]] void fail(const std::string& name, const char* why) const {
        throw IoError(fmt::format("checkpoint '{}': the value '{}{}' {}", path_, place_, name, why));
    }

    const json& values_;
    const std::string& path_;
    std::string place_;
};

void read_state(const std::string& text, const std::string& path, Checkpoint& checkpoint) {
    if (text.size() > kLargestState) {
        throw IoError(fmt::format("checkpoint '{}': {} bytes of small values are more than the {} accepted",
                                  path, text.size(), kLargestState));
    }
    const json values = json::parse(text, nullptr, false);
    if (values.is_discarded()) {
        throw IoError(fmt::format("checkpoint '{}': its small values are not valid JSON", path));
    }
    const StateReader state(values, path, "");
    checkpoint.optimizer_name = state.text("optimizer");
    checkpoint.schedule_step = state.count("schedule_step");
    checkpoint.epoch = state.count("epoch");
    checkpoint.step = state.count("step");
    const StateReader generator = state.part("generator");
    checkpoint.generator = {generator.word("seed"), generator.word("next_stream")};
    const StateReader loader = state.part("loader");
    checkpoint.loader = {loader.word("seed"), loader.count("epoch"), loader.count("next_batch")};
    const StateReader settings = state.part("settings");
    for (const std::string& name : settings.names())
        checkpoint.settings[name] = settings.text(name);
    const StateReader metrics = state.part("metrics");
    for (const std::string& name : metrics.names())
        checkpoint.metrics[name] = metrics.real(name);
}

/// Compares the file's last tensor with the CRC of every byte before it.
void check_checksum(const SafetensorsFile& file, const std::string& path) {
    constexpr std::size_t kChunk = 1 << 20;
    const InputFile& input = file.file();
    const TensorEntry* entry = file.find(kChecksumName);
    if (entry == nullptr || entry->bytes != kChecksumBytes || entry->begin + kChecksumBytes != input.size()) {
        throw IoError(
            fmt::format("checkpoint '{}': its checksum is not where it belongs: the file is damaged", path));
    }
    Crc64 crc;
    std::vector<std::byte> chunk(static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, entry->begin)));
    for (std::uint64_t at = 0; at < entry->begin;) {
        const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), entry->begin - at));
        const std::span part(chunk.data(), bytes);
        input.read_at(at, part);
        crc.update(part);
        at += bytes;
    }
    std::uint64_t stored = 0;
    input.read_at(entry->begin, std::as_writable_bytes(std::span(&stored, 1)));
    if (stored != crc.value()) {
        throw IoError(
            fmt::format("checkpoint '{}': its checksum is {:016x} but its content gives {:016x}: the "
                        "file is damaged; use an older checkpoint",
                        path, stored, crc.value()));
    }
}

void check_version(const Metadata& metadata, const std::string& path) {
    const auto found = metadata.find(kVersionKey);
    std::int64_t version = 0;
    if (found != metadata.end()) {
        const std::string& text = found->second;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
        if (error != std::errc{} || end != text.data() + text.size()) version = 0;
    }
    if (version < 1) throw IoError(fmt::format("checkpoint '{}': its format version is missing", path));
    if (version > Checkpoint::kFormatVersion) {
        throw IoError(fmt::format(
            "checkpoint '{}': format version {} is newer than {}, the latest that this version of fulcrum "
            "reads; use a newer fulcrum",
            path, version, Checkpoint::kFormatVersion));
    }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
    for (const std::int64_t count : {checkpoint.schedule_step, checkpoint.epoch, checkpoint.step,
                                     checkpoint.loader.epoch, checkpoint.loader.next_batch}) {
        if (count < 0) throw ValueError(fmt::format("save_checkpoint: {} is no count of steps", count));
    }
    std::string state;
    try {
        state = make_state(checkpoint).dump();
    } catch (const json::exception&) {
        throw ValueError("save_checkpoint: a setting or the name of a metric is not UTF-8");
    }
    if (state.size() > kLargestState) {
        throw ValueError(fmt::format("save_checkpoint: settings and metrics take {} bytes; {} are accepted",
                                     state.size(), kLargestState));
    }

    StateDict tensors;
    tensors.reserve(checkpoint.model.size() + checkpoint.optimizer.size() + 1);
    for (const auto& [name, tensor] : checkpoint.model) {
        tensors.emplace_back(std::string(kModelPrefix) + name, tensor);
    }
    for (const auto& [name, tensor] : checkpoint.optimizer) {
        tensors.emplace_back(std::string(kOptimizerPrefix) + name, tensor);
    }
    // The last of the narrowest type lies last in the file. It holds the checksum of what was sent so far, so
    // it is right when its turn comes.
    const Tensor checksum = empty({kChecksumBytes}, {.dtype = DType::u8});
    tensors.emplace_back(kChecksumName, checksum);
    const Metadata metadata{{kFormatKey, kFormatValue},
                            {kVersionKey, std::to_string(Checkpoint::kFormatVersion)},
                            {kStateKey, state}};
    write_file_atomically(path, [&](const FileSink& sink) {
        Crc64 crc;
        send_safetensors(
            [&](std::span<const std::byte> bytes) {
                sink(bytes);
                crc.update(bytes);
                const std::uint64_t value = crc.value();
                std::memcpy(checksum.raw_data(), &value, sizeof value);
            },
            tensors, metadata);
    });
}

Checkpoint load_checkpoint(const std::filesystem::path& path) {
    const SafetensorsFile file(path);
    const std::string name = path.string();
    const auto format = file.metadata().find(kFormatKey);
    if (format == file.metadata().end() || format->second != kFormatValue) {
        throw IoError(
            fmt::format("'{}' is no checkpoint but a safetensors file of another kind; weights alone "
                        "cannot continue a run",
                        name));
    }
    check_checksum(file, name);
    check_version(file.metadata(), name);

    Checkpoint checkpoint;
    const auto state = file.metadata().find(kStateKey);
    if (state == file.metadata().end()) {
        throw IoError(fmt::format("checkpoint '{}': its small values are missing", name));
    }
    read_state(state->second, name, checkpoint);
    for (const TensorEntry& entry : file.entries()) {
        if (entry.name.starts_with(kModelPrefix)) {
            checkpoint.model.emplace_back(entry.name.substr(kModelPrefix.size()), file.read(entry));
        } else if (entry.name.starts_with(kOptimizerPrefix)) {
            checkpoint.optimizer.emplace_back(entry.name.substr(kOptimizerPrefix.size()), file.read(entry));
        } else if (entry.name != kChecksumName) {
            throw IoError(
                fmt::format("checkpoint '{}': tensor '{}' belongs to neither the model nor the optimiser",
                            name, entry.name));
        }
    }
    return checkpoint;
}

void restore_checkpoint(const Checkpoint& checkpoint, Module& model, optim::Optimizer& optimizer,
                        const std::filesystem::path& path) {
    if (checkpoint.optimizer_name != optimizer.name()) {
        throw IoError(
            fmt::format("checkpoint '{}' was written with the optimiser '{}' but this run uses '{}'",
                        path.string(), checkpoint.optimizer_name, optimizer.name()));
    }
    const StateDict before = clone(model.state_dict());
    try {
        model.load_state_dict(checkpoint.model);
    } catch (const Error& error) {
        throw IoError(fmt::format("checkpoint '{}' does not fit the model: {}", path.string(), error.what()));
    }
    try {
        optimizer.load_state_dict(checkpoint.optimizer);
    } catch (const Error& error) {
        model.load_state_dict(before);
        throw IoError(
            fmt::format("checkpoint '{}' does not fit the optimiser: {}", path.string(), error.what()));
    }
}

}  // namespace fulcrum::nn
