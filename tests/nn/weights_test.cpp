#include "nn/weights.h"

#include "core/error.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/models.h"
#include "nn/safetensors.h"
#include "nn/sequential.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/temp_folder.h"

#include <fmt/format.h>

#include <functional>

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

/// All values of a state, in order.
std::vector<double> values_of(const StateDict& state) {
    std::vector<double> values;
    for (const auto& [name, tensor] : state) {
        const std::vector<double> more = tensor.to_vector<double>();
        values.insert(values.end(), more.begin(), more.end());
    }
    return values;
}

std::shared_ptr<Module> two_layers(std::int64_t width) {
    return std::make_shared<Sequential>(std::initializer_list<std::shared_ptr<Module>>{
        std::make_shared<Linear>(3, width), std::make_shared<Linear>(width, 2)});
}

}  // namespace

TEST_CASE("weights travel from one model to another through a file", "[weights]") {
    const TempFolder folder;
    for_each_device([&](Device device) {
        manual_seed(1);
        const auto from = small_cnn();
        const auto into = small_cnn();
        from->to(device);
        into->to(device);
        REQUIRE((values_of(from->state_dict()) != values_of(into->state_dict())));
        save_weights(*from, folder / "w");
        load_weights(*into, folder / "w");
        CHECK((values_of(from->state_dict()) == values_of(into->state_dict())));
    });
}

TEST_CASE("weights are stored row-major under the names of the state", "[weights]") {
    const TempFolder folder;
    const auto model = small_cnn();
    save_weights(*model, folder / "w");
    const Safetensors content = read_safetensors(folder / "w");
    const StateDict state = model->state_dict();
    REQUIRE(content.tensors.size() == state.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
        CHECK(content.tensors[i].first == state[i].first);
        CHECK(content.tensors[i].second.shape() == state[i].second.shape());
    }
    CHECK(content.tensors.front().first == "conv1.weight");
    CHECK(content.metadata.at("format") == "pt");
}

TEST_CASE("a file that does not fit is refused in one line and changes nothing", "[weights]") {
    const TempFolder folder;
    const auto model = two_layers(4);
    const std::vector<double> before = values_of(model->state_dict());
    const auto refuse = [&](const StateDict& saved, bool strict = true) {
        write_safetensors(folder / "w", saved);
        const std::string said = io_error_of([&] { load_weights(*model, folder / "w", strict); });
        CHECK((values_of(model->state_dict()) == before));
        CHECK(contains(said, "cannot load '" + (folder / "w").string() + "'"));
        CHECK_FALSE(contains(said, "\n"));
        return said;
    };
    const StateDict good = clone(two_layers(4)->state_dict());

    StateDict missing = good;
    missing.pop_back();
    CHECK(contains(refuse(missing), "missing '1.bias'"));

    StateDict extra = good;
    extra.emplace_back("2.weight", ones({2, 2}));
    CHECK(contains(refuse(extra), "unexpected '2.weight'"));

    StateDict renamed = good;
    renamed[0].first = "first.weight";
    const std::string both = refuse(renamed);
    CHECK(contains(both, "missing '0.weight'"));
    CHECK(contains(both, "unexpected 'first.weight'"));

    CHECK(contains(refuse(two_layers(5)->state_dict()), "'0.weight' is [5, 3], not [4, 3]"));
    CHECK(contains(refuse(two_layers(5)->state_dict(), false), "'0.weight' is [5, 3], not [4, 3]"));

    StateDict integers = good;
    integers[3].second = zeros({2}, {.dtype = DType::i64});
    CHECK(contains(refuse(integers), "'1.bias' is i64, not f32"));

    StateDict many = good;
    for (int i = 0; i < 20; ++i)
        many.emplace_back("extra" + std::to_string(i), ones({1}));
    CHECK(contains(refuse(many), "'extra4' and 15 more"));

    spit(folder / "w", slurp(folder / "w").substr(0, 300));
    CHECK_THROWS_AS(load_weights(*model, folder / "w"), IoError);
    CHECK((values_of(model->state_dict()) == before));
}

TEST_CASE("a loose load takes the names that fit and leaves the rest", "[weights]") {
    const TempFolder folder;
    const auto model = two_layers(4);
    const std::vector<double> kept = model->state_dict()[1].second.to_vector<double>();
    write_safetensors(folder / "w",
                      StateDict{{"0.weight", full({4, 3}, 2.5)}, {"somebody.else", ones({1000})}});
    load_weights(*model, folder / "w", false);
    const StateDict state = model->state_dict();
    CHECK(state[0].second.to_vector<double>() == std::vector<double>(12, 2.5));
    CHECK(state[1].second.to_vector<double>() == kept);
}

TEST_CASE("weights of another floating type are converted", "[weights]") {
    const TempFolder folder;
    const auto model = two_layers(4);
    StateDict narrow;
    StateDict wide;
    for (const auto& [name, tensor] : model->state_dict()) {
        narrow.emplace_back(name, full(tensor.shape(), 0.375).to(DType::bf16));
        wide.emplace_back(name, full(tensor.shape(), 0.625).to(DType::f64));
    }
    write_safetensors(folder / "narrow", narrow);
    write_safetensors(folder / "wide", wide);
    load_weights(*model, folder / "narrow");
    CHECK(values_of(model->state_dict()) == std::vector<double>(26, 0.375));
    load_weights(*model, folder / "wide");
    CHECK(values_of(model->state_dict()) == std::vector<double>(26, 0.625));
    CHECK(model->state_dict()[0].second.dtype() == DType::f32);
}

TEST_CASE("a state with a name given twice is refused", "[weights]") {
    const StateDict into{{"a", zeros({1})}};
    CHECK_THROWS_AS(load_state(into, {{"a", ones({1})}, {"a", ones({1})}}, true, "test"), ValueError);
    CHECK(into[0].second.item() == 0.0);
}
