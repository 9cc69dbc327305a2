#include "nn/optim/optimizer.h"

#include "core/autograd.h"
#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace fulcrum::optim {
namespace {

std::vector<Tensor> tensors_of(const ParameterList& parameters) {
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : parameters.entries())
        tensors.push_back(tensor);
    return tensors;
}

/// Checked before the arena moves anything.
const ParameterList& checked(const std::string& optimizer, const ParameterList& parameters) {
    if (parameters.entries().empty()) throw ValueError(optimizer + ": there are no parameters to train");
    std::unordered_map<std::string, int> names;
    for (const auto& [name, tensor] : parameters.entries()) {
        if (++names[name] > 1)
            throw ValueError(fmt::format("{}: two parameters are named \"{}\"", optimizer, name));
        if (tensor.defined() && tensor.dtype() != DType::f32 && tensor.dtype() != DType::f64) {
            throw DTypeError(fmt::format(
                "{}: parameter {} is {}; parameters are f32 or f64 (train in bf16 with f32 parameters and a "
                "bf16 input)",
                optimizer, name, name_of(tensor.dtype())));
        }
    }
    return parameters;
}

Tensor integer(std::int64_t value) {
    return tensor<std::int64_t>({value}, {});
}

/// Collects what does not fit, for one message.
class Problems {
  public:
    void add(const std::string& kind, const std::string& what) {
        if (count_++ < kShown) text_ += (text_.empty() ? "" : "; ") + kind + " " + what;
    }
    void raise(const std::string& optimizer) const {
        if (count_ == 0) return;
        const std::string more =
            count_ > kShown ? "; and " + std::to_string(count_ - kShown) + " more" : std::string();
        throw ValueError(optimizer + ": the state does not fit this optimiser: " + text_ + more);
    }

  private:
    static constexpr std::size_t kShown = 8;
    std::size_t count_ = 0;
    std::string text_;
};

/// Looks entries up by name and remembers which were asked for.
class Reader {
  public:
    explicit Reader(const nn::StateDict& dict) {
        for (const auto& [name, tensor] : dict) {
            if (!tensor.defined()) {
                problems_.add("undefined", name);
            } else if (!entries_.try_emplace(name, tensor).second) {
                problems_.add("repeated", name);
            }
        }
    }

    /// The entry, or an undefined tensor; a wrong shape is a problem.
    Tensor take(const std::string& name, const Shape& shape, bool integer, bool required) {
        const auto entry = entries_.find(name);
        if (entry == entries_.end()) {
            if (required) problems_.add("missing", name);
            return {};
        }
        Tensor found = entry->second;
        entries_.erase(entry);
        const bool type_fits = integer ? found.dtype() == DType::i64 : is_floating(found.dtype());
        if (found.shape() != shape) {
            problems_.add("wrong shape:",
                          name + " is " + to_string(found.shape()) + " but must be " + to_string(shape));
        } else if (!type_fits) {
            problems_.add("wrong type:", name + " is " + std::string(name_of(found.dtype())));
        } else {
            return found;
        }
        return {};
    }

    /// A count from a scalar entry.
    std::int64_t take_count(const std::string& name) {
        const Tensor found = take(name, {}, true, true);
        if (!found.defined()) return 0;
        const std::int64_t value = found.to_vector<std::int64_t>().front();
        if (value < 0) problems_.add("negative", name);
        return value;
    }

    bool has(const std::string& name) const { return entries_.contains(name); }

    /// Names nobody asked for are problems too. \throws ValueError when there are any.
    void finish(const std::string& optimizer, const nn::StateDict& dict) {
        for (const auto& [name, tensor] : dict) {
            if (entries_.contains(name)) problems_.add("unexpected", name);
        }
        problems_.raise(optimizer);
    }

  private:
    std::unordered_map<std::string, Tensor> entries_;
    Problems problems_;
};

}  // namespace

ParameterList::ParameterList(std::span<const Tensor> parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
        entries_.emplace_back(std::to_string(i), parameters[i]);
}

Optimizer::Optimizer(std::string name, const ParameterList& parameters, std::vector<std::string> state_names,
                     bool saves_steps)
    : name_(std::move(name)),
      arena_(tensors_of(checked(name_, parameters))),
      state_names_(std::move(state_names)),
      saves_steps_(saves_steps),
      slots_(parameters.entries().size()),
      states_(state_names_.size(), std::vector<Tensor>(arena_.groups().size())) {
    for (const auto& [parameter_name, tensor] : parameters.entries())
        names_.push_back(parameter_name);
}

// --- Stepping

void Optimizer::zero_grad() const {
    for (const auto& entry : arena_.entries())
        entry.parameter.zero_grad();
}

bool Optimizer::takes_part(std::size_t i) const {
    const auto& entry = arena_.entries()[i];
    if (!entry.parameter.grad().defined()) return false;
    if (!arena_.holds(i)) {
        throw AutogradError(name_ + ": parameter " + names_[i] +
                            " was moved away after this optimiser was made (by Module::to or another "
                            "optimiser); make the optimiser last");
    }
    return true;
}

