#include "nn/checkpoint.h"

#include "core/error.h"
#include "core/ops/shape.h"
#include "nn/crc64.h"
#include "nn/linear.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"
#include "nn/safetensors.h"
#include "nn/safetensors_header.h"
#include "nn/sequential.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/temp_folder.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <limits>
#include <sys/wait.h>
#include <unistd.h>

using namespace fulcrum;
using namespace fulcrum::nn;
using namespace fulcrum::test;

namespace {

std::string io_error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const IoError& error) {
        return error.what();
    }
    FAIL("no IoError");
    return {};
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::shared_ptr<Sequential> two_layers(std::int64_t width = 4) {
    return std::make_shared<Sequential>(std::initializer_list<std::shared_ptr<Module>>{
        std::make_shared<Linear>(3, width), std::make_shared<Linear>(width, 2)});
}

/// Gives every parameter the gradient `value` and makes a step.
void step_with(Module& model, optim::Optimizer& optimizer, double value) {
    for (const Tensor& parameter : model.parameters())
        parameter.set_grad(full(parameter.shape(), value));
    optimizer.step();
}

Checkpoint checkpoint_of(const Module& model, const optim::Optimizer& optimizer) {
    Checkpoint checkpoint;
    checkpoint.model = model.state_dict();
    checkpoint.optimizer = optimizer.state_dict();
    checkpoint.optimizer_name = optimizer.name();
    return checkpoint;
}

/// All values of a state, in order.
std::vector<double> values_of(const StateDict& state) {
    std::vector<double> values;
    for (const auto& [name, tensor] : state) {
        const std::vector<double> more = tensor.to_vector<double>();
        values.insert(values.end(), more.begin(), more.end());
    }
    return values;
}

/// A small checkpoint with something in every field.
Checkpoint full_checkpoint() {
    Checkpoint checkpoint;
    checkpoint.model = {{"conv.weight", uniform({3, 2, 2, 2}, -1, 1, {.format = MemoryFormat::tap_major})},
                        {"half", ones({5}, {.dtype = DType::bf16})},
                        {"bn.num_batches_tracked", tensor<std::int64_t>({7}, {})},
                        {"none", zeros({0, 3})}};
    checkpoint.optimizer = {{"step_count", tensor<std::int64_t>({12}, {})},
                            {"state.conv.weight.momentum_buffer", uniform({3, 2, 2, 2}, -1, 1)}};
    checkpoint.optimizer_name = "sgd";
    checkpoint.schedule_step = 12;
    checkpoint.epoch = 3;
    checkpoint.step = 1234567890123;
    checkpoint.generator = {~std::uint64_t{0}, 17};
    checkpoint.loader = {std::uint64_t{1} << 63, 3, 5};
    checkpoint.settings = {{"model", "small_cnn"}, {"note", "quo\"te\n\xe2\x82\xac"}, {"", ""}};
    checkpoint.metrics = {{"loss", 0.1},
                          {"minus zero", -0.0},
                          {"tiny", std::numeric_limits<double>::denorm_min()},
                          {"nan", std::bit_cast<double>(std::uint64_t{0xfff8000000000123})},
                          {"endless", -std::numeric_limits<double>::infinity()},
                          {"whole", 3.0}};
    return checkpoint;
}

/// Writes a checkpoint-like file with a right checksum, so that what is behind the checksum is tested.
void write_sealed(const std::filesystem::path& path, StateDict tensors, const Metadata& metadata) {
    const Tensor checksum = zeros({8}, {.dtype = DType::u8});
    tensors.emplace_back("checksum", checksum);
    write_safetensors(path, tensors, metadata);
    std::string bytes = slurp(path);
    Crc64 crc;
    crc.update(bytes_of(bytes).first(bytes.size() - 8));
    const std::uint64_t value = crc.value();
    std::memcpy(bytes.data() + bytes.size() - 8, &value, 8);
    spit(path, bytes);
}

}  // namespace

