#include "core/implementation.h"
#include "kernels/cpu/conv_paths.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/onednn_version.h"

#include <string>
#include <unordered_map>

namespace fulcrum::cpu::conv_onednn {

namespace {

constexpr const char* kOp = "conv2d";

enum class Pass : std::int64_t { forward, backward_data, backward_weight };

/// A convolution and the reorder between the caller's weights and the layout that the convolution prefers.
struct Plan {
    dnnl::primitive convolution;
    dnnl::primitive reorder;  ///< empty when the caller's layout is the preferred one
    dnnl::memory::desc input, output, bias;
    dnnl::memory::desc weight;         ///< as the convolution wants it
    dnnl::memory::desc caller_weight;  ///< as the caller has it
    dnnl::memory::desc scratchpad, reorder_scratchpad;
    std::string implementation;  ///< oneDNN's name of the way that it takes
};

/// The weight's shape in oneDNN's terms: `[G, O / G, I, KH, KW]` when there are groups.
Shape weight_shape(const ConvSizes& s) {
    if (s.groups == 1) return {s.o, s.c, s.kh, s.kw};
    return {s.groups, s.co, s.ci, s.kh, s.kw};
}

dnnl::memory::desc caller_weight_desc(const ConvSizes& s, const Tensor& weight) {
    Strides strides = weight.strides();
    if (s.groups != 1) strides.insert(0, strides[0] * s.co);
    return onednn::strided(weight_shape(s), weight.dtype(), strides);
}

dnnl::memory::desc activation_desc(const Tensor& tensor) {
    return onednn::strided(tensor.shape(), tensor.dtype(), channels_last_strides(tensor.shape()));
}

onednn::Key make_key(Pass pass, const ConvSizes& s, const Tensor& activation, const Tensor& weight,
                     const Tensor& bias) {
    onednn::Key key{static_cast<std::int64_t>(pass),
                    static_cast<std::int64_t>(activation.dtype()),
                    static_cast<std::int64_t>(weight.dtype()),
                    bias.defined() ? static_cast<std::int64_t>(bias.dtype()) : -1,
                    s.n,
                    s.c,
                    s.h,
                    s.w,
                    s.o,
                    s.kh,
                    s.kw,
                    s.sh,
                    s.sw,
                    s.ph,
                    s.pw,
                    s.dh,
                    s.dw,
                    s.groups};
    key.add(weight.strides());
    return key;
}

dnnl::primitive make_reorder(Plan& plan, const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
    const dnnl::reorder::primitive_desc desc(onednn::engine(), from, onednn::engine(), to,
                                             onednn::attributes());
    plan.reorder_scratchpad = desc.scratchpad_desc();
    return dnnl::reorder(desc);
}

/// The convolution multiplies in the type of the activations, whatever that of the weights.
dnnl::convolution_forward::primitive_desc forward_desc(const ConvSizes& s, const Tensor& input,
                                                       const Tensor& output, const dnnl::memory::desc& bias) {
    return onednn::convolution_forward_desc(
        activation_desc(input), onednn::any_layout(weight_shape(s), input.dtype()), bias,
        activation_desc(output), {{s.sh, s.sw}, {s.dh - 1, s.dw - 1}, {s.ph, s.pw}, {s.ph, s.pw}},
        onednn::attributes());
}

/// `oneDNN jit:avx512_core`: the library's name of the primitive that it has chosen.
template <class Description>
std::string implementation_name(const Description& desc) {
    return std::string("oneDNN ") + desc.impl_info_str();
}

/// Runs a reorder, between the caller's weights and ours.
void run_reorder(const Plan& plan, const dnnl::memory& from, const dnnl::memory& to) {
    const Scratch scratchpad(plan.reorder_scratchpad.get_size());
    plan.reorder.execute(onednn::stream(),
                         {{DNNL_ARG_FROM, from},
                          {DNNL_ARG_TO, to},
                          {DNNL_ARG_SCRATCHPAD, onednn::view(plan.reorder_scratchpad, scratchpad.data())}});
}

/// The weights in the layout that the convolution wants, in `scratch` unless the caller's will do.
dnnl::memory preferred_weight(const Plan& plan, const Tensor& weight, const Scratch& scratch) {
    const dnnl::memory callers = onednn::view(plan.caller_weight, weight.raw_data());
    if (!plan.reorder) return callers;
    dnnl::memory preferred = onednn::view(plan.weight, scratch.data());
    run_reorder(plan, callers, preferred);
    return preferred;
}

/// Bytes of scratch for the preferred layout.
std::size_t weight_scratch(const Plan& plan) {
    return plan.reorder ? plan.weight.get_size() : 0;
}

onednn::Cache<Plan>& plans() {
    static onednn::Cache<Plan> cache;
    return cache;
}

}  // namespace

void forward(const ConvSizes& sizes, const Tensor& input, const Tensor& weight, const Tensor& bias,
             Tensor& output) {
    onednn::translated(kOp, [&] {
        const auto plan = plans().get(make_key(Pass::forward, sizes, input, weight, bias), [&] {
            Plan made;
            if (bias.defined()) made.bias = onednn::strided({sizes.o}, bias.dtype(), {1});
            const auto desc = forward_desc(sizes, input, output, made.bias);
            made.convolution = dnnl::convolution_forward(desc);
            made.input = desc.src_desc();
            made.output = desc.dst_desc();
            made.weight = desc.weights_desc();
            made.caller_weight = caller_weight_desc(sizes, weight);
            made.scratchpad = desc.scratchpad_desc();
            made.implementation = implementation_name(desc);
            if (made.weight != made.caller_weight) {
                made.reorder = make_reorder(made, made.caller_weight, made.weight);
            }
            return made;
        });
        const Scratch reordered(weight_scratch(*plan));
        const dnnl::memory weights = preferred_weight(*plan, weight, reordered);
        note_implementation(plan->implementation);
        const Scratch scratchpad(plan->scratchpad.get_size());
        std::unordered_map<int, dnnl::memory> arguments{
            {DNNL_ARG_SRC, onednn::view(plan->input, input.raw_data())},
            {DNNL_ARG_WEIGHTS, weights},
            {DNNL_ARG_DST, onednn::view(plan->output, output.raw_data())},
            {DNNL_ARG_SCRATCHPAD, onednn::view(plan->scratchpad, scratchpad.data())}};
        if (bias.defined()) arguments.emplace(DNNL_ARG_BIAS, onednn::view(plan->bias, bias.raw_data()));
        plan->convolution.execute(onednn::stream(), arguments);
    });
}

void backward_data(const ConvSizes& sizes, const Tensor& grad_output, const Tensor& weight,
                   Tensor& grad_input) {
    onednn::translated(kOp, [&] {
        const auto plan = plans().get(make_key(Pass::backward_data, sizes, grad_output, weight, {}), [&] {
            Plan made;
            const auto hint = forward_desc(sizes, grad_input, grad_output, {});
            const auto desc = onednn::convolution_backward_data_desc(
                activation_desc(grad_input), onednn::any_layout(weight_shape(sizes), grad_output.dtype()),
                activation_desc(grad_output),
                {{sizes.sh, sizes.sw},
                 {sizes.dh - 1, sizes.dw - 1},
                 {sizes.ph, sizes.pw},
                 {sizes.ph, sizes.pw}},
                hint, onednn::attributes());
            made.convolution = dnnl::convolution_backward_data(desc);
            made.input = desc.diff_src_desc();
            made.output = desc.diff_dst_desc();
            made.weight = desc.weights_desc();
            made.caller_weight = caller_weight_desc(sizes, weight);
            made.scratchpad = desc.scratchpad_desc();
            made.implementation = implementation_name(desc);
            if (made.weight != made.caller_weight) {
                made.reorder = make_reorder(made, made.caller_weight, made.weight);
            }
            return made;
        });
        const Scratch reordered(weight_scratch(*plan));
        const dnnl::memory weights = preferred_weight(*plan, weight, reordered);
        note_implementation(plan->implementation);
        const Scratch scratchpad(plan->scratchpad.get_size());
        plan->convolution.execute(onednn::stream(),
                                  {{DNNL_ARG_DIFF_DST, onednn::view(plan->output, grad_output.raw_data())},
                                   {DNNL_ARG_WEIGHTS, weights},
                                   {DNNL_ARG_DIFF_SRC, onednn::view(plan->input, grad_input.raw_data())},
                                   {DNNL_ARG_SCRATCHPAD, onednn::view(plan->scratchpad, scratchpad.data())}});
    });
}

void backward_weight(const ConvSizes& sizes, const Tensor& grad_output, const Tensor& input,
                     Tensor& grad_weight) {
    onednn::translated(kOp, [&] {
        const auto plan = plans().get(make_key(Pass::backward_weight, sizes, input, grad_weight, {}), [&] {
            Plan made;
            const auto hint = forward_desc(sizes, input, grad_output, {});
            const auto desc = onednn::convolution_backward_weights_desc(
                activation_desc(input), onednn::any_layout(weight_shape(sizes), DType::f32),
                activation_desc(grad_output),
                {{sizes.sh, sizes.sw},
                 {sizes.dh - 1, sizes.dw - 1},
                 {sizes.ph, sizes.pw},
                 {sizes.ph, sizes.pw}},
                hint, onednn::attributes());
            made.convolution = dnnl::convolution_backward_weights(desc);
            made.input = desc.src_desc();
            made.output = desc.diff_dst_desc();
            made.weight = desc.diff_weights_desc();
            made.caller_weight = caller_weight_desc(sizes, grad_weight);
            made.scratchpad = desc.scratchpad_desc();
            made.implementation = implementation_name(desc);
            if (made.weight != made.caller_weight) {
                made.reorder = make_reorder(made, made.weight, made.caller_weight);
            }
            return made;
        });
        const Scratch preferred(weight_scratch(*plan));
        const dnnl::memory callers = onednn::view(plan->caller_weight, grad_weight.raw_data());
        const dnnl::memory weights = plan->reorder ? onednn::view(plan->weight, preferred.data()) : callers;
        note_implementation(plan->implementation);
        const Scratch scratchpad(plan->scratchpad.get_size());
        plan->convolution.execute(onednn::stream(),
                                  {{DNNL_ARG_SRC, onednn::view(plan->input, input.raw_data())},
                                   {DNNL_ARG_DIFF_DST, onednn::view(plan->output, grad_output.raw_data())},
                                   {DNNL_ARG_DIFF_WEIGHTS, weights},
                                   {DNNL_ARG_SCRATCHPAD, onednn::view(plan->scratchpad, scratchpad.data())}});
        if (plan->reorder) run_reorder(*plan, weights, callers);
    });
}

}  // namespace fulcrum::cpu::conv_onednn
