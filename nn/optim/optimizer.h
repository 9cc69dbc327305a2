#pragma once

/// \file
/// What all optimisers share: the flat layout, per-parameter state, saving and loading.

#include "core/ops/optimizer.h"
#include "core/tensor.h"
#include "nn/arena.h"
#include "nn/state_dict.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fulcrum::optim {

/// The parameters to train: `model->parameters()`, or `model->named_parameters()` so that the saved state
/// carries their names; without names they are called `0`, `1`, ...
class ParameterList {
  public:
    // NOLINTBEGIN(google-explicit-constructor)
    ParameterList(std::span<const Tensor> parameters);
    ParameterList(const std::vector<Tensor>& parameters) : ParameterList(std::span(parameters)) {}
    ParameterList(std::vector<nn::NamedTensor> parameters) : entries_(std::move(parameters)) {}
    ParameterList(std::initializer_list<nn::NamedTensor> parameters) : entries_(parameters) {}
    // NOLINTEND(google-explicit-constructor)

    const std::vector<nn::NamedTensor>& entries() const { return entries_; }

  private:
    std::vector<nn::NamedTensor> entries_;
};

/// Updates parameters from their gradients.
///
/// The constructor moves the parameters into a `nn::ParameterArena` and lays the state out alike, so that a
/// step over a whole model is one kernel call. Make it after `Module::to`. One optimiser per parameter: a
/// second one takes the parameters away from the first, whose next step then throws.
class Optimizer {
  public:
    virtual ~Optimizer() = default;
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;

    /// Updates every parameter that has a gradient; the others, and their state, stay as they are (PyTorch's
    /// rule). Counts as an in-place change of the parameters. \throws AutogradError when a parameter was
    /// moved away from this optimiser.
    void step();
    /// Forgets the gradients.
    void zero_grad() const;

    /// The learning rate in force.
    virtual double lr() const = 0;
    /// \throws ValueError unless finite and >= 0.
    virtual void set_lr(double value) = 0;
    /// The quantity that a one-cycle schedule moves against the rate: SGD's momentum, Adam's beta1.
    virtual double momentum() const = 0;
    /// \throws ValueError unless in [0, 1).
    virtual void set_momentum(double value) = 0;

    /// `sgd`, `adam`, `adamw`.
    const std::string& name() const { return name_; }
    /// Calls of `step` so far.
    std::int64_t step_count() const { return step_count_; }
    const nn::ParameterArena& arena() const { return arena_; }

    /// Everything that the next step depends on: `step_count`, the settings (`options.lr`, ... f64 scalars),
    /// and for each parameter the state that exists: `state.<name>.momentum_buffer`, or `state.<name>.step`,
    /// `.exp_avg`, `.exp_avg_sq`. Tensors have the parameter's logical shape and share the optimiser's
    /// elements: `clone(dict)` is a snapshot.
    nn::StateDict state_dict() const;
    /// Replaces all of it: state that `dict` lacks is forgotten, never kept. Everything is checked before
    /// anything changes. \throws ValueError naming what is missing, unexpected, of a wrong shape or out of
    /// range.
    void load_state_dict(const nn::StateDict& dict);

  protected:
    /// Names and values of settings, in a fixed order.
    using Settings = std::vector<std::pair<std::string, double>>;

    /// \param name of the optimiser, for messages. \param parameters f32 or f64, each once. \param
    /// state_names one name for each state tensor per parameter, at most two. \param saves_steps each
    /// parameter's state has a step count. \throws ValueError when there are none, DTypeError for another
    /// type.
    Optimizer(std::string name, const ParameterList& parameters, std::vector<std::string> state_names,
              bool saves_steps);

    /// One kernel call. \param step of these slices, from 1. \param slices on one device, with states when
    /// `uses_state()`.
    virtual void update(std::int64_t step, Device device, std::span<OptimizerSlice> slices) = 0;
    /// False when the update needs no state (SGD without momentum).
    virtual bool uses_state() const { return true; }
    /// All settings, the rate included; what `state_dict` saves as `options.*`.
    virtual Settings settings() const = 0;
    /// Takes values in the order of `settings()`. Nothing changes when one is refused. \throws ValueError.
    virtual void set_settings(std::span<const double> values) = 0;

  private:
    /// State of one parameter.
    struct Slot {
        std::int64_t steps = 0;
        bool has_state = false;
    };

    /// Consecutive parameters of a block that one slice updates.
    struct Run {
        std::size_t group = 0;
        std::int64_t begin = 0, end = 0;
        std::int64_t step = 0;
        bool has_state = false;
    };

    bool takes_part(std::size_t i) const;
    std::vector<Run> collect_runs() const;
    void prepare_states();
    OptimizerSlice slice_of(const Run& run) const;
    Tensor state_view(std::size_t state, std::size_t i) const;

    std::string name_;
    std::vector<std::string> names_;  // of the parameters
    nn::ParameterArena arena_;
    std::vector<std::string> state_names_;
    bool saves_steps_;
    std::int64_t step_count_ = 0;
    std::vector<Slot> slots_;
    std::vector<std::vector<Tensor>> states_;  // [state][group], flat, undefined until needed
};

}  // namespace fulcrum::optim
