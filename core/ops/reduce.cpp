#include "core/ops/reduce.h"

#include "core/autograd.h"
#include "core/ops/binary.h"
#include "core/ops/check.h"
#include "core/ops/layout.h"
#include "core/ops/shape.h"

#include <array>
#include <string>
#include <utility>

namespace fulcrum {
namespace {

/// Which dimensions are reduced.
using Mask = std::array<bool, Dims::kMaxRank>;

Mask reduced_dims(const char* op, const Tensor& x, std::span<const std::int64_t> dims) {
    Mask mask{};
    const std::size_t rank = x.shape().size();
    if (dims.empty()) mask.fill(true);
    for (const std::int64_t dim : dims) {
        const std::size_t at = normalize_dim(dim, rank, op);
        if (mask[at]) {
            throw ShapeError(std::string(op) + ": dimension " + std::to_string(dim) +
                             " is named twice for shape " + to_string(x.shape()));
        }
        mask[at] = true;
    }
    return mask;
}

/// The shape with reduced dimensions of size 1 (`keepdim`) or without them.
Shape reduced_shape(const Shape& shape, const Mask& mask, bool keepdim) {
    Shape result;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (!mask[d]) result.push_back(shape[d]);
        if (mask[d] && keepdim) result.push_back(1);
    }
    return result;
}

/// Uninitialised, dense, dimensions in memory in `x`'s order: reducing channels-last stays channels-last.
Tensor empty_reduced(const Tensor& x, const Shape& shape) {
    if (x.numel() == 0 || !x.is_dense()) return empty(shape, {.dtype = x.dtype(), .device = x.device()});
    Strides strides;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        std::int64_t stride = 1;
        for (std::size_t inner = 0; inner < shape.size(); ++inner) {
            const bool farther_in =
                x.strides()[inner] < x.strides()[d] || (x.strides()[inner] == x.strides()[d] && inner > d);
            if (inner != d && farther_in) stride *= shape[inner];
        }
        strides.push_back(stride);
    }
    return empty_strided(shape, strides, {.dtype = x.dtype(), .device = x.device()});
}

const char* name_of(ReduceOp op) {
    return op == ReduceOp::sum ? "sum" : "mean";
}

Tensor reduce(ReduceOp op, const Tensor& x, std::span<const std::int64_t> dims, bool keepdim) {
    const char* name = name_of(op);
    detail::check_defined(name, "x", x);
    if (op == ReduceOp::mean) detail::check_floating(name, "x", x);
    if (x.dtype() == DType::u8) {
        throw DTypeError(std::string(name) +
                         ": x is u8, whose sums soon overflow; cast it to i64 or f32 first");
    }
    const Mask mask = reduced_dims(name, x, dims);
    const Shape kept = reduced_shape(x.shape(), mask, true);
    Tensor output = empty_reduced(x, kept);
    kernels<ReduceKernels>(x.device()).reduce(op, x, output);
    const std::int64_t count = output.numel() == 0 ? 1 : x.numel() / output.numel();
    if (!keepdim) output = reshape(output, reduced_shape(x.shape(), mask, false));
    return autograd::record(name, output, {x}, {},
                            [op, kept, count, shape = x.shape(),
                             strides = detail::dense_strides(x)](autograd::BackwardContext& context) {
                                Tensor grad = reshape(context.grad(), kept);
                                if (op == ReduceOp::mean)
                                    grad = grad.clone().mul_(1.0 / static_cast<double>(count));
                                context.set_grad(0, detail::with_strides(expand(grad, shape), strides));
                            });
}

}  // namespace

Tensor sum(const Tensor& x, std::span<const std::int64_t> dims, bool keepdim) {
    return reduce(ReduceOp::sum, x, dims, keepdim);
}

Tensor sum(const Tensor& x, std::initializer_list<std::int64_t> dims, bool keepdim) {
    return sum(x, std::span(dims.begin(), dims.size()), keepdim);
}

Tensor mean(const Tensor& x, std::span<const std::int64_t> dims, bool keepdim) {
    return reduce(ReduceOp::mean, x, dims, keepdim);
}

Tensor mean(const Tensor& x, std::initializer_list<std::int64_t> dims, bool keepdim) {
    return mean(x, std::span(dims.begin(), dims.size()), keepdim);
}

Tensor sum_to_shape(const Tensor& x, const Shape& shape) {
    detail::check_defined("sum_to_shape", "x", x);
    if (x.shape() == shape) return x;
    const auto refuse = [&] {
        throw ShapeError("sum_to_shape: shape " + to_string(shape) + " does not broadcast to " +
                         to_string(x.shape()));
    };
    if (shape.size() > x.shape().size()) refuse();
    const std::size_t added = x.shape().size() - shape.size();
    Dims dims;
    for (std::size_t d = 0; d < x.shape().size(); ++d) {
        if (d < added || (shape[d - added] == 1 && x.shape()[d] != 1)) {
            dims.push_back(static_cast<std::int64_t>(d));
        } else if (shape[d - added] != x.shape()[d]) {
            refuse();
        }
    }
    return reshape(sum(x, dims, true), shape);
}

Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim) {
    detail::check_defined("argmax", "x", x);
    const std::size_t rank = x.shape().size();
    const std::size_t at = normalize_dim(dim, rank, "argmax");
    const std::int64_t length = rank == 0 ? 1 : x.shape()[at];
    Mask mask{};
    mask[at] = true;
    Tensor output =
        empty(reduced_shape(x.shape(), mask, keepdim), {.dtype = DType::i64, .device = x.device()});
    if (output.numel() == 0) return output;
    if (length == 0) {
        throw ShapeError("argmax: dimension " + std::to_string(dim) + " of shape " + to_string(x.shape()) +
                         " has no elements to choose from");
    }
    std::int64_t inner = 1;
    for (std::size_t d = at + 1; d < rank; ++d)
        inner *= x.shape()[d];
    kernels<ReduceKernels>(x.device())
        .argmax(x.numel() / length / inner, length, inner, x.detach().contiguous(), output);
    return output;
}

}  // namespace fulcrum
