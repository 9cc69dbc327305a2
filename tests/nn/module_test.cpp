#include "nn/module.h"

#include "core/autograd.h"
#include "core/ops/binary.h"
#include "core/ops/reduce.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/observer.h"
#include "nn/sequential.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <string>
#include <vector>

using namespace fulcrum;
using Catch::Matchers::Contains;

namespace {

/// Scales its input; counts what it is called with.
class Scale : public nn::Module {
  public:
    explicit Scale(double factor = 1.0) {
        factor_ = register_parameter("factor", full({}, factor));
        calls_ = register_buffer("calls", zeros({}, {.dtype = DType::i64}), false);
    }
    Tensor forward(const Tensor& x) override { return mul(x, factor_); }
    const Tensor& factor() const { return factor_; }
    using nn::Module::register_buffer;
    using nn::Module::register_module;
    using nn::Module::register_parameter;

  private:
    Tensor factor_, calls_;
};

/// Applies one child twice, under two names.
class Twice : public nn::Module {
  public:
    Twice() : first_(register_module("first", std::make_shared<Scale>(3.0))) {
        second_ = register_module("second", first_);
    }
    Tensor forward(const Tensor& x) override { return (*second_)((*first_)(x)); }
    const Tensor& factor() const { return first_->factor(); }

  private:
    std::shared_ptr<Scale> first_, second_;
};

std::vector<std::string> names_of(const std::vector<nn::NamedTensor>& list) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : list)
        names.push_back(name);
    return names;
}

std::shared_ptr<nn::Sequential> two_linears() {
    auto model = std::make_shared<nn::Sequential>();
    model->push_back(std::make_shared<nn::Linear>(3, 2));
    auto inner = std::make_shared<nn::Sequential>();
    inner->push_back("last", std::make_shared<nn::Linear>(2, 1, false));
    model->push_back(inner);
    return model;
}

