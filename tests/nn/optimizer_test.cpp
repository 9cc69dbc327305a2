#include "nn/optim/optimizer.h"

#include "core/autograd.h"
#include "core/ops/binary.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/models.h"
#include "nn/optim/adam.h"
#include "nn/optim/clip.h"
#include "nn/optim/sgd.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

using namespace fulcrum;
using Catch::Approx;
using Catch::Matchers::Contains;

namespace {

/// A trainable tensor of one value.
Tensor parameter(double value, Device device = kCpu, DType dtype = DType::f32) {
    return full({1}, value, {.dtype = dtype, .device = device, .requires_grad = true});
}

void set_gradient(const Tensor& p, double value) {
    p.set_grad(full(p.shape(), value, {.dtype = p.dtype(), .device = p.device()}));
}

void step_with(optim::Optimizer& optimizer, const Tensor& p, double gradient) {
    set_gradient(p, gradient);
    optimizer.step();
    optimizer.zero_grad();
}

std::vector<std::string> names_of(const nn::StateDict& dict) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : dict)
        names.push_back(name);
    return names;
}

}  // namespace

TEST_CASE("SGD follows its formula", "[optim]") {
    test::for_each_device([](Device device) {
        for (const bool nesterov : {false, true}) {
            const Tensor p = parameter(2.0, device, DType::f64);
            optim::SGD sgd({std::vector<Tensor>{p}},
                           {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = nesterov});
            double expected = 2.0;
            double velocity = 0.0;
            for (int k = 0; k < 4; ++k) {
                const double gradient = 1.0 - 0.4 * k;
                const double g = gradient + 0.01 * expected;
                velocity = k == 0 ? g : 0.9 * velocity + g;
                expected -= 0.1 * (nesterov ? g + 0.9 * velocity : velocity);
                step_with(sgd, p, gradient);
                CHECK(p.item() == Approx(expected).epsilon(1e-13));
            }
        }
    });
}

TEST_CASE("Adam and AdamW decay as they say", "[optim]") {
    test::for_each_device([](Device device) {
        const optim::AdamOptions options{.lr = 0.1, .weight_decay = 0.1};
        const auto after_one_step = [&](auto make, double gradient) {
            const Tensor p = parameter(1.0, device);
            auto optimizer = make(std::vector<Tensor>{p});
            step_with(*optimizer, p, gradient);
            return p.item();
        };
        const auto adamw = [&](const std::vector<Tensor>& p) {
            return std::make_unique<optim::AdamW>(p, options);
        };
        const auto adam = [&](const std::vector<Tensor>& p) {
            return std::make_unique<optim::Adam>(p, options);
        };
        CHECK(after_one_step(adamw, 0.0) == Approx(0.99).epsilon(1e-5));
        CHECK(after_one_step(adamw, 0.5) == Approx(0.89).epsilon(1e-5));
        CHECK(after_one_step(adam, 0.0) == Approx(0.9).epsilon(1e-5));
    });
}

TEST_CASE("Adam corrects its bias per parameter", "[optim]") {
    test::for_each_device([](Device device) {
        const Tensor early = parameter(1.0, device, DType::f64);
        const Tensor late = parameter(1.0, device, DType::f64);
        optim::Adam adam(std::vector<Tensor>{early, late}, {.lr = 0.1});
        // The first two steps see one gradient, the third sees both.
        for (int k = 0; k < 2; ++k)
            step_with(adam, early, 0.5);
        CHECK(late.item() == 1.0);
        set_gradient(early, 0.5);
        set_gradient(late, 0.5);
        adam.step();
        // A constant gradient moves by the rate at each of a parameter's own steps.
        CHECK(early.item() == Approx(0.7).epsilon(1e-6));
        CHECK(late.item() == Approx(0.9).epsilon(1e-6));
        const auto state = adam.state_dict();
        CHECK(nn::find(state, "state.0.step")->item() == 3.0);
        CHECK(nn::find(state, "state.1.step")->item() == 1.0);
    });
}

