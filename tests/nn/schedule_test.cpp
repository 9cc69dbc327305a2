#include "nn/optim/schedule.h"

#include "core/error.h"
#include "nn/linear.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"
#include "tests/catch.h"

#include <memory>
#include <utility>
#include <vector>

using namespace fulcrum;
using Catch::Matchers::Contains;

namespace {

using Points = std::vector<std::pair<std::int64_t, double>>;

void check_rates(const optim::Schedule& schedule, double base, const Points& expected) {
    for (const auto& [step, rate] : expected) {
        INFO("step " << step);
        CHECK(schedule.rate(step) == Catch::Approx(rate).epsilon(1e-12).margin(1e-12 * base));
    }
}

}  // namespace

// The values are PyTorch 1.13's.

TEST_CASE("StepLR", "[optim]") {
    check_rates(optim::StepLR(0.1, 7, 0.5), 0.1,
                {{0, 0.1}, {6, 0.1}, {7, 0.05}, {14, 0.025}, {49, 0.00078125}});
    check_rates(
        optim::StepLR(0.1, 1, 0.95), 0.1,
        {{1, 0.095}, {5, 0.07737809374999999}, {20, 0.035848592240854196}, {49, 0.008099471081759275}});
}

TEST_CASE("MultiStepLR", "[optim]") {
    check_rates(optim::MultiStepLR(0.2, {45, 15, 30}), 0.2,
                {{14, 0.2}, {15, 0.02}, {29, 0.02}, {30, 0.002}, {44, 0.002}, {45, 0.0002}});
    check_rates(optim::MultiStepLR(100.0, {4}), 100.0,
                {{0, 100}, {1, 100}, {2, 100}, {3, 100}, {4, 10}, {5, 10}});
}

TEST_CASE("CosineAnnealingLR", "[optim]") {
    check_rates(optim::CosineAnnealingLR(0.1, 100, 0.001), 0.1,
                {{0, 0.1}, {1, 0.09997557473810371}, {25, 0.08550178566873408}, {49, 0.05205483257436733}});
    // Past the period the rate rises again.
    check_rates(optim::CosineAnnealingLR(0.1, 20), 0.1,
                {{5, 0.08535533905932739}, {20, 0.0}, {25, 0.014644660940672615}, {40, 0.1}});
    const optim::CosineAnnealingLR long_run(1e-3, 100);
    CHECK(long_run.rate(44) == Catch::Approx(5.936907e-4).epsilon(1e-6));
    CHECK(long_run.rate(45) == Catch::Approx(5.782172e-4).epsilon(1e-6));
    CHECK(long_run.rate(46) == Catch::Approx(5.626666e-4).epsilon(1e-6));
    CHECK(long_run.rate(100) == Catch::Approx(0.0).margin(1e-18));
}

TEST_CASE("OneCycleLR with half cosines", "[optim]") {
    const optim::OneCycleLR schedule({.max_lr = 0.1, .total_steps = 50});
    check_rates(schedule, 0.1,
                {{0, 0.004},
                 {1, 0.0052034602152724735},
                 {9, 0.07282641947764279},
                 {14, 0.1},
                 {15, 0.09979871550490317},
                 {30, 0.05671183644422961},
                 {49, 4e-07},
                 {80, 4e-07}});
    CHECK(*schedule.momentum(0) == Catch::Approx(0.95));
    CHECK(*schedule.momentum(5) == Catch::Approx(0.9216941869558779));
    CHECK(*schedule.momentum(14) == Catch::Approx(0.85));
    CHECK(*schedule.momentum(30) == Catch::Approx(0.8932883367091172));
    CHECK_FALSE(optim::OneCycleLR({.total_steps = 50, .cycle_momentum = false}).momentum(3).has_value());
}

TEST_CASE("OneCycleLR with straight lines", "[optim]") {
    const optim::OneCycleLR schedule({.max_lr = 0.5,
                                      .total_steps = 50,
                                      .pct_start = 0.2,
                                      .linear = true,
                                      .div_factor = 10.0,
                                      .final_div_factor = 100.0});
    check_rates(schedule, 0.5,
                {{0, 0.05}, {5, 0.3}, {9, 0.5}, {10, 0.4875125}, {30, 0.2377625}, {49, 0.0005}});
    CHECK(*schedule.momentum(14) == Catch::Approx(0.8625));
}

TEST_CASE("OneCycleLR in three phases", "[optim]") {
    const optim::OneCycleLR schedule({.max_lr = 1.0,
                                      .total_steps = 20,
                                      .pct_start = 0.25,
                                      .linear = true,
                                      .div_factor = 10.0,
                                      .final_div_factor = 10.0,
                                      .three_phase = true});
    // Up to step 4, down to the first rate at step 8, to the last rate at step 19.
    check_rates(schedule, 1.0, {{0, 0.1}, {2, 0.55}, {4, 1.0}, {6, 0.55}, {8, 0.1}, {19, 0.01}});
    CHECK(*schedule.momentum(4) == Catch::Approx(0.85));
    CHECK(*schedule.momentum(8) == Catch::Approx(0.95));
    CHECK(*schedule.momentum(15) == Catch::Approx(0.95));
}

TEST_CASE("OneCycleLR of very short runs stays finite", "[optim]") {
    for (const std::int64_t steps : {1, 2, 3, 4}) {
        const optim::OneCycleLR schedule({.max_lr = 1.0, .total_steps = steps, .pct_start = 0.25});
        for (std::int64_t step = 0; step < steps; ++step) {
            CHECK(schedule.rate(step) >= 0.0);
            CHECK(schedule.rate(step) <= 1.0);
        }
    }
}

