#include "core/ops/batch_norm.h"

#include "core/autograd.h"
#include "core/ops/check.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace fulcrum {
namespace {

constexpr const char* kOp = "batch_norm";

/// The layout that the kernels see as a `[rows, C]` matrix.
MemoryFormat matrix_format(const Tensor& x) {
    return x.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::contiguous;
}

Tensor as_matrix(const Tensor& x) {
    return x.contiguous(matrix_format(x));
}

Tensor contiguous_or_undefined(const Tensor& x) {
    return x.defined() ? x.contiguous() : x;
}

void check_per_channel(const char* name, const Tensor& tensor, const Tensor& x) {
    if (!tensor.defined()) return;
    if (tensor.dim() != 1 || tensor.size(0) != x.size(1)) {
        throw ShapeError(std::string(kOp) + ": " + name + " has shape " + to_string(tensor.shape()) +
                         " but x " + to_string(x.shape()) + " needs [" + std::to_string(x.size(1)) + "]");
    }
    detail::check_dtype(kOp, name, tensor, x.dtype() == DType::f64 ? DType::f64 : DType::f32);
    detail::check_same_device(kOp, name, tensor, "x", x);
}

void check_statistics(const Tensor& mean, const Tensor& variance, const Tensor& x, bool training) {
    if (mean.defined() != variance.defined()) {
        throw ValueError(std::string(kOp) + ": give both running_mean and running_var, or neither");
    }
    if (!mean.defined()) {
        if (!training) {
            throw ValueError(
                std::string(kOp) +
                ": evaluation needs running_mean and running_var; without them use training mode");
        }
        return;
    }
    check_per_channel("running_mean", mean, x);
    check_per_channel("running_var", variance, x);
    if (training) {
        if (!mean.is_contiguous() || !variance.is_contiguous()) {
            throw ShapeError(std::string(kOp) +
                             ": running_mean and running_var are updated in place and must be contiguous");
        }
        autograd::check_in_place(mean, kOp);
        autograd::check_in_place(variance, kOp);
    }
}

void check_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                     const Tensor& running_var, const BatchNormParams& params, const Tensor& residual) {
    detail::check_defined(kOp, "x", x);
    if (x.dim() != 2 && x.dim() != 4) {
        throw ShapeError(std::string(kOp) + ": x has shape " + to_string(x.shape()) +
                         " but must be [N, C] or [N, C, H, W]");
    }
    detail::check_floating(kOp, "x", x);
    check_per_channel("weight", weight, x);
    check_per_channel("bias", bias, x);
    check_statistics(running_mean, running_var, x, params.training);
    if (residual.defined()) {
        detail::check_shape(kOp, "residual", residual, x.shape());
        detail::check_dtype(kOp, "residual", residual, x.dtype());
        detail::check_same_device(kOp, "residual", residual, "x", x);
    }
    if (!(params.eps >= 0.0) || !std::isfinite(params.eps)) {
        throw ValueError(std::string(kOp) + ": eps is " + std::to_string(params.eps) +
                         " but must be at least 0");
    }
    if (!(params.momentum >= 0.0 && params.momentum <= 1.0)) {
        throw ValueError(std::string(kOp) + ": momentum is " + std::to_string(params.momentum) +
                         " but must be in [0, 1]");
    }
    if (params.training && x.numel() > 0 && x.numel() == x.size(1)) {
        throw ShapeError(std::string(kOp) + ": x " + to_string(x.shape()) +
                         " has one value per channel and training needs at least two; use a larger batch or "
                         "evaluation mode");
    }
}

/// Nothing to normalise: gradients of the parameters are zero and the running statistics stay.
Tensor record_empty(Tensor output, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Tensor& residual) {
    const std::vector<Tensor> like = {x.detach(), weight.defined() ? weight.detach() : Tensor(),
                                      bias.defined() ? bias.detach() : Tensor(),
                                      residual.defined() ? residual.detach() : Tensor()};
    return autograd::record(kOp, std::move(output), {x, weight, bias, residual}, {},
                            [like](autograd::BackwardContext& context) {
                                for (std::size_t i = 0; i < like.size(); ++i) {
                                    if (context.needs(i)) context.set_grad(i, zeros_like(like[i]));
                                }
                            });
}