TEST_CASE("the checksum is CRC-64/XZ, whatever the pieces", "[checkpoint]") {
    const std::string digits = "123456789";
    Crc64 whole;
    whole.update(bytes_of(digits));
    CHECK(whole.value() == 0x995DC9BBDF1939FAU);
    Crc64 empty;
    CHECK(empty.value() == 0);

    std::string text;
    for (int i = 0; i < 1000; ++i)
        text += static_cast<char>(i * i % 251);
    Crc64 once;
    once.update(bytes_of(text));
    for (const std::size_t piece : {1U, 3U, 8U, 13U}) {
        Crc64 parts;
        for (std::size_t at = 0; at < text.size(); at += piece)
            parts.update(bytes_of(text.substr(at, piece)));
        CHECK(parts.value() == once.value());
    }
}

TEST_CASE("a checkpoint survives a round trip bit for bit", "[checkpoint]") {
    const TempFolder folder;
    const Checkpoint saved = full_checkpoint();
    save_checkpoint(folder / "a", saved);
    const Checkpoint loaded = load_checkpoint(folder / "a");
    REQUIRE(loaded.model.size() == saved.model.size());
    for (std::size_t i = 0; i < saved.model.size(); ++i) {
        CHECK(loaded.model[i].first == saved.model[i].first);
        CHECK(loaded.model[i].second.dtype() == saved.model[i].second.dtype());
        CHECK(loaded.model[i].second.shape() == saved.model[i].second.shape());
    }
    CHECK(values_of(loaded.model) == values_of(saved.model));
    CHECK(values_of(loaded.optimizer) == values_of(saved.optimizer));
    CHECK(loaded.optimizer.back().first == "state.conv.weight.momentum_buffer");
    CHECK(loaded.optimizer_name == "sgd");
    CHECK(loaded.schedule_step == saved.schedule_step);
    CHECK(loaded.epoch == saved.epoch);
    CHECK(loaded.step == saved.step);
    CHECK(loaded.generator == saved.generator);
    CHECK(loaded.loader == saved.loader);
    CHECK(loaded.settings == saved.settings);
    REQUIRE(loaded.metrics.size() == saved.metrics.size());
    for (const auto& [name, value] : saved.metrics) {
        INFO(name);
        CHECK(std::bit_cast<std::uint64_t>(loaded.metrics.at(name)) == std::bit_cast<std::uint64_t>(value));
    }

    save_checkpoint(folder / "b", loaded);
    CHECK((slurp(folder / "a") == slurp(folder / "b")));
    save_checkpoint(folder / "empty", {});
    CHECK(load_checkpoint(folder / "empty").model.empty());
}

TEST_CASE("a checkpoint is a safetensors file that any reader takes", "[checkpoint]") {
    const TempFolder folder;
    save_checkpoint(folder / "a", full_checkpoint());
    const Safetensors content = read_safetensors(folder / "a");
    CHECK(content.metadata.at("fulcrum.format") == "checkpoint");
    CHECK(content.metadata.at("fulcrum.version") == "1");
    CHECK(find(content.tensors, "model.conv.weight")->shape() == Shape{3, 2, 2, 2});
    CHECK(find(content.tensors, "optimizer.step_count")->item() == 12.0);
}

TEST_CASE("every flipped bit is refused", "[checkpoint]") {
    const TempFolder folder;
    const std::filesystem::path path = folder / "a";
    save_checkpoint(path, full_checkpoint());
    const std::string bytes = slurp(path);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        // One bit of each byte, and all bits of the length and of the checksum.
        const bool all_bits = at < 8 || at + 8 >= bytes.size();
        for (std::size_t bit = all_bits ? 0 : at % 8; bit < (all_bits ? 8 : at % 8 + 1); ++bit) {
            poke(path, at, static_cast<char>(bytes[at] ^ (1 << bit)));
            INFO("byte " << at << ", bit " << bit);
            CHECK_THROWS_AS(load_checkpoint(path), IoError);
        }
        poke(path, at, bytes[at]);
    }
    CHECK(load_checkpoint(path).epoch == 3);
}

