#include "nn/arena.h"

#include "core/autograd.h"
#include "core/ops/binary.h"
#include "core/ops/reduce.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/models.h"
#include "tests/catch.h"
#include "tests/devices.h"

#include <utility>
#include <vector>

using namespace fulcrum;

TEST_CASE("parameters become views of one block and keep their values", "[nn]") {
    test::for_each_device([](Device device) {
        manual_seed(1);
        const auto model = nn::small_cnn();
        model->to(device);
        const nn::StateDict before = nn::clone(model->state_dict());
        const std::vector<Tensor> parameters = model->parameters();
        const nn::ParameterArena arena(parameters);
        REQUIRE(arena.groups().size() == 1);
        const auto& group = arena.groups()[0];
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            const auto& entry = arena.entries()[i];
            CHECK(arena.holds(i));
            CHECK(parameters[i].storage() == group.values.storage());
            CHECK(parameters[i].requires_grad());
            CHECK(entry.gradient.storage() == group.gradients.storage());
            CHECK(entry.offset * 4 % 64 == 0);
            CHECK(entry.gradient.strides() == parameters[i].strides());
            CHECK(parameters[i].to_vector<float>() == before[i].second.to_vector<float>());
        }
        CHECK(parameters[0].strides() == tap_major_strides(parameters[0].shape()));
    });
}

TEST_CASE("gradients arrive in the block", "[nn]") {
    test::for_each_device([](Device device) {
        nn::Conv2d layer(nn::Conv2dOptions(2, 3, 3));
        layer.to(device);
        const nn::ParameterArena arena(layer.parameters());
        const Tensor x = ones({1, 2, 4, 4}, {.device = device});
        sum(layer(x)).backward();
        for (std::size_t i = 0; i < 2; ++i) {
            const Tensor gradient = arena.entries()[i].parameter.grad();
            REQUIRE(gradient.defined());
            CHECK(gradient.storage() == arena.groups()[0].gradients.storage());
            for (const float value : gradient.to_vector<float>())
                CHECK(value == 4.0F);
        }
        // A second pass adds; a forgotten gradient starts anew.
        sum(layer(x)).backward();
        CHECK(layer.bias().grad().to_vector<float>() == std::vector<float>{8, 8, 8});
        layer.zero_grad();
        sum(layer(x)).backward();
        CHECK(layer.bias().grad().to_vector<float>() == std::vector<float>{4, 4, 4});
    });
}

TEST_CASE("the gradients of a layer that runs twice add up in the block", "[nn]") {
    test::for_each_device([](Device device) {
        manual_seed(3);
        nn::Linear layer(3, 3);
        layer.to(device);
        const Tensor x = normal({2, 3}, 0.0, 1.0, {.device = device});
        const auto gradients = [&] {
            layer.zero_grad();
            sum(layer(layer(x))).backward();
            return std::pair(layer.weight().grad().to_vector<float>(),
                             layer.bias().grad().to_vector<float>());
        };
        const auto plain = gradients();
        const nn::ParameterArena arena(layer.parameters());
        const auto in_block = gradients();
        CHECK(in_block.first == plain.first);
        CHECK(in_block.second == plain.second);
        CHECK(arena.entries()[0].gradient.to_vector<float>() == plain.first);
    });
}

TEST_CASE("gaps between parameters hold zeros", "[nn]") {
    nn::Linear layer(3, 5);
    nn::init_constant(layer.weight(), 1.0);
    nn::init_constant(layer.bias(), 1.0);
    const nn::ParameterArena arena(layer.parameters());
    const auto& group = arena.groups()[0];
    CHECK(group.values.numel() == 32);
    CHECK(sum(group.values).item() == 20.0);
    CHECK(sum(group.gradients).item() == 0.0);
}

TEST_CASE("a gradient that exists moves along", "[nn]") {
    nn::Linear layer(2, 1, false);
    sum(layer(ones({3, 2}))).backward();
    const nn::ParameterArena arena(layer.parameters());
    CHECK(layer.weight().grad().to_vector<float>() == std::vector<float>{3, 3});
    CHECK(layer.weight().grad().storage() == arena.groups()[0].gradients.storage());
}

TEST_CASE("each type gets a block of its own", "[nn]") {
    Tensor a = ones({3});
    Tensor b = ones({5}, {.dtype = DType::f64});
    Tensor c = ones({2});
    const std::vector<Tensor> parameters{a, b, c};
    const nn::ParameterArena arena(parameters);
    REQUIRE(arena.groups().size() == 2);
    CHECK(arena.groups()[0].members == std::vector<std::size_t>{0, 2});
    CHECK(arena.groups()[1].values.dtype() == DType::f64);
    CHECK(arena.entries()[2].offset == 16);
}

TEST_CASE("a parameter that is moved away is noticed", "[nn]") {
    nn::Linear layer(2, 2);
    const nn::ParameterArena arena(layer.parameters());
    layer.to(DType::f64);
    CHECK_FALSE(arena.holds(0));
    CHECK_FALSE(arena.holds(1));
}

TEST_CASE("an arena refuses what is not a list of leaves", "[nn]") {
    Tensor a = ones({3});
    a.set_requires_grad();
    const std::vector<Tensor> twice{a, a};
    CHECK_THROWS_AS(nn::ParameterArena(twice), ValueError);
    const std::vector<Tensor> computed{a * 2.0};
    CHECK_THROWS_AS(nn::ParameterArena(computed), ValueError);
    const std::vector<Tensor> undefined{Tensor()};
    CHECK_THROWS_AS(nn::ParameterArena(undefined), ValueError);
}