TEST_CASE("LinearWarmup alone and before a cosine", "[optim]") {
    check_rates(optim::LinearWarmup(0.1, 20, 0.01), 0.1,
                {{0, 0.001}, {1, 0.00595}, {10, 0.0505}, {20, 0.1}, {49, 0.1}});
    check_rates(optim::LinearWarmup(0.1, 5), 0.1, {{0, 0.1 / 3.0}, {1, 0.04666666666666667}, {5, 0.1}});
    const optim::SequentialLR schedule(std::make_shared<optim::LinearWarmup>(0.1, 5, 0.1), 5,
                                       std::make_shared<optim::CosineAnnealingLR>(0.1, 45));
    check_rates(schedule, 0.1,
                {{0, 0.01},
                 {1, 0.028},
                 {5, 0.1},
                 {6, 0.09987820251299122},
                 {20, 0.075},
                 {35, 0.025},
                 {49, 0.00012179748700879013}});
    CHECK_FALSE(schedule.momentum(2).has_value());
}

TEST_CASE("a schedule asked in any order gives the same rates", "[optim]") {
    const auto schedule = optim::make_schedule("cosine", {.lr = 0.3, .total_steps = 40, .warmup_steps = 4});
    std::vector<double> forwards;
    for (std::int64_t step = 0; step < 40; ++step)
        forwards.push_back(schedule->rate(step));
    for (std::int64_t step = 39; step >= 0; --step)
        CHECK(schedule->rate(step) == forwards[static_cast<std::size_t>(step)]);
}

TEST_CASE("schedules by name", "[optim]") {
    CHECK(optim::schedule_names() ==
          std::vector<std::string>{"constant", "step", "multistep", "cosine", "one_cycle"});
    for (const std::string& name : optim::schedule_names()) {
        INFO(name);
        const auto schedule = optim::make_schedule(name, {.lr = 0.5, .total_steps = 100, .warmup_steps = 10});
        CHECK(schedule->rate(0) < 0.1);
        CHECK(schedule->rate(10) == Catch::Approx(0.5).epsilon(0.01));
    }
    check_rates(*optim::make_schedule("multistep",
                                      {.lr = 1.0, .total_steps = 10, .warmup_steps = 2, .milestones = {4}}),
                1.0, {{0, 0.1}, {1, 0.55}, {2, 1.0}, {3, 1.0}, {4, 0.1}});
    check_rates(*optim::make_schedule("multistep", {.lr = 1.0, .total_steps = 8}), 1.0,
                {{3, 1.0}, {4, 0.1}, {5, 0.1}, {6, 0.01}});
    check_rates(*optim::make_schedule("step", {.lr = 1.0, .total_steps = 9}), 1.0,
                {{2, 1.0}, {3, 0.1}, {6, 0.01}, {8, 0.01}});
    CHECK_THROWS_WITH(optim::make_schedule("cosinus", {}), Contains("cosinus") && Contains("one_cycle"));
    CHECK_THROWS_AS(optim::make_schedule("cosine", {.total_steps = 5, .warmup_steps = 5}), ValueError);
    CHECK_THROWS_AS(optim::make_schedule("cosine", {.total_steps = 0}), ValueError);
    CHECK_THROWS_AS(
        optim::make_schedule("multistep", {.total_steps = 9, .warmup_steps = 5, .milestones = {3}}),
        ValueError);
}

TEST_CASE("schedules refuse settings out of range", "[optim]") {
    CHECK_THROWS_AS(optim::ConstantLR(-0.1), ValueError);
    CHECK_THROWS_AS(optim::StepLR(0.1, 0), ValueError);
    CHECK_THROWS_AS(optim::MultiStepLR(0.1, {3, -1}), ValueError);
    CHECK_THROWS_AS(optim::CosineAnnealingLR(0.1, 0), ValueError);
    CHECK_THROWS_AS(optim::OneCycleLR({.max_lr = 0.1, .total_steps = 0}), ValueError);
    CHECK_THROWS_AS(optim::OneCycleLR({.total_steps = 5, .pct_start = 1.5}), ValueError);
    CHECK_THROWS_AS(optim::OneCycleLR({.total_steps = 5, .div_factor = 0.0}), ValueError);
    CHECK_THROWS_AS(optim::LinearWarmup(0.1, 0), ValueError);
    CHECK_THROWS_AS(optim::SequentialLR(nullptr, 1, nullptr), ValueError);
    CHECK_THROWS_AS(optim::ConstantLR(0.1).rate(-1), ValueError);
}

TEST_CASE("a schedule drives an optimiser's rate and momentum", "[optim]") {
    nn::Linear layer(2, 2);
    const optim::OneCycleLR schedule({.max_lr = 0.1, .total_steps = 50});
    optim::SGD sgd(layer.parameters(), {.lr = 1.0, .momentum = 0.9});
    optim::apply_schedule(schedule, 14, sgd);
    CHECK(sgd.lr() == Catch::Approx(0.1));
    CHECK(sgd.momentum() == Catch::Approx(0.85));
    optim::Adam adam(layer.parameters(), {});
    optim::apply_schedule(optim::ConstantLR(0.25), 3, adam);
    CHECK(adam.lr() == 0.25);
    CHECK(adam.momentum() == 0.9);
}