TEST_CASE("a checkpoint cut short or grown anywhere is refused", "[checkpoint]") {
    const TempFolder folder;
    save_checkpoint(folder / "a", full_checkpoint());
    const std::string bytes = slurp(folder / "a");
    for (std::size_t length = 0; length < bytes.size(); length += 64) {
        spit(folder / "case", bytes.substr(0, length));
        INFO("cut to " << length << " of " << bytes.size());
        CHECK(contains(io_error_of([&] { load_checkpoint(folder / "case"); }), "case'"));
    }
    spit(folder / "case", bytes.substr(0, bytes.size() - 1));
    CHECK_THROWS_AS(load_checkpoint(folder / "case"), IoError);
    spit(folder / "case", bytes + "x");
    CHECK_THROWS_AS(load_checkpoint(folder / "case"), IoError);
    spit(folder / "case", bytes + bytes);
    CHECK_THROWS_AS(load_checkpoint(folder / "case"), IoError);
}

TEST_CASE("what is no checkpoint of this version is refused with the cause", "[checkpoint]") {
    const TempFolder folder;
    const auto refuse = [&](const StateDict& tensors, const Metadata& metadata) {
        write_sealed(folder / "case", tensors, metadata);
        const std::string said = io_error_of([&] { load_checkpoint(folder / "case"); });
        CHECK(contains(said, (folder / "case").string()));
        CHECK_FALSE(contains(said, "\n"));
        return said;
    };
    save_checkpoint(folder / "good", full_checkpoint());
    const Metadata good = read_safetensors(folder / "good").metadata;
    const auto with = [&](const char* key, const std::string& value) {
        Metadata changed = good;
        changed[key] = value;
        return changed;
    };
    const auto with_state = [&](const std::string& from, const std::string& to) {
        std::string state = good.at("fulcrum.state");
        REQUIRE(contains(state, from));
        return with("fulcrum.state", state.replace(state.find(from), from.size(), to));
    };

    write_sealed(folder / "case", {}, good);
    CHECK(load_checkpoint(folder / "case").epoch == 3);

    CHECK(contains(refuse({}, {}), "is no checkpoint"));
    CHECK(contains(refuse({}, {{"format", "pt"}}), "is no checkpoint"));
    CHECK(contains(refuse({}, with("fulcrum.version", "2")), "format version 2 is newer than 1"));
    CHECK(contains(refuse({}, with("fulcrum.version", "x")), "version is missing"));
    CHECK(contains(refuse({}, with("fulcrum.version", "-1")), "version is missing"));
    CHECK(contains(refuse({{"surprise", ones({1})}}, good), "'surprise' belongs to neither"));
    CHECK(contains(refuse({}, with("fulcrum.state", "{")), "not valid JSON"));
    CHECK(contains(refuse({}, with("fulcrum.state", "[]")), "is no object"));
    CHECK(contains(refuse({}, with("fulcrum.state", std::string(2 << 20, '['))), "bytes of small values"));
    CHECK(contains(refuse({}, with("fulcrum.state", std::string(1 << 20, '['))), "not valid JSON"));
    CHECK(contains(refuse({}, with_state("\"epoch\":3,\"generator\"", "\"epoch\":-3,\"generator\"")),
                   "'epoch' is no count"));
    CHECK(contains(refuse({}, with_state("\"epoch\":3,\"generator\"", "\"epoch\":3.5,\"generator\"")),
                   "'epoch' is no count"));
    CHECK(
        contains(refuse({}, with_state("\"epoch\":3,\"generator\"", "\"generator\"")), "'epoch' is missing"));
    CHECK(contains(refuse({}, with_state("\"next_batch\":5", "\"next_batch\":\"5\"")),
                   "'loader.next_batch' is no count"));
    CHECK(contains(refuse({}, with_state("\"next_stream\":17", "\"next_stream\":-17")),
                   "'generator.next_stream' is no unsigned number"));
    CHECK(contains(refuse({}, with_state("\"step\":1234567890123", "\"step\":18446744073709551615")),
                   "'step' is no count"));
    CHECK(contains(refuse({}, with_state("\"model\":\"small_cnn\"", "\"model\":1")),
                   "'settings.model' is no text"));
    CHECK(
        contains(refuse({}, with_state("\"loss\":0.1", "\"loss\":\"0.1\"")), "'metrics.loss' is no number"));
    CHECK(contains(refuse({}, with_state("\"loss\":0.1", "\"loss\":null")), "'metrics.loss' is no number"));

    write_safetensors(folder / "case", StateDict{{"model.a", ones({2})}}, good);
    CHECK(
        contains(io_error_of([&] { load_checkpoint(folder / "case"); }), "checksum is not where it belongs"));
    CHECK_THROWS_AS(load_checkpoint(folder.path()), IoError);
    CHECK(contains(io_error_of([&] { load_checkpoint(folder / "absent"); }), "No such file"));
}

