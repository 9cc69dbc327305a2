#include "bench/recorder.h"

#include "bench/measure.h"
#include "core/error.h"
#include "core/implementation.h"
#include "core/ops/activation.h"
#include "core/ops/batch_norm.h"
#include "core/ops/binary.h"
#include "core/ops/conv.h"
#include "core/ops/copy.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dropout.h"
#include "core/ops/matmul.h"
#include "core/ops/optimizer.h"
#include "core/ops/pool.h"
#include "core/ops/reduce.h"
#include "core/ops/softmax.h"
#include "nn/conv.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace fulcrum::bench {

namespace {

/// The recording in progress.
struct State {
    bool active = false;
    bool surveyed = false;  ///< the first step is over
    std::size_t next = 0;   ///< place within the step
    std::vector<Call> calls;
} state;

// ---- What a call's arguments say about it

/// The arguments of a call that describe its work.
struct Operands {
    std::vector<Tensor> read, written;
    std::optional<Conv2dParams> conv;
    std::optional<GemmParams> gemm;
    std::optional<Pool2dParams> pool;
    std::string remark;
    double extra_bytes = 0.0;
};

/// Bytes of the distinct elements: a stride of 0 repeats one.
double bytes_of(const Tensor& tensor) {
    if (!tensor.defined()) return 0.0;
    auto bytes = static_cast<double>(size_of(tensor.dtype()));
    for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
        if (tensor.strides()[i] != 0) bytes *= static_cast<double>(tensor.shape()[i]);
    }
    return bytes;
}

template <class Argument>
void add(Operands& /*operands*/, const Argument& /*argument*/) {}

void add(Operands& operands, const Tensor& tensor) {
    if (tensor.defined()) operands.read.push_back(tensor);
}

void add(Operands& operands, Tensor& tensor) {
    if (tensor.defined()) operands.written.push_back(tensor);
}

void add(Operands& operands, const Conv2dParams& params) {
    operands.conv = params;
}

void add(Operands& operands, const Pool2dParams& params) {
    operands.pool = params;
}

void add(Operands& operands, const BatchNormParams& params) {
    if (params.relu) operands.remark += "relu";
}

void add(Operands& operands, const GemmParams& params) {
    operands.gemm = params;
}

void add(Operands& operands, const Activation& kind) {
    static constexpr const char* kNames[] = {"relu", "sigmoid", "tanh", "gelu", "silu"};
    operands.remark += kNames[static_cast<std::size_t>(kind)];
}

void add(Operands& operands, const std::span<OptimizerSlice>& slices) {
    std::int64_t count = 0;
    for (const OptimizerSlice& slice : slices) {
        count += slice.param.numel();
        operands.extra_bytes += bytes_of(slice.grad) + 2.0 * bytes_of(slice.param) +
                                2.0 * bytes_of(slice.state1) + 2.0 * bytes_of(slice.state2);
    }
    operands.remark += fmt::format("{} parameters", count);
}

// ---- From arguments to a row

std::string pair_text(std::int64_t a, std::int64_t b) {
    return a == b ? std::to_string(a) : fmt::format("{}:{}", a, b);
}

/// `input`, `weight` and `output` of a convolution, wherever the pass has them.
void describe_conv(Call& call, const Operands& operands) {
    const bool forward = call.op == "conv2d forward";
    const bool data = call.op == "conv2d backward data";
    const Tensor& input = forward ? operands.read[0] : data ? operands.written[0] : operands.read[1];
    const Tensor& weight = forward || data ? operands.read[1] : operands.written[0];
    const Tensor& output = forward ? operands.written[0] : operands.read[0];
    const Shape& w = weight.shape();
    const Conv2dParams& p = *operands.conv;
    call.flops =
        2.0 * static_cast<double>(nn::conv2d_multiply_adds(input.shape(), w, output.shape(), p).useful);
    call.shape = fmt::format("{}->{} {}x{}{} {}x{}", input.size(1), w[0], w[2], w[3],
                             p.stride[0] == 1 && p.stride[1] == 1
                                 ? std::string()
                                 : fmt::format("/{}", pair_text(p.stride[0], p.stride[1])),
                             input.size(2), input.size(3));
    if (p.groups > 1) call.shape += fmt::format(" {} groups", p.groups);
}

