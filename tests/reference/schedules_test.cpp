#include "nn/optim/schedule.h"
#include "tests/catch.h"
#include "tests/reference/fixture.h"

#include <memory>

using namespace fulcrum;
using namespace fulcrum::test;

namespace {

std::shared_ptr<const optim::Schedule> schedule_of(const nlohmann::json& reference) {
    const std::string kind = reference.at("schedule");
    const double base = reference.at("base_lr");
    const auto& a = reference.at("attributes");
    if (kind == "step") return std::make_shared<optim::StepLR>(base, a.at("step_size"), a.at("gamma"));
    if (kind == "multistep") {
        return std::make_shared<optim::MultiStepLR>(base, a.at("milestones").get<std::vector<std::int64_t>>(),
                                                    a.at("gamma"));
    }
    if (kind == "cosine")
        return std::make_shared<optim::CosineAnnealingLR>(base, a.at("T_max"), a.at("eta_min"));
    if (kind == "linear_warmup") {
        return std::make_shared<optim::LinearWarmup>(base, a.at("total_iters"), a.at("start_factor"),
                                                     a.at("end_factor"));
    }
    if (kind == "linear_warmup_then_cosine") {
        const std::int64_t warmup = a.at("warmup_iters");
        return std::make_shared<optim::SequentialLR>(
            std::make_shared<optim::LinearWarmup>(base, warmup, a.at("start_factor")), warmup,
            std::make_shared<optim::CosineAnnealingLR>(base, a.at("T_max"), a.at("eta_min")));
    }
    REQUIRE(kind == "one_cycle");
    optim::OneCycleOptions options;
    options.max_lr = a.at("max_lr");
    options.total_steps = a.at("total_steps");
    options.pct_start = a.at("pct_start");
    options.linear = a.at("anneal_strategy") == "linear";
    options.div_factor = a.at("div_factor");
    options.final_div_factor = a.at("final_div_factor");
    options.three_phase = a.at("three_phase");
    return std::make_shared<optim::OneCycleLR>(options);
}

void check_file(const std::filesystem::path& path) {
    const nlohmann::json cases = load_json(path).at("cases");
    REQUIRE_FALSE(cases.empty());
    for (const auto& reference : cases) {
        const auto schedule = schedule_of(reference);
        INFO(reference.at("schedule") << " " << reference.at("attributes").dump());
        const auto rates = reference.at("lr").get<std::vector<double>>();
        for (std::size_t step = 0; step < rates.size(); ++step) {
            INFO("step " << step);
            CHECK(schedule->rate(static_cast<std::int64_t>(step)) ==
                  Catch::Approx(rates[step]).epsilon(1e-9).margin(1e-15));
        }
    }
}

}  // namespace

TEST_CASE("Bundled schedules have the reference's rate at every step", "[reference][schedule]") {
    check_file(bundled_reference() / "lr_schedules.json");
}

TEST_CASE("All schedules have the reference's rate at every step", "[reference][schedule]") {
    const auto folder = reference_folder();
    if (!folder) {
        WARN("skipped: no folder of reference values (set FULCRUM_REFERENCE)");
        return;
    }
    check_file(*folder / "handed" / "lr_schedules.json");
}