/// Delivers the gradients that are wanted. Saved tensors: x, mean, inverse deviation, then the weight and the
/// output where there is one and it is read.
void backward(autograd::BackwardContext& context, const BatchNormParams& params,
              const KernelContext& kernel_context, bool has_weight) {
    const Tensor& x = context.saved(0);
    const Tensor& mean = context.saved(1);
    const Tensor& inv_std = context.saved(2);
    const Tensor weight = has_weight ? context.saved(3) : Tensor();
    const Tensor output = params.relu ? context.saved(has_weight ? 4 : 3) : Tensor();
    const Tensor grad = as_matrix(context.grad());

    Tensor grad_x = context.needs(0) ? context.grad_buffer(0, x) : Tensor();
    Tensor grad_weight = context.needs(1) ? context.grad_buffer(1, mean) : Tensor();
    Tensor grad_bias = context.needs(2) ? context.grad_buffer(2, mean) : Tensor();
    const bool masks_residual = context.needs(3) && params.relu;
    Tensor grad_residual = masks_residual ? context.grad_buffer(3, x) : Tensor();
    kernels<BatchNormKernels>(x.device())
        .backward(params, kernel_context, grad, x, output, weight, mean, inv_std, grad_x, grad_weight,
                  grad_bias, grad_residual);
    if (grad_x.defined()) context.set_grad(0, grad_x);
    if (grad_weight.defined()) context.set_grad(1, grad_weight);
    if (grad_bias.defined()) context.set_grad(2, grad_bias);
    if (context.needs(3)) context.set_grad(3, masks_residual ? grad_residual : grad);
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormParams& params, const Tensor& residual) {
    check_arguments(x, weight, bias, running_mean, running_var, params, residual);
    const Tensor input = as_matrix(x);
    const Tensor added = residual.defined() ? as_matrix(residual) : residual;
    const Tensor scale = contiguous_or_undefined(weight);
    const Tensor shift = contiguous_or_undefined(bias);
    Tensor output =
        empty(input.shape(), {.dtype = x.dtype(), .device = x.device(), .format = matrix_format(x)});
    if (x.numel() == 0) return record_empty(std::move(output), input, scale, shift, added);

    const bool recording = autograd::should_record({input, scale, shift, added});
    const TensorOptions per_channel = {.dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32,
                                       .device = x.device()};
    const auto& device = kernels<BatchNormKernels>(x.device());
    KernelContext kernel_context;
    Tensor mean;
    Tensor inv_std;
    if (params.training) {
        mean = empty({x.size(1)}, per_channel);
        inv_std = empty({x.size(1)}, per_channel);
        Tensor moving_mean = running_mean;
        Tensor moving_var = running_var;
        kernel_context = device.forward_train(params, input, scale, shift, added, moving_mean, moving_var,
                                              output, mean, inv_std);
        if (running_mean.defined()) {
            running_mean.bump_version();
            running_var.bump_version();
        }
    } else {
        mean = running_mean.contiguous();
        if (recording) inv_std = empty({x.size(1)}, per_channel);
        device.forward_eval(params, input, scale, shift, added, mean, running_var.contiguous(), output,
                            inv_std);
    }
    if (!recording) return autograd::record(kOp, std::move(output), {input, scale, shift, added}, {}, {});

    std::vector<Tensor> saved = {input, mean, inv_std};
    if (scale.defined()) saved.push_back(scale);
    if (params.relu) saved.push_back(output);
    return autograd::record(
        kOp, output, {input, scale, shift, added}, std::move(saved),
        [params, kernel_context, has_weight = scale.defined()](autograd::BackwardContext& context) {
            backward(context, params, kernel_context, has_weight);
        });
}

}  // namespace fulcrum
