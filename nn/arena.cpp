#include "nn/arena.h"

#include "core/autograd.h"
#include "core/error.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace fulcrum::nn {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t elements, DType dtype) {
    const std::int64_t unit = kAlignment / static_cast<std::int64_t>(size_of(dtype));
    return (elements + unit - 1) / unit * unit;
}

void check(std::span<const Tensor> parameters) {
    std::unordered_set<const autograd::Meta*> seen;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Tensor& parameter = parameters[i];
        const std::string which = "parameter " + std::to_string(i);
        if (!parameter.defined()) throw ValueError("arena: " + which + " is undefined");
        if (!parameter.is_leaf())
            throw ValueError("arena: " + which + " was computed by a recorded op; parameters are leaves");
        if (!seen.insert(parameter.autograd_meta(true)).second)
            throw ValueError("arena: " + which + " is listed twice; list each parameter once");
    }
}

/// A piece of a block with the order in memory that `like` has.
Tensor place(const Tensor& block, std::int64_t offset, const Tensor& like) {
    const Strides strides =
        like.is_dense() && like.numel() > 0 ? like.strides() : contiguous_strides(like.shape());
    return Tensor::view_of(block.storage(), offset, like.shape(), strides, block.dtype());
}

}  // namespace

ParameterArena::ParameterArena(std::span<const Tensor> parameters) {
    check(parameters);
    const NoGradGuard no_grad;
    struct Plan {
        TensorOptions options;
        std::int64_t length = 0;
        std::vector<std::size_t> members;
    };
    std::vector<Plan> plans;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Tensor& parameter = parameters[i];
        auto plan = std::find_if(plans.begin(), plans.end(), [&](const Plan& item) {
            return item.options.dtype == parameter.dtype() && item.options.device == parameter.device();
        });
        if (plan == plans.end()) {
            plans.push_back({{.dtype = parameter.dtype(), .device = parameter.device()}, 0, {}});
            plan = plans.end() - 1;
        }
        entries_.push_back(
            {parameter, {}, static_cast<std::size_t>(plan - plans.begin()), plan->length, parameter.numel()});
        plan->members.push_back(i);
        plan->length += aligned(parameter.numel(), parameter.dtype());
    }
    // All memory is taken before the first parameter moves.
    for (Plan& plan : plans) {
        groups_.push_back({zeros({plan.length}, plan.options), zeros({plan.length}, plan.options),
                           std::move(plan.members)});
    }
    for (Entry& entry : entries_) {
        const Group& group = groups_[entry.group];
        const Tensor values = place(group.values, entry.offset, entry.parameter);
        values.copy_(entry.parameter);
        entry.parameter.set_data(values);
        entry.gradient = place(group.gradients, entry.offset, values);
        entry.parameter.set_grad_slot(entry.gradient);
    }
}

bool ParameterArena::holds(std::size_t i) const {
    const Entry& entry = entries_[i];
    const Tensor& values = groups_[entry.group].values;
    return entry.parameter.storage() == values.storage() &&
           entry.parameter.storage_offset() == entry.offset && entry.parameter.dtype() == values.dtype() &&
           entry.parameter.strides() == entry.gradient.strides();
}

}  // namespace fulcrum::nn
