#include "core/ops/shape.h"

#include "core/autograd.h"
#include "core/ops/reduce.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace fulcrum {

namespace {

using autograd::BackwardContext;

Tensor view(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t extra_offset = 0) {
    return Tensor::view_of(x.storage(), x.storage_offset() + extra_offset, shape, strides, x.dtype());
}

// Strides under which `shape` walks the same elements in row-major order, or nothing when only a copy can.
std::optional<Strides> strides_for_view(const Tensor& x, const Shape& shape) {
    if (x.numel() == 0) return contiguous_strides(shape);
    // Merge neighbouring dimensions of x that are dense with respect to each other into runs.
    struct Run {
        std::int64_t size;
        std::int64_t stride;
    };
    std::vector<Run> runs;
    for (std::size_t i = 0; i < x.shape().size(); ++i) {
        if (x.shape()[i] == 1) continue;
        if (!runs.empty() && runs.back().stride == x.shape()[i] * x.strides()[i]) {
            runs.back().size *= x.shape()[i];
            runs.back().stride = x.strides()[i];
        } else {
            runs.push_back({x.shape()[i], x.strides()[i]});
        }
    }
    // Deal the new dimensions out to the runs, innermost first.
    Strides strides = Dims::filled(shape.size(), 1);
    std::size_t run = runs.size();
    std::int64_t left = 1;
    std::int64_t stride = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
        if (shape[i] == 1) {
            strides[i] = stride;
            continue;
        }
        if (left == 1) {
            --run;
            left = runs[run].size;
            stride = runs[run].stride;
        }
        if (left % shape[i] != 0) return std::nullopt;
        strides[i] = stride;
        stride *= shape[i];
        left /= shape[i];
    }
    return strides;
}

Shape resolve_shape(const Tensor& x, const Shape& shape) {
    Shape resolved = shape;
    std::int64_t known = 1;
    std::optional<std::size_t> open;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == -1 && !open.has_value()) {
            open = i;
        } else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known)) {
            throw ShapeError("reshape: " + to_string(shape) +
                             " is no shape: sizes are positive, and one may be -1");
        }
    }
    if (open.has_value()) {
        if (known == 0 || x.numel() % known != 0) {
            throw ShapeError("reshape: a tensor of shape " + to_string(x.shape()) + " does not divide into " +
                             to_string(shape));
        }
        resolved[*open] = x.numel() / known;
    } else if (known != x.numel()) {
        throw ShapeError("reshape: a tensor of shape " + to_string(x.shape()) + " has " +
                         std::to_string(x.numel()) + " elements, shape " + to_string(shape) + " needs " +
                         std::to_string(known));
    }
    return resolved;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
    const Shape resolved = resolve_shape(x, shape);
    Tensor result;
    if (const auto strides = strides_for_view(x, resolved)) {
        result = view(x, resolved, *strides);
    } else {
        const autograd::NoGradGuard no_grad;
        result = view(x.contiguous(), resolved, contiguous_strides(resolved));
    }
    return autograd::record("reshape", result, {x}, {}, [before = x.shape()](BackwardContext& context) {
        context.set_grad(0, reshape(context.grad(), before));
    });
}

Tensor flatten(const Tensor& x, std::int64_t start, std::int64_t end) {
    if (x.shape().empty()) return reshape(x, {1});
    const std::size_t first = normalize_dim(start, x.shape().size(), "flatten");
    const std::size_t last = normalize_dim(end, x.shape().size(), "flatten");
    if (first > last) {
        throw ShapeError("flatten: dimension " + std::to_string(start) + " comes after " +
                         std::to_string(end) + " in shape " + to_string(x.shape()));
    }
    Shape shape;
    std::int64_t merged = 1;
    for (std::size_t i = 0; i < x.shape().size(); ++i) {
        if (i >= first && i <= last && __builtin_mul_overflow(merged, x.shape()[i], &merged)) {
            throw ShapeError("flatten: dimensions " + std::to_string(start) + " to " + std::to_string(end) +
                             " of " + to_string(x.shape()) + " merge to a size beyond 63 bits");
        }
        if (i == last) shape.push_back(merged);
        if (i < first || i > last) shape.push_back(x.shape()[i]);
    }
    return reshape(x, shape);
}

