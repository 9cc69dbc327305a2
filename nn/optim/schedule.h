#pragma once

/// \file
/// Learning-rate schedules: pure functions of the step number. Nothing is carried from step to step, so a
/// resumed run has the rates of one that was never stopped. What a step is (an optimiser step or an epoch) is
/// the caller's choice. Formulas are those of PyTorch's schedulers in closed form.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fulcrum::optim {

/// A rate for every step.
class Schedule {
  public:
    Schedule() = default;
    virtual ~Schedule() = default;
    Schedule(const Schedule&) = delete;
    Schedule& operator=(const Schedule&) = delete;

    /// The rate in force at step `step`, from 0. \throws ValueError for a negative step.
    double rate(std::int64_t step) const;
    /// The momentum in force, where the schedule moves it. \throws ValueError for a negative step.
    std::optional<double> momentum(std::int64_t step) const;

  protected:
    /// \param step not negative.
    virtual double rate_at(std::int64_t step) const = 0;
    /// \param step not negative.
    virtual std::optional<double> momentum_at(std::int64_t step) const;
};

/// `base_lr` always.
class ConstantLR : public Schedule {
  public:
    /// \throws ValueError unless the rate is finite and >= 0 (as for all schedules).
    explicit ConstantLR(double base_lr);

  protected:
    double rate_at(std::int64_t step) const override;

  private:
    double base_lr_;
};

/// `base_lr * gamma^(step / step_size)`, division rounded down.
class StepLR : public Schedule {
  public:
    /// \throws ValueError unless `step_size` >= 1 and `gamma` is finite and >= 0.
    StepLR(double base_lr, std::int64_t step_size, double gamma = 0.1);

  protected:
    double rate_at(std::int64_t step) const override;

  private:
    double base_lr_, gamma_;
    std::int64_t step_size_;
};

/// `base_lr * gamma^(milestones that the step has reached)`.
class MultiStepLR : public Schedule {
  public:
    /// \param milestones steps, any order, repeats count. \throws ValueError for a negative one or a bad
    /// `gamma`.
    MultiStepLR(double base_lr, std::vector<std::int64_t> milestones, double gamma = 0.1);

  protected:
    double rate_at(std::int64_t step) const override;

  private:
    double base_lr_, gamma_;
    std::vector<std::int64_t> milestones_;
};

/// `min_lr + (base_lr - min_lr) * (1 + cos(pi * step / period)) / 2` (Loshchilov and Hutter, 2017, without
/// restarts). Past `period` the rate rises again, as in other libraries.
class CosineAnnealingLR : public Schedule {
  public:
    /// \throws ValueError unless `period` >= 1 and both rates are finite and >= 0.
    CosineAnnealingLR(double base_lr, std::int64_t period, double min_lr = 0.0);

  protected:
    double rate_at(std::int64_t step) const override;

  private:
    double base_lr_, min_lr_;
    std::int64_t period_;
};

/// Settings of `OneCycleLR`.
struct OneCycleOptions {
    double max_lr = 0.1;            ///< the peak
    std::int64_t total_steps = 1;   ///< steps of the whole run, at least 1
    double pct_start = 0.3;         ///< share of the run in which the rate rises, in [0, 1]
    bool linear = false;            ///< straight lines instead of half cosines
    double div_factor = 25.0;       ///< the first rate is max_lr / div_factor
    double final_div_factor = 1e4;  ///< the last rate is the first / final_div_factor
    bool three_phase = false;       ///< back to the first rate, then down, instead of down at once
    bool cycle_momentum = true;     ///< move momentum against the rate
    double base_momentum = 0.85;    ///< at the peak
    double max_momentum = 0.95;     ///< at the ends
};

/// One rise to a peak and one long fall (Smith and Topin, 2018). After `total_steps` the last rate holds.
class OneCycleLR : public Schedule {
  public:
    /// \throws ValueError naming the setting that is out of range.
    explicit OneCycleLR(const OneCycleOptions& options);

  protected:
    double rate_at(std::int64_t step) const override;
    std::optional<double> momentum_at(std::int64_t step) const override;

  private:
    double interpolate(std::int64_t step, double first, double peak, double last) const;

    OneCycleOptions options_;
};

/// `base_lr * factor`, where the factor rises in a straight line from `start_factor` to `end_factor` over
/// `steps` steps and then stays.
class LinearWarmup : public Schedule {
  public:
    /// \throws ValueError unless `steps` >= 1, `start_factor` is in (0, 1] and `end_factor` in [0, 1].
    LinearWarmup(double base_lr, std::int64_t steps, double start_factor = 1.0 / 3.0,
                 double end_factor = 1.0);

    std::int64_t steps() const { return steps_; }

  protected:
    double rate_at(std::int64_t step) const override;

  private:
    double base_lr_, start_factor_, end_factor_;
    std::int64_t steps_;
};

/// `first` for `steps` steps, then `second` counted from 0: a warm-up followed by another schedule.
class SequentialLR : public Schedule {
  public:
    /// \throws ValueError for a null schedule or a negative `steps`.
    SequentialLR(std::shared_ptr<const Schedule> first, std::int64_t steps,
                 std::shared_ptr<const Schedule> second);

  protected:
    double rate_at(std::int64_t step) const override;
    std::optional<double> momentum_at(std::int64_t step) const override;

  private:
    std::shared_ptr<const Schedule> first_, second_;
    std::int64_t steps_;
};

class Optimizer;

/// Sets the optimiser's rate, and its momentum where the schedule moves it, to those of `step`. \throws
/// ValueError.
void apply_schedule(const Schedule& schedule, std::int64_t step, Optimizer& optimizer);

/// What `make_schedule` needs to know of a run.
struct ScheduleOptions {
    double lr = 0.1;                ///< base rate; the peak of one_cycle
    std::int64_t total_steps = 1;   ///< steps of the whole run, warm-up included
    std::int64_t warmup_steps = 0;  ///< linear warm-up from lr / 10 before the schedule; the length of
                                    ///< one_cycle's rise, where 0 means 30% of the run
    double gamma = 0.1;             ///< factor of step and multistep
    std::int64_t step_size = 0;     ///< of step; 0 means a third of what follows the warm-up
    std::vector<std::int64_t> milestones{};  ///< of multistep, counted from the start of the run; empty means
                                             ///< at a half and three quarters of what follows the warm-up
};

/// A schedule by name: `constant`, `step`, `multistep`, `cosine`, `one_cycle`. \throws ValueError for an
/// unknown name, listing the known ones, and for settings out of range.
std::shared_ptr<const Schedule> make_schedule(const std::string& name, const ScheduleOptions& options);

/// The names that `make_schedule` knows.
std::vector<std::string> schedule_names();

}  // namespace fulcrum::optim