void describe_gemm(Call& call, const GemmParams& p) {
    const auto m = static_cast<double>(p.m);
    const auto n = static_cast<double>(p.n);
    const auto k = static_cast<double>(p.k);
    const auto batch = static_cast<double>(p.batch);
    call.flops = 2.0 * batch * m * n * k;
    call.bytes = batch * (m * k * static_cast<double>(size_of(p.type_a)) +
                          k * n * static_cast<double>(size_of(p.type_b)) +
                          m * n * static_cast<double>(size_of(p.type_c)) * (p.accumulate ? 2.0 : 1.0));
    call.shape =
        fmt::format("{}x{}x{}{}{}", p.m, p.n, p.k, p.transpose_a ? " A'" : "", p.transpose_b ? " B'" : "");
    if (p.batch > 1) call.shape += fmt::format(" batch {}", p.batch);
}

void describe(Call& call, const Operands& operands) {
    call.bytes = operands.extra_bytes;
    for (const Tensor& tensor : operands.read)
        call.bytes += bytes_of(tensor);
    for (const Tensor& tensor : operands.written)
        call.bytes += bytes_of(tensor);
    if (operands.conv) return describe_conv(call, operands);
    if (operands.gemm) return describe_gemm(call, *operands.gemm);
    // The largest operand tells the layer; the rest follow from it.
    const Tensor* largest = nullptr;
    for (const std::vector<Tensor>* tensors : {&operands.read, &operands.written}) {
        for (const Tensor& tensor : *tensors) {
            if (largest == nullptr || tensor.numel() > largest->numel()) largest = &tensor;
        }
    }
    if (largest != nullptr && largest->dim() == 4) {
        call.shape = fmt::format("{} {}x{}", largest->size(1), largest->size(2), largest->size(3));
    } else if (largest != nullptr) {
        call.shape = to_string(largest->shape());
    }
    if (operands.pool) {
        call.shape += fmt::format(" {}x{}/{}", operands.pool->kernel[0], operands.pool->kernel[1],
                                  pair_text(operands.pool->stride[0], operands.pool->stride[1]));
    }
    if (!operands.remark.empty()) call.shape += (call.shape.empty() ? "" : " ") + operands.remark;
    // A residual is one more image read, or one more gradient written.
    const std::size_t images = call.op == "batch_norm forward" ? 1 : 2;
    std::size_t same = 0;
    for (const Tensor& tensor : operands.read)
        same += tensor.shape() == largest->shape() ? 1 : 0;
    const bool residual = call.op == "batch_norm forward" && same > images;
    std::size_t gradients = 0;
    for (const Tensor& tensor : operands.written)
        gradients += tensor.shape() == largest->shape() ? 1 : 0;
    if (residual || (call.op == "batch_norm backward" && gradients > 1)) call.shape += " add";
}

// ---- The wrapped kernels

template <class Kernels>
struct Family {
    static inline const Kernels* original = nullptr;
    static inline Kernels wrapped;
};

template <auto Member>
struct Wrapper;

template <class Kernels, class Result, class... Arguments, Result (*Kernels::*Member)(Arguments...)>
struct Wrapper<Member> {
    static inline const char* name = "";

    static Result call(Arguments... arguments) {
        const auto kernel = Family<Kernels>::original->*Member;
        if (!state.active) return kernel(std::forward<Arguments>(arguments)...);
        Operands operands;
        if (!state.surveyed)
            (add(operands, static_cast<std::add_lvalue_reference_t<Arguments>>(arguments)), ...);
        clear_implementation();
        const auto begin = Clock::now();
        if constexpr (std::is_void_v<Result>) {
            kernel(std::forward<Arguments>(arguments)...);
            finish(milliseconds_since(begin), operands);
        } else {
            Result result = kernel(std::forward<Arguments>(arguments)...);
            finish(milliseconds_since(begin), operands);
            return result;
        }
    }