Tensor permute(const Tensor& x, std::span<const std::int64_t> dims) {
    const std::size_t rank = x.shape().size();
    const auto refuse = [&] {
        throw ShapeError("permute: " + to_string(Dims(dims)) + " is no permutation of the " +
                         std::to_string(rank) + " dimensions of " + to_string(x.shape()));
    };
    if (dims.size() != rank) refuse();
    Shape shape;
    Strides strides;
    Dims inverse = Dims::filled(rank, -1);
    for (std::size_t i = 0; i < rank; ++i) {
        const std::size_t from = normalize_dim(dims[i], rank, "permute");
        if (inverse[from] != -1) refuse();
        inverse[from] = static_cast<std::int64_t>(i);
        shape.push_back(x.shape()[from]);
        strides.push_back(x.strides()[from]);
    }
    return autograd::record("permute", view(x, shape, strides), {x}, {}, [inverse](BackwardContext& context) {
        context.set_grad(0, permute(context.grad(), inverse));
    });
}

Tensor permute(const Tensor& x, std::initializer_list<std::int64_t> dims) {
    return permute(x, std::span(dims.begin(), dims.size()));
}

Tensor transpose(const Tensor& x, std::int64_t dim0, std::int64_t dim1) {
    const std::size_t a = normalize_dim(dim0, x.shape().size(), "transpose");
    const std::size_t b = normalize_dim(dim1, x.shape().size(), "transpose");
    if (x.shape().empty()) return x;
    Dims order;
    for (std::size_t i = 0; i < x.shape().size(); ++i)
        order.push_back(static_cast<std::int64_t>(i));
    std::swap(order[a], order[b]);
    return permute(x, order);
}

Tensor unsqueeze(const Tensor& x, std::int64_t dim) {
    const std::size_t at = normalize_dim(dim, x.shape().size() + 1, "unsqueeze");
    Shape shape = x.shape();
    Strides strides = x.strides();
    strides.insert(at, 1);
    shape.insert(at, 1);
    if (x.numel() > 0 && at + 1 < shape.size()) strides[at] = shape[at + 1] * strides[at + 1];
    return autograd::record("unsqueeze", view(x, shape, strides), {x}, {}, [at](BackwardContext& context) {
        context.set_grad(0, squeeze(context.grad(), static_cast<std::int64_t>(at)));
    });
}

Tensor squeeze(const Tensor& x, std::int64_t dim) {
    const std::size_t at = normalize_dim(dim, x.shape().size(), "squeeze");
    if (x.shape().empty() || x.shape()[at] != 1) {
        throw ShapeError("squeeze: dimension " + std::to_string(dim) + " of " + to_string(x.shape()) +
                         " does not have size 1");
    }
    Shape shape = x.shape();
    Strides strides = x.strides();
    shape.erase(at);
    strides.erase(at);
    return autograd::record("squeeze", view(x, shape, strides), {x}, {}, [at](BackwardContext& context) {
        context.set_grad(0, unsqueeze(context.grad(), static_cast<std::int64_t>(at)));
    });
}

Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
    const std::size_t at = normalize_dim(dim, x.shape().size(), "narrow");
    if (x.shape().empty() || start < 0 || length < 0 || start > x.shape()[at] ||
        length > x.shape()[at] - start) {
        throw ShapeError("narrow: " + std::to_string(length) + " elements from " + std::to_string(start) +
                         " leave dimension " + std::to_string(dim) + " of " + to_string(x.shape()));
    }
    Shape shape = x.shape();
    shape[at] = length;
    const std::int64_t offset = x.numel() > 0 ? start * x.strides()[at] : 0;
    return autograd::record("narrow", view(x, shape, x.strides(), offset), {x}, {},
                            [before = x.shape(), dim, start, length](BackwardContext& context) {
                                const Tensor gradient = zeros(before, {.dtype = context.grad().dtype(),
                                                                       .device = context.grad().device()});
                                narrow(gradient, dim, start, length).copy_(context.grad());
                                context.set_grad(0, gradient);
                            });
}

Tensor expand(const Tensor& x, const Shape& shape) {
    const std::size_t rank = x.shape().size();
    const auto refuse = [&] {
        throw ShapeError("expand: shape " + to_string(x.shape()) + " does not broadcast to " +
                         to_string(shape));
    };
    if (shape.size() < rank) refuse();
    Strides strides = Dims::filled(shape.size(), 0);
    for (std::size_t i = 0; i < rank; ++i) {
        const std::size_t to = shape.size() - rank + i;
        if (x.shape()[i] == shape[to]) {
            strides[to] = x.strides()[i];
        } else if (x.shape()[i] != 1) {
            refuse();
        }
    }
    return autograd::record("expand", view(x, shape, strides), {x}, {},
                            [before = x.shape()](BackwardContext& context) {
                                context.set_grad(0, sum_to_shape(context.grad(), before));
                            });
}

}  // namespace fulcrum