/// What is wrong, as the caller reads it.
template <class Action>
std::string error_of(const Action& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("names join with dots, a module's own before its children's", "[nn]") {
    const auto model = two_linears();
    CHECK(names_of(model->named_parameters()) ==
          std::vector<std::string>{"0.weight", "0.bias", "1.last.weight"});
    CHECK(model->parameter_count() == 3 * 2 + 2 + 2);
    std::vector<std::string> modules;
    for (const auto& [name, module] : model->named_modules())
        modules.push_back(name);
    CHECK(modules == std::vector<std::string>{"", "0", "1", "1.last"});
    CHECK(model->named_modules().back().second->path() == "1.last");
    CHECK(model->at(0)->type_name() == "Linear");
}

TEST_CASE("a name that is empty, dotted or taken is refused", "[nn]") {
    Scale module;
    CHECK_THROWS_AS(module.register_parameter("", ones({1})), ValueError);
    CHECK_THROWS_AS(module.register_parameter("a.b", ones({1})), ValueError);
    CHECK_THROWS_AS(module.register_parameter("calls", ones({1})), ValueError);
    CHECK_THROWS_AS(module.register_buffer("factor", ones({1})), ValueError);
    CHECK_THROWS_AS(module.register_parameter("fresh", Tensor()), ValueError);
    CHECK_THROWS_AS(module.register_parameter("whole", ones({1}, {.dtype = DType::i64})), DTypeError);
    CHECK_THROWS_AS(module.register_module("child", std::shared_ptr<Scale>()), ValueError);
    CHECK_THROWS_AS(module.register_module("factor", std::make_shared<Scale>()), ValueError);
    CHECK(names_of(module.named_parameters()) == std::vector<std::string>{"factor"});
}

TEST_CASE("a module cannot contain itself", "[nn]") {
    const auto outer = std::make_shared<Scale>();
    const auto inner = std::make_shared<Scale>();
    outer->register_module("inner", inner);
    CHECK_THROWS_AS(inner->register_module("outer", outer), ValueError);
    CHECK_THROWS_AS(inner->register_module("self", inner), ValueError);
}

TEST_CASE("an error names the innermost layer and keeps its type", "[nn]") {
    const auto model = std::make_shared<nn::Sequential>();
    auto inner = std::make_shared<nn::Sequential>();
    inner->push_back("conv", std::make_shared<nn::Conv2d>(nn::Conv2dOptions(3, 4, 3)));
    model->push_back("layer", inner);
    CHECK_THROWS_AS((*model)(zeros({1, 5, 8, 8})), ShapeError);
    const std::string text = error_of([&] { (*model)(zeros({1, 5, 8, 8})); });
    CHECK_THAT(text, Contains("[4, 3, 3, 3]") && Contains("(in layer.conv)"));
    CHECK(text.find("(in ") == text.rfind("(in "));
}

TEST_CASE("training mode reaches every module", "[nn]") {
    const auto model = std::make_shared<nn::Sequential>();
    auto drop = std::make_shared<nn::Dropout>(0.5);
    auto inner = std::make_shared<nn::Sequential>();
    inner->push_back(drop);
    model->push_back(inner);
    CHECK(drop->is_training());
    model->eval();
    CHECK_FALSE(drop->is_training());
    const Tensor x = ones({64});
    CHECK((*model)(x).to_vector<float>() == x.to_vector<float>());
    model->train();
    CHECK(drop->is_training());
    CHECK((*model)(x).to_vector<float>() != x.to_vector<float>());
}

TEST_CASE("a module under two names is trained once with the sum of its gradients", "[nn]") {
    Twice model;
    CHECK(names_of(model.named_parameters()) == std::vector<std::string>{"first.factor"});
    CHECK(model.named_modules().size() == 2);
    CHECK(model.state_dict().size() == 4);
    // d(x f^2) / df = 2 x f
    sum(model(full({2}, 5.0))).backward();
    CHECK(model.factor().grad().item() == Catch::Approx(2 * 2 * 5.0 * 3.0));
    model.zero_grad();
    CHECK_FALSE(model.factor().grad().defined());
}

TEST_CASE("an observer sees calls from the inside out", "[nn]") {
    Twice model;
    std::vector<std::string> seen;
    {
        const nn::CallObserver observer([&](nn::Module& module, const Tensor& input, const Tensor& output) {
            CHECK(input.shape() == output.shape());
            seen.push_back(module.type_name());
        });
        model(ones({2}));
    }
    model(ones({2}));
    CHECK(seen == std::vector<std::string>{"Scale", "Scale", "Twice"});
}

TEST_CASE("a frozen module gets no gradients", "[nn]") {
    nn::Linear layer(3, 2);
    layer.set_requires_grad(false);
    CHECK_FALSE(layer(ones({1, 3})).requires_grad());
    layer.set_requires_grad(true);
    CHECK(layer(ones({1, 3})).requires_grad());
}

TEST_CASE("to() converts floating tensors in place and forgets gradients", "[nn]") {
    Scale module(0.1);
    const Tensor handle = module.factor();
    sum(module(ones({2}))).backward();
    module.to(DType::f64);
    CHECK(handle.dtype() == DType::f64);
    CHECK(handle.requires_grad());
    CHECK_FALSE(handle.grad().defined());
    CHECK(handle.item() == static_cast<double>(0.1F));
    CHECK(module.named_buffers().front().second.dtype() == DType::i64);
    sum(module(ones({2}, {.dtype = DType::f64}))).backward();
    CHECK(handle.grad().item() == 2.0);
    CHECK_THROWS_AS(module.to(DType::i32), DTypeError);
}

TEST_CASE("to() moves parameters and buffers to a device", "[nn]") {
    test::for_each_device([](Device device) {
        nn::Linear layer(3, 2);
        const std::vector<float> before = layer.weight().to_vector<float>();
        layer.to(device);
        CHECK(layer.weight().device() == device);
        CHECK(layer.weight().to_vector<float>() == before);
        CHECK(layer(ones({1, 3}, {.device = device})).device() == device);
    });
}

TEST_CASE("a state dict goes into another model of the same shape", "[nn]") {
    manual_seed(1);
    const auto source = two_linears();
    const auto target = two_linears();
    const nn::StateDict state = nn::clone(source->state_dict());
    target->load_state_dict(state);
    const auto loaded = target->state_dict();
    REQUIRE(loaded.size() == state.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
        CHECK(loaded[i].first == state[i].first);
        CHECK(loaded[i].second.to_vector<float>() == state[i].second.to_vector<float>());
    }
    CHECK(nn::find(state, "1.last.weight") != nullptr);
    CHECK(nn::find(state, "1.last.bias") == nullptr);
}

TEST_CASE("a state dict shares the elements and a clone does not", "[nn]") {
    const Scale module(1.0);
    const nn::StateDict shared = module.state_dict();
    const nn::StateDict copied = nn::clone(shared);
    {
        const NoGradGuard no_grad;
        module.factor().fill_(7.0);
    }
    CHECK(shared.front().second.item() == 7.0);
    CHECK(copied.front().second.item() == 1.0);
    CHECK_FALSE(shared.front().second.requires_grad());
}

TEST_CASE("loading lists every name that does not fit and changes nothing", "[nn]") {
    const auto model = two_linears();
    const nn::StateDict before = nn::clone(model->state_dict());
    nn::StateDict state{{"0.weight", zeros({2, 3})}, {"0.bias", zeros({3})}, {"extra", zeros({1})}};
    const std::string text = error_of([&] { model->load_state_dict(state); });
    CHECK_THAT(text, Contains("1.last.weight") && Contains("extra") && Contains("0.bias") &&
                         Contains("[3]") && Contains("[2]"));
    const std::string loose = error_of([&] { model->load_state_dict(state, false); });
    CHECK_THAT(loose, Contains("0.bias") && !Contains("extra"));
    for (const auto& [name, tensor] : model->state_dict())
        CHECK(tensor.to_vector<float>() == nn::find(before, name)->to_vector<float>());
}

TEST_CASE("loading without strict takes what fits by name", "[nn]") {
    const auto model = two_linears();
    const std::vector<float> last = nn::find(model->state_dict(), "1.last.weight")->to_vector<float>();
    model->load_state_dict({{"0.bias", ones({2})}, {"extra", zeros({1})}}, false);
    CHECK(nn::find(model->state_dict(), "0.bias")->to_vector<float>() == std::vector<float>{1.0F, 1.0F});
    CHECK(nn::find(model->state_dict(), "1.last.weight")->to_vector<float>() == last);
}

TEST_CASE("loading converts floating types and refuses integers for them", "[nn]") {
    for (const DType dtype : {DType::f64, DType::bf16, DType::f16}) {
        Scale module;
        module.load_state_dict(
            {{"factor", full({}, 1.5, {.dtype = dtype})}, {"calls", zeros({}, {.dtype = DType::i64})}});
        CHECK(module.factor().dtype() == DType::f32);
        CHECK(module.factor().item() == 1.5);
        CHECK(module.factor().requires_grad());
    }
    Scale module(2.0);
    CHECK_THROWS_AS(module.load_state_dict({{"factor", ones({}, {.dtype = DType::i64})}}), Error);
    CHECK(module.factor().item() == 2.0);
}

TEST_CASE("a buffer that old files lack is taken as zero", "[nn]") {
    Scale module;
    module.load_state_dict({{"factor", ones({})}, {"calls", full({}, 3.0, {.dtype = DType::i64})}});
    CHECK(module.named_buffers().front().second.item() == 3.0);
    module.load_state_dict({{"factor", ones({})}});
    CHECK(module.named_buffers().front().second.item() == 0.0);
    CHECK_THROWS_AS(module.load_state_dict({{"calls", zeros({}, {.dtype = DType::i64})}}), Error);
}
