#include "nn/optim/schedule.h"

#include "core/error.h"
#include "nn/optim/check.h"
#include "nn/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace fulcrum::optim {
namespace {

void check_steps(const char* owner, const char* name, std::int64_t value) {
    if (value < 1) {
        throw ValueError(std::string(owner) + ": " + name + " is " + std::to_string(value) +
                         " but must be at least 1");
    }
}

void check_step(std::int64_t step) {
    if (step < 0) throw ValueError("schedule: step is " + std::to_string(step) + " but must be at least 0");
}

double power(double base, std::int64_t exponent) {
    return std::pow(base, static_cast<double>(exponent));
}

}  // namespace

// --- Schedule

double Schedule::rate(std::int64_t step) const {
    check_step(step);
    return rate_at(step);
}

std::optional<double> Schedule::momentum(std::int64_t step) const {
    check_step(step);
    return momentum_at(step);
}

std::optional<double> Schedule::momentum_at(std::int64_t /*step*/) const {
    return std::nullopt;
}

void apply_schedule(const Schedule& schedule, std::int64_t step, Optimizer& optimizer) {
    optimizer.set_lr(schedule.rate(step));
    if (const std::optional<double> momentum = schedule.momentum(step)) optimizer.set_momentum(*momentum);
}

// --- Constant, steps, cosine

ConstantLR::ConstantLR(double base_lr) : base_lr_(base_lr) {
    detail::check_not_negative("ConstantLR", "base_lr", base_lr);
}

double ConstantLR::rate_at(std::int64_t /*step*/) const {
    return base_lr_;
}

StepLR::StepLR(double base_lr, std::int64_t step_size, double gamma)
    : base_lr_(base_lr), gamma_(gamma), step_size_(step_size) {
    detail::check_not_negative("StepLR", "base_lr", base_lr);
    detail::check_not_negative("StepLR", "gamma", gamma);
    check_steps("StepLR", "step_size", step_size);
}

double StepLR::rate_at(std::int64_t step) const {
    return base_lr_ * power(gamma_, step / step_size_);
}

MultiStepLR::MultiStepLR(double base_lr, std::vector<std::int64_t> milestones, double gamma)
    : base_lr_(base_lr), gamma_(gamma), milestones_(std::move(milestones)) {
    detail::check_not_negative("MultiStepLR", "base_lr", base_lr);
    detail::check_not_negative("MultiStepLR", "gamma", gamma);
    std::sort(milestones_.begin(), milestones_.end());
    if (!milestones_.empty() && milestones_.front() < 0) {
        throw ValueError("MultiStepLR: milestone " + std::to_string(milestones_.front()) +
                         " is negative; milestones are steps from 0");
    }
}

double MultiStepLR::rate_at(std::int64_t step) const {
    const auto reached = std::upper_bound(milestones_.begin(), milestones_.end(), step) - milestones_.begin();
    return base_lr_ * power(gamma_, reached);
}

CosineAnnealingLR::CosineAnnealingLR(double base_lr, std::int64_t period, double min_lr)
    : base_lr_(base_lr), min_lr_(min_lr), period_(period) {
    detail::check_not_negative("CosineAnnealingLR", "base_lr", base_lr);
    detail::check_not_negative("CosineAnnealingLR", "min_lr", min_lr);
    check_steps("CosineAnnealingLR", "period", period);
}

double CosineAnnealingLR::rate_at(std::int64_t step) const {
    const double turn = static_cast<double>(step) / static_cast<double>(period_);
    return min_lr_ + (base_lr_ - min_lr_) * (1.0 + std::cos(std::numbers::pi * turn)) / 2.0;
}

// --- One cycle

OneCycleLR::OneCycleLR(const OneCycleOptions& options) : options_(options) {
    constexpr const char* kOwner = "OneCycleLR";
    detail::check_not_negative(kOwner, "max_lr", options.max_lr);
    check_steps(kOwner, "total_steps", options.total_steps);
    detail::check_fraction(kOwner, "pct_start", options.pct_start);
    for (const double factor : {options.div_factor, options.final_div_factor}) {
        if (!(factor > 0.0) || !std::isfinite(factor)) {
            throw ValueError("OneCycleLR: div_factor and final_div_factor are " +
                             std::to_string(options.div_factor) + " and " +
                             std::to_string(options.final_div_factor) + " but must be above 0");
        }
    }
    detail::check_below_one(kOwner, "base_momentum", options.base_momentum);
    detail::check_below_one(kOwner, "max_momentum", options.max_momentum);
}

double OneCycleLR::interpolate(std::int64_t step, double first, double peak, double last) const {
    struct Phase {
        double end, from, to;
    };
    const auto total = static_cast<double>(options_.total_steps);
    const double rise_end = options_.pct_start * total - 1.0;
    std::vector<Phase> phases{{rise_end, first, peak}};
    if (options_.three_phase) phases.push_back({2.0 * options_.pct_start * total - 2.0, peak, first});
    const double from = options_.three_phase ? first : peak;
    phases.push_back({total - 1.0, from, last});

    const auto at = static_cast<double>(std::min(step, options_.total_steps - 1));
    double start = 0.0;
    std::size_t k = 0;
    while (k + 1 < phases.size() && at > phases[k].end)
        start = phases[k++].end;
    const Phase& phase = phases[k];
    const double share = phase.end > start ? (at - start) / (phase.end - start) : 1.0;
    if (options_.linear) return phase.from + (phase.to - phase.from) * share;
    return phase.to + (phase.from - phase.to) / 2.0 * (1.0 + std::cos(std::numbers::pi * share));
}

double OneCycleLR::rate_at(std::int64_t step) const {
    const double first = options_.max_lr / options_.div_factor;
    return interpolate(step, first, options_.max_lr, first / options_.final_div_factor);
}