TEST_CASE("an impossible checkpoint is refused before anything is written", "[checkpoint]") {
    const TempFolder folder;
    Checkpoint checkpoint;
    checkpoint.step = -1;
    CHECK_THROWS_AS(save_checkpoint(folder / "a", checkpoint), ValueError);
    checkpoint.step = 0;
    checkpoint.settings["note"] = "\xff";
    CHECK_THROWS_AS(save_checkpoint(folder / "a", checkpoint), ValueError);
    checkpoint.settings["note"] = std::string(2 << 20, 'x');
    CHECK_THROWS_AS(save_checkpoint(folder / "a", checkpoint), ValueError);
    checkpoint.settings.clear();
    checkpoint.model = {{"a", ones({1})}, {"a", ones({1})}};
    CHECK_THROWS_AS(save_checkpoint(folder / "a", checkpoint), ValueError);
    CHECK(folder.names().empty());
}

TEST_CASE("model and optimiser continue from a checkpoint as if nothing had happened", "[checkpoint]") {
    const TempFolder folder;
    for_each_device([&](Device device) {
        manual_seed(3);
        const auto model = two_layers();
        model->to(device);
        optim::AdamW optimizer(model->named_parameters(), {.lr = 0.1, .weight_decay = 0.1});
        step_with(*model, optimizer, 0.5);
        step_with(*model, optimizer, -0.25);
        save_checkpoint(folder / "a", checkpoint_of(*model, optimizer));
        step_with(*model, optimizer, 1.5);
        step_with(*model, optimizer, 0.5);

        const auto again = two_layers();
        again->to(device);
        optim::AdamW fresh(again->named_parameters(), {.lr = 0.7});
        // Loaded twice in a row: nothing is appended to anything.
        for (int i = 0; i < 2; ++i)
            restore_checkpoint(load_checkpoint(folder / "a"), *again, fresh, folder / "a");
        save_checkpoint(folder / "b", checkpoint_of(*again, fresh));
        CHECK((slurp(folder / "a") == slurp(folder / "b")));
        step_with(*again, fresh, 1.5);
        step_with(*again, fresh, 0.5);
        CHECK(values_of(again->state_dict()) == values_of(model->state_dict()));
        CHECK(values_of(fresh.state_dict()) == values_of(optimizer.state_dict()));
    });
}

TEST_CASE("momentum is loaded, not added to", "[checkpoint]") {
    const TempFolder folder;
    const auto model = std::make_shared<Linear>(1, 1, false);
    optim::SGD optimizer(model->named_parameters(), {.lr = 0.1, .momentum = 0.9});
    const auto value = [&] { return model->weight().item(); };
    model->load_state_dict({{"weight", ones({1, 1})}});
    step_with(*model, optimizer, 1.0);
    step_with(*model, optimizer, 1.0);
    CHECK(value() == Catch::Approx(0.71));
    save_checkpoint(folder / "a", checkpoint_of(*model, optimizer));
    step_with(*model, optimizer, 1.0);
    CHECK(value() == Catch::Approx(0.439));
    for (int i = 0; i < 2; ++i)
        restore_checkpoint(load_checkpoint(folder / "a"), *model, optimizer, folder / "a");
    CHECK(value() == Catch::Approx(0.71));
    save_checkpoint(folder / "b", checkpoint_of(*model, optimizer));
    CHECK((slurp(folder / "a") == slurp(folder / "b")));
    step_with(*model, optimizer, 1.0);
    CHECK(value() == Catch::Approx(0.439));
    step_with(*model, optimizer, 1.0);
    CHECK(value() == Catch::Approx(0.0951));
}