TEST_CASE("a parameter without a gradient is left alone", "[optim]") {
    test::for_each_device([](Device device) {
        std::vector<Tensor> all;
        for (int i = 0; i < 5; ++i)
            all.push_back(parameter(1.0, device));
        optim::SGD sgd(all, {.lr = 0.5, .momentum = 0.9, .weight_decay = 0.1});
        for (const std::size_t i : {0U, 1U, 4U})
            set_gradient(all[i], 1.0);
        sgd.step();
        CHECK(all[0].item() == Approx(0.45));
        CHECK(all[1].item() == Approx(0.45));
        CHECK(all[2].item() == 1.0);
        CHECK(all[3].item() == 1.0);
        CHECK(all[4].item() == Approx(0.45));
        CHECK(nn::find(sgd.state_dict(), "state.1.momentum_buffer") != nullptr);
        CHECK(nn::find(sgd.state_dict(), "state.2.momentum_buffer") == nullptr);
        // Its first step writes the momentum, whatever step the others are at.
        sgd.zero_grad();
        set_gradient(all[2], 1.0);
        sgd.step();
        CHECK(all[2].item() == Approx(0.45));
        CHECK(all[0].item() == Approx(0.45));
    });
}

TEST_CASE("a whole model takes the same steps as its parameters one by one", "[optim]") {
    test::for_each_device([](Device device) {
        const auto train = [&](bool split) {
            manual_seed(5);
            const auto model = nn::small_cnn({.num_classes = 3});
            model->to(device);
            std::vector<std::unique_ptr<optim::SGD>> optimizers;
            const optim::SgdOptions options{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
            if (split) {
                for (const Tensor& p : model->parameters())
                    optimizers.push_back(std::make_unique<optim::SGD>(std::vector<Tensor>{p}, options));
            } else {
                optimizers.push_back(std::make_unique<optim::SGD>(model->parameters(), options));
            }
            const Tensor x = normal({4, 3, 32, 32}, 0.0, 1.0, {.device = device});
            const Tensor labels = tensor<std::int64_t>({0, 1, 2, 1}, {4}, device);
            std::vector<double> losses;
            for (int k = 0; k < 4; ++k) {
                const Tensor loss = nn::CrossEntropyLoss()((*model)(x), labels);
                losses.push_back(loss.item());
                model->zero_grad();
                loss.backward();
                for (auto& optimizer : optimizers)
                    optimizer->step();
            }
            CHECK(losses.back() < losses.front());
            return losses;
        };
        CHECK(train(false) == train(true));
    });
}

TEST_CASE("a step counts as an in-place change", "[optim]") {
    const Tensor p = parameter(2.0);
    optim::SGD sgd(std::vector<Tensor>{p}, {.lr = 0.1});
    const Tensor squared = mul(p, p);
    set_gradient(p, 1.0);
    sgd.step();
    CHECK_THROWS_AS(sum(squared).backward(), AutogradError);
}

TEST_CASE("loading replaces the state, however often", "[optim]") {
    test::for_each_device([](Device device) {
        const Tensor p = parameter(1.0, device);
        optim::SGD sgd(std::vector<Tensor>{p}, {.lr = 0.1, .momentum = 0.9});
        for (int k = 0; k < 2; ++k)
            step_with(sgd, p, 1.0);
        CHECK(p.item() == Approx(0.71));
        const nn::StateDict saved = nn::clone(sgd.state_dict());
        const Tensor saved_value = p.detach().clone();
        step_with(sgd, p, 1.0);
        CHECK(p.item() == Approx(0.439));
        for (int round = 0; round < 2; ++round) {
            for (int repeat = 0; repeat <= round; ++repeat)
                sgd.load_state_dict(saved);
            {
                const NoGradGuard no_grad;
                p.copy_(saved_value);
            }
            CHECK(sgd.step_count() == 2);
            CHECK(names_of(sgd.state_dict()) == names_of(saved));
            step_with(sgd, p, 1.0);
            CHECK(p.item() == Approx(0.439));
            step_with(sgd, p, 1.0);
            CHECK(p.item() == Approx(0.0951));
        }
        // Its own state, not copied, is a state like any other.
        const double velocity = nn::find(sgd.state_dict(), "state.0.momentum_buffer")->item();
        sgd.load_state_dict(sgd.state_dict());
        CHECK(nn::find(sgd.state_dict(), "state.0.momentum_buffer")->item() == velocity);
    });
}

TEST_CASE("loading forgets state that the dict lacks", "[optim]") {
    const Tensor p = parameter(1.0);
    optim::SGD fresh(std::vector<Tensor>{p}, {.lr = 0.1, .momentum = 0.9});
    const nn::StateDict empty = nn::clone(fresh.state_dict());
    step_with(fresh, p, 1.0);
    fresh.load_state_dict(empty);
    CHECK(names_of(fresh.state_dict()) == names_of(empty));
    step_with(fresh, p, 1.0);
    CHECK(p.item() == Approx(0.8));
}

TEST_CASE("a resumed Adam continues bit for bit", "[optim]") {
    test::for_each_device([](Device device) {
        const auto gradient = [](int k) { return 0.3 * k - 0.7; };
        const Tensor straight = parameter(1.0, device);
        optim::AdamW first({{"w", straight}}, {.lr = 0.01, .weight_decay = 0.1});
        for (int k = 0; k < 3; ++k)
            step_with(first, straight, gradient(k));
        const nn::StateDict saved = nn::clone(first.state_dict());
        CHECK(nn::find(saved, "state.w.exp_avg_sq") != nullptr);
        const Tensor resumed = parameter(straight.item(), device);
        optim::AdamW second({{"w", resumed}}, {.lr = 0.5});
        second.load_state_dict(saved);
        CHECK(second.lr() == 0.01);
        for (int k = 3; k < 6; ++k) {
            step_with(first, straight, gradient(k));
            step_with(second, resumed, gradient(k));
            CHECK(resumed.item() == straight.item());
        }
    });
}

TEST_CASE("a state that does not fit is refused and changes nothing", "[optim]") {
    const Tensor p = parameter(1.0);
    optim::Adam adam({{"w", p}}, {.lr = 0.1});
    step_with(adam, p, 1.0);
    const nn::StateDict before = nn::clone(adam.state_dict());
    optim::SGD sgd({{"w", parameter(1.0)}}, {.lr = 0.2, .momentum = 0.9});
    CHECK_THROWS_WITH(sgd.load_state_dict(before), Contains("options.beta1") && Contains("options.momentum"));
    CHECK(sgd.lr() == 0.2);

    const auto altered = [&](const std::string& name, const Tensor& value) {
        nn::StateDict dict;
        for (const auto& item : before) {
            if (item.first != name) dict.push_back(item);
        }
        if (value.defined()) dict.emplace_back(name, value);
        return dict;
    };
    CHECK_THROWS_WITH(adam.load_state_dict(altered("state.w.exp_avg", Tensor())),
                      Contains("state.w.exp_avg"));
    CHECK_THROWS_WITH(adam.load_state_dict(altered("state.w.exp_avg", zeros({2}))), Contains("[2]"));
    CHECK_THROWS_WITH(adam.load_state_dict(altered("state.v.exp_avg", zeros({1}))),
                      Contains("state.v.exp_avg"));
    CHECK_THROWS_WITH(adam.load_state_dict(altered("options.lr", scalar(-1.0))), Contains("lr"));
    CHECK_THROWS_WITH(adam.load_state_dict(altered("step_count", scalar(1.0))), Contains("step_count"));
    const nn::StateDict after = adam.state_dict();
    REQUIRE(names_of(after) == names_of(before));
    for (std::size_t i = 0; i < after.size(); ++i)
        CHECK(after[i].second.to_vector<double>() == before[i].second.to_vector<double>());
}

TEST_CASE("saved moments have the parameter's logical order", "[optim]") {
    test::for_each_device([](Device device) {
        Tensor p =
            zeros({2, 3, 2, 2}, {.device = device, .format = MemoryFormat::tap_major, .requires_grad = true});
        optim::SGD sgd(std::vector<Tensor>{p}, {.lr = 1.0, .momentum = 0.9});
        std::vector<float> values(24);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(i);
        p.set_grad(from_data<float>(values, p.shape(), {.device = device}));
        sgd.step();
        CHECK(nn::find(sgd.state_dict(), "state.0.momentum_buffer")->to_vector<float>() == values);
        CHECK(p.to_vector<float>()[23] == -23.0F);
    });
}

TEST_CASE("an optimiser whose parameters were moved away says so", "[optim]") {
    nn::Linear layer(2, 2);
    optim::SGD first(layer.named_parameters(), {.lr = 0.1});
    const optim::SGD second(layer.parameters(), {.lr = 0.1});
    sum(layer(ones({1, 2}))).backward();
    CHECK_THROWS_WITH(first.step(), Contains("weight") && Contains("make the optimiser last"));

    // At its old place, but in another order: gradients would go to other elements than their own.
    nn::Linear turned(2, 2);
    optim::SGD third(turned.named_parameters(), {.lr = 0.1});
    const Tensor weight = turned.parameters()[0];
    weight.set_data(transpose(weight.detach(), 0, 1));
    sum(turned(ones({1, 2}))).backward();
    CHECK_THROWS_WITH(third.step(), Contains("weight") && Contains("make the optimiser last"));
}

TEST_CASE("optimisers refuse settings and parameters that cannot work", "[optim]") {
    const std::vector<Tensor> p{parameter(1.0)};
    CHECK_THROWS_AS(optim::SGD(p, {.lr = -0.1}), ValueError);
    CHECK_THROWS_AS(optim::SGD(p, {.lr = std::nan("")}), ValueError);
    CHECK_THROWS_AS(optim::SGD(p, {.momentum = 1.0}), ValueError);
    CHECK_THROWS_AS(optim::SGD(p, {.dampening = 1.5}), ValueError);
    CHECK_THROWS_AS(optim::SGD(p, {.weight_decay = -1.0}), ValueError);
    CHECK_THROWS_AS(optim::SGD(p, {.nesterov = true}), ValueError);
    CHECK_THROWS_AS(optim::Adam(p, {.beta1 = 1.0}), ValueError);
    CHECK_THROWS_AS(optim::Adam(p, {.beta2 = -0.1}), ValueError);
    CHECK_THROWS_AS(optim::AdamW(p, {.eps = -1e-8}), ValueError);
    CHECK_THROWS_AS(optim::SGD(std::vector<Tensor>{}, {}), ValueError);
    CHECK_THROWS_AS(optim::SGD(std::vector<Tensor>{p[0], p[0]}, {}), ValueError);
    CHECK_THROWS_AS(optim::SGD({{"w", p[0]}, {"w", parameter(2.0)}}, {}), ValueError);
    CHECK_THROWS_AS(optim::SGD(std::vector<Tensor>{parameter(1.0, kCpu, DType::bf16)}, {}), DTypeError);
    optim::SGD sgd(p, {.lr = 0.1});
    CHECK_THROWS_AS(sgd.set_lr(-1.0), ValueError);
    CHECK_THROWS_AS(sgd.set_momentum(1.0), ValueError);
    CHECK(sgd.lr() == 0.1);
}

TEST_CASE("clipping scales all gradients to a joint norm", "[optim]") {
    test::for_each_device([](Device device) {
        const std::vector<Tensor> p{parameter(0.0, device), parameter(0.0, device), parameter(0.0, device)};
        set_gradient(p[0], 3.0);
        set_gradient(p[2], -4.0);
        CHECK(optim::clip_grad_norm(p, 10.0) == Approx(5.0));
        CHECK(p[0].grad().item() == 3.0);
        CHECK(optim::clip_grad_norm(p, 1.0) == Approx(5.0));
        CHECK(p[0].grad().item() == Approx(0.6));
        CHECK(p[2].grad().item() == Approx(-0.8));
        CHECK_FALSE(p[1].grad().defined());
        CHECK_THROWS_AS(optim::clip_grad_norm(p, 0.0), ValueError);
        set_gradient(p[0], INFINITY);
        CHECK(std::isinf(optim::clip_grad_norm(p, 1.0)));
        CHECK(p[2].grad().item() == Approx(-0.8));
        // Squares beyond f32, or below it, in a norm that it holds.
        set_gradient(p[0], 3e30);
        set_gradient(p[2], -4e30);
        CHECK(optim::clip_grad_norm(p, 1.0) == Approx(5e30));
        CHECK(p[0].grad().item() == Approx(0.6));
        set_gradient(p[0], 3e-30);
        set_gradient(p[2], -4e-30);
        CHECK(optim::clip_grad_norm(p, 1e-30) == Approx(5e-30).epsilon(1e-5));
        CHECK(p[0].grad().item() / 1e-30 == Approx(0.6));
        // A parameter that is listed twice has one gradient.
        set_gradient(p[0], 3.0);
        CHECK(optim::clip_grad_norm(std::vector<Tensor>{p[0], p[0]}, 1.0) == Approx(3.0));
        CHECK(p[0].grad().item() == Approx(1.0));
    });
}