std::vector<Optimizer::Run> Optimizer::collect_runs() const {
    std::vector<Run> runs;
    for (std::size_t group = 0; group < arena_.groups().size(); ++group) {
        bool open = false;
        for (const std::size_t i : arena_.groups()[group].members) {
            const auto& entry = arena_.entries()[i];
            if (entry.length == 0) continue;
            if (!takes_part(i)) {
                open = false;
                continue;
            }
            const Slot& slot = slots_[i];
            if (open && runs.back().step == slot.steps + 1 && runs.back().has_state == slot.has_state) {
                runs.back().end = entry.offset + entry.length;
            } else {
                runs.push_back(
                    {group, entry.offset, entry.offset + entry.length, slot.steps + 1, slot.has_state});
                open = true;
            }
        }
    }
    return runs;
}

void Optimizer::prepare_states() {
    for (auto& state : states_) {
        for (std::size_t group = 0; group < state.size(); ++group) {
            if (!state[group].defined()) state[group] = zeros_like(arena_.groups()[group].values);
        }
    }
}

OptimizerSlice Optimizer::slice_of(const Run& run) const {
    const auto& group = arena_.groups()[run.group];
    const auto cut = [&](const Tensor& block) {
        return Tensor::view_of(block.storage(), run.begin, {run.end - run.begin}, {1}, block.dtype());
    };
    OptimizerSlice slice{cut(group.values), cut(group.gradients), {}, {}, !run.has_state};
    if (uses_state() && !states_.empty()) slice.state1 = cut(states_[0][run.group]);
    if (uses_state() && states_.size() > 1) slice.state2 = cut(states_[1][run.group]);
    return slice;
}

void Optimizer::step() {
    const NoGradGuard no_grad;
    const std::vector<Run> runs = collect_runs();
    if (uses_state()) prepare_states();

    // One call takes all slices of a block that are at the same step; as a rule that is one slice, the block.
    std::vector<bool> done(runs.size(), false);
    for (std::size_t first = 0; first < runs.size(); ++first) {
        if (done[first]) continue;
        std::vector<OptimizerSlice> slices;
        for (std::size_t k = first; k < runs.size(); ++k) {
            if (runs[k].group != runs[first].group || runs[k].step != runs[first].step) continue;
            slices.push_back(slice_of(runs[k]));
            done[k] = true;
        }
        update(runs[first].step, slices.front().param.device(), slices);
        arena_.groups()[runs[first].group].values.bump_version();
    }

    for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (!arena_.entries()[i].parameter.grad().defined()) continue;
        ++slots_[i].steps;
        slots_[i].has_state = slots_[i].has_state || uses_state();
    }
    ++step_count_;
}

// --- Saving and loading

Tensor Optimizer::state_view(std::size_t state, std::size_t i) const {
    const auto& entry = arena_.entries()[i];
    const Tensor& block = states_[state][entry.group];
    return Tensor::view_of(block.storage(), entry.offset, entry.gradient.shape(), entry.gradient.strides(),
                           block.dtype());
}

nn::StateDict Optimizer::state_dict() const {
    nn::StateDict dict;
    dict.emplace_back("step_count", integer(step_count_));
    for (const auto& [name, value] : settings())
        dict.emplace_back("options." + name, scalar(value, {.dtype = DType::f64}));
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (!slots_[i].has_state) continue;
        const std::string prefix = "state." + names_[i] + ".";
        if (saves_steps_) dict.emplace_back(prefix + "step", integer(slots_[i].steps));
        for (std::size_t state = 0; state < states_.size(); ++state)
            dict.emplace_back(prefix + state_names_[state], state_view(state, i));
    }
    return dict;
}

void Optimizer::load_state_dict(const nn::StateDict& dict) {
    Reader reader(dict);
    const std::int64_t step_count = reader.take_count("step_count");
    std::vector<double> values;
    for (const auto& [name, value] : settings()) {
        const Tensor found = reader.take("options." + name, {}, false, true);
        values.push_back(found.defined() ? found.item() : value);
    }
    std::vector<Slot> slots(slots_.size());
    std::vector<std::vector<Tensor>> sources(slots_.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const std::string prefix = "state." + names_[i] + ".";
        slots[i].has_state = reader.has(prefix + "step") ||
                             std::any_of(state_names_.begin(), state_names_.end(),
                                         [&](const std::string& name) { return reader.has(prefix + name); });
        if (!slots[i].has_state) continue;
        if (saves_steps_) slots[i].steps = reader.take_count(prefix + "step");
        for (const std::string& name : state_names_)
            sources[i].push_back(
                reader.take(prefix + name, arena_.entries()[i].gradient.shape(), false, true));
    }
    reader.finish(name_, dict);

    const NoGradGuard no_grad;
    prepare_states();
    set_settings(values);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        for (std::size_t state = 0; state < states_.size(); ++state) {
            if (slots[i].has_state) {
                state_view(state, i).copy_(sources[i][state]);
            } else {
                state_view(state, i).zero_();
            }
        }
    }
    slots_ = std::move(slots);
    step_count_ = step_count;
}

}  // namespace fulcrum::optim