TEST_CASE("a checkpoint of something else changes neither the model nor the optimiser", "[checkpoint]") {
    const TempFolder folder;
    const auto model = two_layers();
    optim::SGD optimizer(model->named_parameters(), {.lr = 0.1, .momentum = 0.9});
    step_with(*model, optimizer, 1.0);
    const Checkpoint good = checkpoint_of(*model, optimizer);
    save_checkpoint(folder / "before", good);
    const auto refuse = [&](const Checkpoint& checkpoint) {
        save_checkpoint(folder / "case", checkpoint);
        const Checkpoint loaded = load_checkpoint(folder / "case");
        const std::string said =
            io_error_of([&] { restore_checkpoint(loaded, *model, optimizer, folder / "case"); });
        CHECK(contains(said, "checkpoint '" + (folder / "case").string() + "'"));
        CHECK_FALSE(contains(said, "\n"));
        save_checkpoint(folder / "after", checkpoint_of(*model, optimizer));
        CHECK((slurp(folder / "before") == slurp(folder / "after")));
        return said;
    };

    const auto wide = two_layers(5);
    optim::SGD of_wide(wide->named_parameters(), {.lr = 0.1, .momentum = 0.9});
    CHECK(contains(refuse(checkpoint_of(*wide, of_wide)), "'0.weight' is [5, 3], not [4, 3]"));

    const auto other = two_layers();
    optim::Adam adam(other->named_parameters(), {});
    CHECK(contains(refuse(checkpoint_of(*other, adam)), "the optimiser 'adam' but this run uses 'sgd'"));

    Checkpoint broken = good;
    broken.model = clone(good.model);
    broken.model[0].second.fill_(9.0);
    broken.model.pop_back();
    CHECK(contains(refuse(broken), "missing '1.bias'"));
    broken.model = clone(good.model);
    broken.model[0].second.fill_(9.0);
    broken.model.emplace_back("2.bias", ones({1}));
    CHECK(contains(refuse(broken), "unexpected '2.bias'"));

    // The model fits and the optimiser does not: the model keeps its old values too.
    broken.model.pop_back();
    broken.optimizer = good.optimizer;
    broken.optimizer.emplace_back("state.2.bias.momentum_buffer", ones({1}));
    CHECK(contains(refuse(broken), "does not fit the optimiser"));
    broken.optimizer = {};
    CHECK(contains(refuse(broken), "does not fit the optimiser"));
}

TEST_CASE("a writer killed at any moment leaves a complete checkpoint", "[checkpoint]") {
    const TempFolder folder;
    const std::filesystem::path path = folder / "state";
    Checkpoint checkpoint;
    checkpoint.model = {{"a", zeros({200000})}};
    save_checkpoint(path, checkpoint);
    std::int64_t last = 0;
    for (int kill = 0; kill < 20; ++kill) {
        int saved[2];
        REQUIRE(::pipe(saved) == 0);
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            try {
                for (;;) {
                    ++checkpoint.step;
                    save_checkpoint(path, checkpoint);
                    if (::write(saved[1], "x", 1) != 1) ::_exit(1);
                }
            } catch (...) {
                ::_exit(1);
            }
        }
        // Let one save end, then strike somewhere in those that follow.
        char byte = 0;
        REQUIRE(::read(saved[0], &byte, 1) == 1);
        ::usleep(static_cast<useconds_t>(kill * 200));
        REQUIRE(::kill(child, SIGKILL) == 0);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status));
        ::close(saved[0]);
        ::close(saved[1]);
        const Checkpoint found = load_checkpoint(path);
        CHECK(found.step > last);
        last = found.step;
        checkpoint.step = found.step;
    }
    save_checkpoint(path, checkpoint);
    CHECK(folder.names() == std::vector<std::string>{"state"});
}
