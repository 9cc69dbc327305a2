#include "tests/reference/replay.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/ops/activation.h"
#include "core/ops/batch_norm.h"
#include "core/ops/binary.h"
#include "core/ops/conv.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/matmul.h"
#include "core/ops/pool.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/softmax.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"

#include <functional>
#include <memory>

namespace fulcrum::test {

namespace {

using Attributes = nlohmann::json;
using Op = std::function<Tensor(const Attributes&, Roles&)>;

std::array<std::int64_t, 2> pair_of(const Attributes& attributes, const char* name, std::int64_t fallback) {
    if (!attributes.contains(name)) return {fallback, fallback};
    return {attributes.at(name).at(0), attributes.at(name).at(1)};
}

Tensor optional_role(const Roles& roles, const std::string& name) {
    const auto found = roles.find(name);
    return found == roles.end() ? Tensor() : found->second;
}

Pool2dParams pool_params(const Attributes& attributes) {
    Pool2dParams params;
    params.kernel = pair_of(attributes, "kernel", 2);
    params.stride = pair_of(attributes, "stride", 1);
    params.padding = pair_of(attributes, "padding", 0);
    params.dilation = pair_of(attributes, "dilation", 1);
    params.ceil_mode = attributes.value("ceil_mode", false);
    params.count_include_pad = attributes.value("count_include_pad", true);
    return params;
}

Reduction reduction_of(const Attributes& attributes) {
    const std::string name = attributes.value("reduction", "mean");
    if (name == "none") return Reduction::none;
    return name == "sum" ? Reduction::sum : Reduction::mean;
}

std::vector<std::int64_t> dims_of(const Attributes& attributes) {
    for (const char* name : {"dim", "dims"}) {
        if (attributes.contains(name) && attributes.at(name).is_array()) {
            return attributes.at(name).get<std::vector<std::int64_t>>();
        }
    }
    return {};
}

const Tensor& labels_of(const Roles& roles) {
    return roles.contains("labels") ? roles.at("labels") : roles.at("target");
}

Tensor run_conv2d(const Attributes& a, Roles& r) {
    Conv2dParams params;
    params.stride = pair_of(a, "stride", 1);
    params.padding = pair_of(a, "padding", 0);
    params.dilation = pair_of(a, "dilation", 1);
    params.groups = a.value("groups", 1);
    return conv2d(r.at("x"), r.at("weight"), optional_role(r, "bias"), params);
}

Tensor run_batch_norm(const Attributes& a, Roles& r) {
    BatchNormParams params;
    params.training = a.at("training");
    params.eps = a.at("eps");
    params.momentum = a.at("momentum");
    // The inputs of the case stay as they are: running statistics are updated in copies.
    const Tensor mean = r.at("running_mean").clone();
    const Tensor variance = r.at("running_var").clone();
    const Tensor out =
        batch_norm(r.at("x"), optional_role(r, "weight"), optional_role(r, "bias"), mean, variance, params);
    r["running_mean_after"] = r["running_mean_out"] = mean;
    r["running_var_after"] = r["running_var_out_unbiased"] = variance;
    return out;
}

// alpha * op(a) @ op(b) + beta * c, composed.
Tensor run_gemm(const Attributes& a, Roles& r) {
    const Tensor left = a.value("trans_a", false) ? transpose(r.at("a"), 0, 1) : r.at("a");
    const Tensor right = a.value("trans_b", false) ? transpose(r.at("b"), 0, 1) : r.at("b");
    const Tensor product = matmul(left, right) * a.value("alpha", 1.0);
    return r.contains("c") ? product + r.at("c") * a.value("beta", 1.0) : product;
}

// A graph of additions and multiplications, and the gradient of its last value with respect to the inputs.
Tensor run_gradient(const Attributes& a, Roles& r) {
    for (const auto& name : a.at("inputs"))
        r.at(name.get<std::string>()).set_requires_grad();
    Tensor last;
    for (const auto& node : a.at("graph")) {
        const auto inputs = node.at(1).get<std::vector<std::string>>();
        const auto outputs = node.at(2).get<std::vector<std::string>>();
        if (node.at(0) == "Gradient") {
            last.backward(ones(last.shape(), {.dtype = last.dtype(), .device = last.device()}));
            for (std::size_t i = 0; i < inputs.size(); ++i)
                r[outputs[i]] = r.at(inputs[i]).grad();
        } else {
            const auto apply = node.at(0) == "Add" ? add : mul;
            last = r[outputs[0]] = apply(r.at(inputs[0]), r.at(inputs[1]));
        }
    }
    return last;
}

const std::map<std::string, Op>& ops() {
    static const std::map<std::string, Op> all{
        {"conv2d", run_conv2d},
        {"batch_norm", run_batch_norm},
        {"batch_norm2d", run_batch_norm},
        {"gemm", run_gemm},
        {"gradient", run_gradient},
        {"linear", [](const Attributes&,
                      Roles& r) { return linear(r.at("x"), r.at("weight"), optional_role(r, "bias")); }},
        {"matmul", [](const Attributes&, Roles& r) { return matmul(r.at("a"), r.at("b")); }},
        {"add", [](const Attributes&, Roles& r) { return add(r.at("a"), r.at("b")); }},
        {"sub", [](const Attributes&, Roles& r) { return sub(r.at("a"), r.at("b")); }},
        {"mul", [](const Attributes&, Roles& r) { return mul(r.at("a"), r.at("b")); }},
        {"div", [](const Attributes&, Roles& r) { return div(r.at("a"), r.at("b")); }},
        {"relu", [](const Attributes&, Roles& r) { return relu(r.at("x")); }},
        {"sigmoid", [](const Attributes&, Roles& r) { return sigmoid(r.at("x")); }},
        {"tanh", [](const Attributes&, Roles& r) { return fulcrum::tanh(r.at("x")); }},
        {"gelu", [](const Attributes&, Roles& r) { return gelu(r.at("x")); }},
        {"silu", [](const Attributes&, Roles& r) { return silu(r.at("x")); }},
        {"softmax", [](const Attributes& a, Roles& r) { return softmax(r.at("x"), a.at("dim")); }},
        {"log_softmax", [](const Attributes& a, Roles& r) { return log_softmax(r.at("x"), a.at("dim")); }},
        {"max_pool2d", [](const Attributes& a, Roles& r) { return max_pool2d(r.at("x"), pool_params(a)); }},
        {"avg_pool2d", [](const Attributes& a, Roles& r) { return avg_pool2d(r.at("x"), pool_params(a)); }},
        {"adaptive_avg_pool2d",
         [](const Attributes& a, Roles& r) {
             return adaptive_avg_pool2d(r.at("x"), pair_of(a, "output_size", 1));
         }},
        {"global_avg_pool2d",
         [](const Attributes&, Roles& r) {
             return adaptive_avg_pool2d(r.at("x"), {1, 1});
         }},
        {"sum",
         [](const Attributes& a, Roles& r) { return sum(r.at("x"), dims_of(a), a.value("keepdim", false)); }},
        {"mean", [](const Attributes& a,
                    Roles& r) { return mean(r.at("x"), dims_of(a), a.value("keepdim", false)); }},
        {"reshape",
         [](const Attributes& a, Roles& r) {
             const auto wanted =
                 a.at(a.contains("requested") ? "requested" : "shape").get<std::vector<std::int64_t>>();
             return reshape(r.at("x"), Shape(std::span<const std::int64_t>(wanted)));
         }},
        {"flatten",
         [](const Attributes& a, Roles& r) {
             return flatten(r.at("x"), a.value("start_dim", 1), a.value("end_dim", -1));
         }},
        {"transpose",
         [](const Attributes& a, Roles& r) { return transpose(r.at("x"), a.at("dim0"), a.at("dim1")); }},
        {"permute", [](const Attributes& a, Roles& r) { return permute(r.at("x"), dims_of(a)); }},
        {"cross_entropy",
         [](const Attributes& a, Roles& r) {
             r["log_prob_out"] = log_softmax(r.at("logits").detach(), 1);
             return cross_entropy(
                 r.at("logits"), labels_of(r),
                 {.label_smoothing = a.value("label_smoothing", 0.0), .reduction = reduction_of(a)});
         }},
        {"nll_loss", [](const Attributes& a,
                        Roles& r) { return nll_loss(r.at("log_probs"), labels_of(r), reduction_of(a)); }},
    };
    return all;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const ReferenceCase& reference,
                                                 const std::vector<Tensor>& parameters) {
    const Attributes& a = reference.attributes;
    if (reference.op == "sgd") {
        return std::make_unique<optim::SGD>(parameters,
                                            optim::SgdOptions{.lr = a.at("lr"),
                                                              .momentum = a.value("momentum", 0.0),
                                                              .dampening = a.value("dampening", 0.0),
                                                              .weight_decay = a.value("weight_decay", 0.0),
                                                              .nesterov = a.value("nesterov", false)});
    }
    optim::AdamOptions options;
    options.lr = a.at("lr");
    options.eps = a.at("eps");
    options.weight_decay = a.value("weight_decay", 0.0);
    options.beta1 = a.contains("betas") ? a.at("betas").at(0).get<double>() : a.at("beta1").get<double>();
    options.beta2 = a.contains("betas") ? a.at("betas").at(1).get<double>() : a.at("beta2").get<double>();
    if (reference.op == "adamw") return std::make_unique<optim::AdamW>(parameters, options);
    return std::make_unique<optim::Adam>(parameters, options);
}

Tensor state_of(const optim::Optimizer& optimizer, const std::string& suffix) {
    for (const auto& [name, tensor] : optimizer.state_dict()) {
        if (name.ends_with(suffix)) return tensor.clone();
    }
    return {};
}

// One parameter, gradients as rows of a matrix; wanted is the parameter after each row, and the last state.
Roles replay_rows(const ReferenceCase& reference, const Tensor& parameter, const Tensor& gradients) {
    const auto optimizer = make_optimizer(reference, {parameter});
    const Tensor history = zeros(reference.tensors.at("params_out").shape(),
                                 {.dtype = parameter.dtype(), .device = parameter.device()});
    for (std::int64_t step = 0; step < gradients.size(0); ++step) {
        parameter.set_grad(squeeze(narrow(gradients, 0, step, 1), 0).clone());
        optimizer->step();
        squeeze(narrow(history, 0, step, 1), 0).copy_(parameter.detach());
    }
    return {{"params_out", history},
            {"exp_avg_out", state_of(*optimizer, ".exp_avg")},
            {"exp_avg_sq_out", state_of(*optimizer, ".exp_avg_sq")},
            {"momentum_buffer_out", state_of(*optimizer, ".momentum_buffer")}};
}

}  // namespace

bool can_replay(const std::string& op) {
    return ops().contains(op);
}

Roles replay(const ReferenceCase& reference, DType dtype, Device device) {
    Roles roles;
    std::vector<std::string> variables;
    for (const auto& [role, tensor] : reference.tensors) {
        const bool result = role.starts_with("grad_") || role.starts_with("out") || role.ends_with("_after");
        if (result && role != "grad_out") continue;
        Tensor input = (is_floating(tensor.dtype()) ? tensor.to(dtype) : tensor).to(device).clone();
        if (reference.tensors.contains("grad_" + role) && role != "out") {
            input.set_requires_grad();
            variables.push_back(role);
        }
        roles[role] = input;
    }
    const Tensor out = ops().at(reference.op)(reference.attributes, roles);
    roles["out"] = out;
    if (roles.contains("grad_out")) {
        out.backward(roles.at("grad_out"));
        for (const std::string& role : variables)
            roles["grad_" + role] = roles.at(role).grad();
    }
    return roles;
}

Roles replay_optimizer(const ReferenceCase& reference, DType dtype, Device device) {
    const auto input = [&](const std::string& role) {
        return reference.tensors.at(role).to(dtype).to(device).clone();
    };
    if (reference.tensors.contains("params_out")) {
        Tensor parameter = input("param");
        parameter.set_requires_grad();
        return replay_rows(reference, parameter, input("grads"));
    }
    std::vector<Tensor> parameters;
    while (reference.tensors.contains("param" + std::to_string(parameters.size()))) {
        parameters.push_back(input("param" + std::to_string(parameters.size())));
        parameters.back().set_requires_grad();
    }
    const auto optimizer = make_optimizer(reference, parameters);
    Roles results;
    for (int step = 0; reference.tensors.contains("grad0_step" + std::to_string(step)); ++step) {
        const std::string suffix = "_step" + std::to_string(step);
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            parameters[i].set_grad(input("grad" + std::to_string(i) + suffix));
        }
        optimizer->step();
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            results["param" + std::to_string(i) + "_after" + suffix] = parameters[i].detach().clone();
        }
    }
    return results;
}

}  // namespace fulcrum::test