std::optional<double> OneCycleLR::momentum_at(std::int64_t step) const {
    if (!options_.cycle_momentum) return std::nullopt;
    return interpolate(step, options_.max_momentum, options_.base_momentum, options_.max_momentum);
}

// --- Warm-up

LinearWarmup::LinearWarmup(double base_lr, std::int64_t steps, double start_factor, double end_factor)
    : base_lr_(base_lr), start_factor_(start_factor), end_factor_(end_factor), steps_(steps) {
    detail::check_not_negative("LinearWarmup", "base_lr", base_lr);
    check_steps("LinearWarmup", "steps", steps);
    detail::check_fraction("LinearWarmup", "start_factor", start_factor);
    detail::check_fraction("LinearWarmup", "end_factor", end_factor);
}

double LinearWarmup::rate_at(std::int64_t step) const {
    const double share = static_cast<double>(std::min(step, steps_)) / static_cast<double>(steps_);
    return base_lr_ * (start_factor_ + (end_factor_ - start_factor_) * share);
}

SequentialLR::SequentialLR(std::shared_ptr<const Schedule> first, std::int64_t steps,
                           std::shared_ptr<const Schedule> second)
    : first_(std::move(first)), second_(std::move(second)), steps_(steps) {
    if (first_ == nullptr || second_ == nullptr) throw ValueError("SequentialLR: a schedule is null");
    if (steps < 0) {
        throw ValueError("SequentialLR: steps is " + std::to_string(steps) + " but must be at least 0");
    }
}

double SequentialLR::rate_at(std::int64_t step) const {
    return step < steps_ ? first_->rate(step) : second_->rate(step - steps_);
}

std::optional<double> SequentialLR::momentum_at(std::int64_t step) const {
    return step < steps_ ? first_->momentum(step) : second_->momentum(step - steps_);
}

// --- By name

namespace {

constexpr double kWarmupStart = 0.1;

using Maker = std::shared_ptr<const Schedule> (*)(const ScheduleOptions&, std::int64_t steps);

/// Schedules that follow the warm-up; `steps` is what it leaves.
constexpr std::array<std::pair<const char*, Maker>, 4> kMakers{{
    {"constant",
     [](const ScheduleOptions& options, std::int64_t) -> std::shared_ptr<const Schedule> {
         return std::make_shared<ConstantLR>(options.lr);
     }},
    {"step",
     [](const ScheduleOptions& options, std::int64_t steps) -> std::shared_ptr<const Schedule> {
         const std::int64_t third = std::max<std::int64_t>(1, steps / 3);
         return std::make_shared<StepLR>(options.lr, options.step_size == 0 ? third : options.step_size,
                                         options.gamma);
     }},
    {"multistep",
     [](const ScheduleOptions& options, std::int64_t steps) -> std::shared_ptr<const Schedule> {
         std::vector<std::int64_t> milestones{steps / 2, steps * 3 / 4};
         if (!options.milestones.empty()) milestones = options.milestones;
         for (std::int64_t& milestone : milestones) {
             if (options.milestones.empty()) continue;
             if (milestone < options.warmup_steps) {
                 throw ValueError("multistep: milestone " + std::to_string(milestone) +
                                  " lies within the warm-up of " + std::to_string(options.warmup_steps) +
                                  " steps");
             }
             milestone -= options.warmup_steps;
         }
         return std::make_shared<MultiStepLR>(options.lr, std::move(milestones), options.gamma);
     }},
    {"cosine",
     [](const ScheduleOptions& options, std::int64_t steps) -> std::shared_ptr<const Schedule> {
         return std::make_shared<CosineAnnealingLR>(options.lr, steps);
     }},
}};

constexpr const char* kOneCycle = "one_cycle";

std::shared_ptr<const Schedule> make_one_cycle(const ScheduleOptions& options) {
    OneCycleOptions cycle{.max_lr = options.lr, .total_steps = options.total_steps};
    if (options.warmup_steps > 0) {
        cycle.pct_start =
            static_cast<double>(options.warmup_steps) / static_cast<double>(options.total_steps);
    }
    return std::make_shared<OneCycleLR>(cycle);
}

}  // namespace

std::vector<std::string> schedule_names() {
    std::vector<std::string> names;
    names.reserve(kMakers.size() + 1);
    for (const auto& [name, maker] : kMakers)
        names.emplace_back(name);
    names.emplace_back(kOneCycle);
    return names;
}

std::shared_ptr<const Schedule> make_schedule(const std::string& name, const ScheduleOptions& options) {
    check_steps("schedule", "total_steps", options.total_steps);
    if (options.warmup_steps < 0 || options.warmup_steps >= options.total_steps) {
        throw ValueError("schedule: warmup_steps is " + std::to_string(options.warmup_steps) +
                         " but must be at least 0 and below total_steps, " +
                         std::to_string(options.total_steps));
    }
    if (name == kOneCycle) return make_one_cycle(options);
    const auto* entry =
        std::find_if(kMakers.begin(), kMakers.end(), [&](const auto& item) { return name == item.first; });
    if (entry == kMakers.end()) {
        std::string known;
        for (const std::string& item : schedule_names())
            known += (known.empty() ? "" : ", ") + item;
        throw ValueError("schedule: there is no schedule \"" + name + "\"; known are " + known);
    }
    auto schedule = entry->second(options, options.total_steps - options.warmup_steps);
    if (options.warmup_steps == 0) return schedule;
    auto warmup = std::make_shared<LinearWarmup>(options.lr, options.warmup_steps, kWarmupStart);
    return std::make_shared<SequentialLR>(std::move(warmup), options.warmup_steps, std::move(schedule));
}

}  // namespace fulcrum::optim
