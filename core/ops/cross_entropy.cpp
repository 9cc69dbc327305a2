#include "core/ops/cross_entropy.h"

#include "core/autograd.h"
#include "core/ops/binary.h"
#include "core/ops/check.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

#include <limits>
#include <string>
#include <utility>

namespace fulcrum {
namespace {

/// \throws unless `labels` has the shape of `scores` without its dimension 1, on the same device.
void check_arguments(const char* op, const char* name, const Tensor& scores, const Tensor& labels) {
    detail::check_defined(op, name, scores);
    detail::check_defined(op, "labels", labels);
    detail::check_floating(op, name, scores);
    detail::check_dtype(op, "labels", labels, DType::i64);
    detail::check_same_device(op, "labels", labels, name, scores);
    if (scores.dim() < 2) {
        throw ShapeError(std::string(op) + ": " + name + " has shape " + to_string(scores.shape()) +
                         " but must be [N, C] or [N, C, d1, ...]");
    }
    Shape expected = scores.shape();
    expected.erase(1);
    detail::check_shape(op, "labels", labels, expected);
    if (scores.size(1) == 0 && labels.numel() > 0) {
        throw ShapeError(std::string(op) + ": " + name + " " + to_string(scores.shape()) +
                         " has no classes; dimension 1 must be at least 1");
    }
}

/// `[N, C, d1, ...]` as the contiguous matrix `[N * d1 * ..., C]`; differentiable.
Tensor class_matrix(const Tensor& scores) {
    if (scores.dim() == 2) return scores.contiguous();
    Dims order = {0};
    for (std::int64_t i = 2; i < scores.dim(); ++i)
        order.push_back(i);
    order.push_back(1);
    const std::int64_t classes = scores.size(1);
    const std::int64_t rows = classes == 0 ? 0 : scores.numel() / classes;
    return reshape(permute(scores, order), {rows, classes}).contiguous();
}

Tensor flat_labels(const Tensor& labels) {
    return reshape(labels, {labels.numel()}).contiguous();
}

/// The dtype of losses and log-probabilities.
DType loss_dtype(const Tensor& scores) {
    return scores.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

/// The losses put together; without samples the sum is 0 and the mean NaN.
Tensor reduced(const Tensor& losses, Reduction reduction) {
    if (reduction == Reduction::none) return losses;
    return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

/// What each sample's gradient is multiplied with.
Tensor sample_scale(const Tensor& grad, Reduction reduction, std::int64_t samples) {
    const Tensor scale = grad.contiguous();
    return reduction == Reduction::mean ? scale / static_cast<double>(samples) : scale;
}

/// The loss of no samples; the gradient of no scores is empty too.
Tensor empty_loss(const char* op, const Tensor& scores, const Tensor& labels, Reduction reduction) {
    const TensorOptions options = {.dtype = loss_dtype(scores), .device = scores.device()};
    Tensor output = zeros(labels.shape(), options);
    if (reduction == Reduction::sum) output = scalar(0.0, options);
    if (reduction == Reduction::mean) output = scalar(std::numeric_limits<double>::quiet_NaN(), options);
    return autograd::record(op, std::move(output), {scores}, {},
                            [like = scores.detach()](autograd::BackwardContext& context) {
                                context.set_grad(0, zeros_like(like));
                            });
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyParams& params) {
    constexpr const char* kOp = "cross_entropy";
    check_arguments(kOp, "logits", logits, labels);
    if (!(params.label_smoothing >= 0.0 && params.label_smoothing <= 1.0)) {
        throw ValueError(std::string(kOp) + ": label_smoothing is " + std::to_string(params.label_smoothing) +
                         " but must be in [0, 1]");
    }
    if (labels.numel() == 0) return empty_loss(kOp, logits, labels, params.reduction);

    const Tensor matrix = class_matrix(logits);
    const Tensor targets = flat_labels(labels);
    const TensorOptions options = {.dtype = loss_dtype(logits), .device = logits.device()};
    Tensor losses = empty(targets.shape(), options);
    Tensor log_probs = empty(matrix.shape(), options);
    kernels<CrossEntropyKernels>(logits.device()).forward(params, matrix, targets, losses, log_probs);

    const Tensor output = autograd::record(
        kOp, reduced(losses, params.reduction), {matrix}, {log_probs, targets},
        [params, dtype = logits.dtype()](autograd::BackwardContext& context) {
            const Tensor& saved = context.saved(0);
            const Tensor scale = sample_scale(context.grad(), params.reduction, saved.size(0));
            Tensor grad_logits = empty(saved.shape(), {.dtype = dtype, .device = saved.device()});
            kernels<CrossEntropyKernels>(saved.device())
                .backward(params, saved, context.saved(1), scale, grad_logits);
            context.set_grad(0, grad_logits);
        });
    return params.reduction == Reduction::none ? reshape(output, labels.shape()) : output;
}

Tensor nll_loss(const Tensor& log_probs, const Tensor& labels, Reduction reduction) {
    constexpr const char* kOp = "nll_loss";
    check_arguments(kOp, "log_probs", log_probs, labels);
    if (labels.numel() == 0) return empty_loss(kOp, log_probs, labels, reduction);

    const Tensor matrix = class_matrix(log_probs);
    const Tensor targets = flat_labels(labels);
    Tensor losses = empty(targets.shape(), {.dtype = loss_dtype(log_probs), .device = log_probs.device()});
    kernels<CrossEntropyKernels>(log_probs.device()).nll_forward(matrix, targets, losses);

    const Tensor output = autograd::record(
        kOp, reduced(losses, reduction), {matrix}, {targets},
        [reduction, shape = matrix.shape(), dtype = log_probs.dtype()](autograd::BackwardContext& context) {
            const Tensor& saved = context.saved(0);
            const Tensor scale = sample_scale(context.grad(), reduction, saved.size(0));
            Tensor grad = empty(shape, {.dtype = dtype, .device = saved.device()});
            kernels<CrossEntropyKernels>(saved.device()).nll_backward(saved, scale, grad);
            context.set_grad(0, grad);
        });
    return reduction == Reduction::none ? reshape(output, labels.shape()) : output;
}

Tensor count_correct(const Tensor& logits, const Tensor& labels) {
    check_arguments("count_correct", "logits", logits, labels);
    Tensor count = zeros({}, {.dtype = DType::i64, .device = logits.device()});
    if (labels.numel() == 0) return count;
    kernels<CrossEntropyKernels>(logits.device())
        .count_correct(class_matrix(logits.detach()), flat_labels(labels), count);
    return count;
}

}  // namespace fulcrum