    static void finish(double elapsed, const Operands& operands) {
        if (!state.surveyed) {
            Call call{.op = name, .shape = {}, .implementation = noted_implementation(), .milliseconds = {}};
            describe(call, operands);
            state.calls.push_back(std::move(call));
        } else if (state.next >= state.calls.size() || state.calls[state.next].op != name) {
            throw Error(std::string("a step calls ") + name + " where the first one did not");
        }
        state.calls[state.next++].milliseconds.push_back(elapsed);
    }
};

template <class Kernels>
void begin_family() {
    Family<Kernels>::original = &kernels<Kernels>(kCpu);
    Family<Kernels>::wrapped = *Family<Kernels>::original;
    register_kernels<Kernels>(DeviceType::cpu, Family<Kernels>::wrapped);
}

template <auto Member, class Kernels>
void wrap(const char* name) {
    Wrapper<Member>::name = name;
    Family<Kernels>::wrapped.*Member = Wrapper<Member>::call;
}

void check_complete() {
    if (state.surveyed && state.next != state.calls.size()) {
        throw Error(fmt::format("a step makes {} kernel calls where the first one made {}", state.next,
                                state.calls.size()));
    }
}

}  // namespace

Recorder::Recorder() {
    begin_family<ActivationKernels>();
    wrap<&ActivationKernels::forward, ActivationKernels>("activation forward");
    wrap<&ActivationKernels::backward, ActivationKernels>("activation backward");
    begin_family<BatchNormKernels>();
    wrap<&BatchNormKernels::forward_train, BatchNormKernels>("batch_norm forward");
    wrap<&BatchNormKernels::backward, BatchNormKernels>("batch_norm backward");
    begin_family<BinaryKernels>();
    wrap<&BinaryKernels::apply, BinaryKernels>("binary");
    wrap<&BinaryKernels::add_in_place, BinaryKernels>("add in place");
    wrap<&BinaryKernels::scale_in_place, BinaryKernels>("scale in place");
    begin_family<Conv2dKernels>();
    wrap<&Conv2dKernels::forward, Conv2dKernels>("conv2d forward");
    wrap<&Conv2dKernels::backward_data, Conv2dKernels>("conv2d backward data");
    wrap<&Conv2dKernels::backward_weight, Conv2dKernels>("conv2d backward weight");
    begin_family<CopyKernels>();
    wrap<&CopyKernels::copy, CopyKernels>("copy");
    wrap<&CopyKernels::fill, CopyKernels>("fill");
    begin_family<CrossEntropyKernels>();
    wrap<&CrossEntropyKernels::forward, CrossEntropyKernels>("cross_entropy forward");
    wrap<&CrossEntropyKernels::backward, CrossEntropyKernels>("cross_entropy backward");
    begin_family<DropoutKernels>();
    wrap<&DropoutKernels::apply, DropoutKernels>("dropout");
    begin_family<MatmulKernels>();
    wrap<&MatmulKernels::gemm, MatmulKernels>("matmul");
    begin_family<OptimizerKernels>();
    wrap<&OptimizerKernels::sgd, OptimizerKernels>("optimizer sgd");
    begin_family<Pool2dKernels>();
    wrap<&Pool2dKernels::max_forward, Pool2dKernels>("max_pool forward");
    wrap<&Pool2dKernels::max_backward, Pool2dKernels>("max_pool backward");
    wrap<&Pool2dKernels::adaptive_avg_forward, Pool2dKernels>("avg_pool forward");
    wrap<&Pool2dKernels::adaptive_avg_backward, Pool2dKernels>("avg_pool backward");
    begin_family<ReduceKernels>();
    wrap<&ReduceKernels::reduce, ReduceKernels>("reduce");
    begin_family<SoftmaxKernels>();
    wrap<&SoftmaxKernels::forward, SoftmaxKernels>("softmax forward");
    wrap<&SoftmaxKernels::backward, SoftmaxKernels>("softmax backward");
}

void Recorder::begin_step() {
    if (state.active) {
        check_complete();
        state.surveyed = true;
    }
    state.active = true;
    state.next = 0;
}

void Recorder::end() {
    state.active = false;
    check_complete();
}

const std::vector<Call>& Recorder::calls() const {
    return state.calls;
}

}  // namespace fulcrum::bench
