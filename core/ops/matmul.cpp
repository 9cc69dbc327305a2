#include "core/ops/matmul.h"

#include "core/autograd.h"
#include "core/error.h"
#include "core/ops/check.h"
#include "core/ops/shape.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace fulcrum {

namespace {

/// A stack of matrices as the kernels read them: row-major with a leading dimension, or the transpose of
/// that.
struct Matrices {
    Tensor tensor;  ///< `[..., rows, columns]`
    std::int64_t rows = 0, columns = 0;
    bool transposed = false;
    std::int64_t leading = 0;
};

/// Describes `tensor` (2-D or more) when its last two dimensions can be read as they lie. \return false
/// otherwise.
bool describe(const Tensor& tensor, Matrices& result) {
    const std::size_t rank = tensor.shape().size();
    const std::int64_t rows = tensor.shape()[rank - 2];
    const std::int64_t columns = tensor.shape()[rank - 1];
    // The stride of a dimension of size 1 says nothing.
    const std::int64_t row_stride = rows > 1 ? tensor.strides()[rank - 2] : columns;
    const std::int64_t column_stride = columns > 1 ? tensor.strides()[rank - 1] : 1;
    result = {.tensor = tensor, .rows = rows, .columns = columns, .transposed = false, .leading = 0};
    if (column_stride == 1 && row_stride >= std::max<std::int64_t>(1, columns)) {
        result.leading = row_stride;
        return true;
    }
    if ((rows == 1 || row_stride == 1) && column_stride >= std::max<std::int64_t>(1, rows)) {
        result.transposed = true;
        result.leading = column_stride;
        return true;
    }
    result.leading = std::max<std::int64_t>(1, columns);
    return tensor.numel() == 0;
}

/// The matrices of `tensor`, copied when its strides are of another kind.
Matrices matrices(const Tensor& tensor) {
    Matrices result;
    if (!describe(tensor, result)) describe(tensor.contiguous(), result);
    return result;
}

Matrices transposed(Matrices m) {
    m.tensor = transpose(m.tensor, -2, -1);
    std::swap(m.rows, m.columns);
    m.transposed = !m.transposed;
    return m;
}

/// One dimension of a batch: its size, and the steps of A, B and C along it.
struct BatchDim {
    std::int64_t size;
    std::array<std::int64_t, 3> steps;
};

std::int64_t batch_step(const Matrices& m, std::size_t batch_rank, std::size_t dim) {
    const std::size_t own = m.tensor.shape().size() - 2;
    if (dim + own < batch_rank) return 0;
    const std::size_t at = dim + own - batch_rank;
    return m.tensor.shape()[at] == 1 ? 0 : m.tensor.strides()[at];
}

/// The dimensions of the batch, without those of size 1, neighbours merged where all three walk evenly.
std::vector<BatchDim> batch_dims(const Shape& batch, const Matrices& a, const Matrices& b,
                                 const Matrices& c) {
    std::vector<BatchDim> dims;
    for (std::size_t d = 0; d < batch.size(); ++d) {
        if (batch[d] == 1) continue;
        const BatchDim next{
            batch[d],
            {batch_step(a, batch.size(), d), batch_step(b, batch.size(), d), batch_step(c, batch.size(), d)}};
        const auto even = [&](std::size_t i) { return dims.back().steps[i] == next.steps[i] * next.size; };
        if (!dims.empty() && even(0) && even(1) && even(2)) {
            dims.back() = {dims.back().size * next.size, next.steps};
        } else {
            dims.push_back(next);
        }
    }
    return dims;
}

std::byte* element(const Matrices& m, std::int64_t offset) {
    return static_cast<std::byte*>(m.tensor.raw_data()) +
           offset * static_cast<std::int64_t>(size_of(m.tensor.dtype()));
}

/// `C = A * B (+ bias)` over a batch that A, B and C are broadcast to. Where C is broadcast, the products are
/// summed: the gradient of a broadcast operand. C holds elements; `bias` only without such a sum.
void multiply(const Shape& batch, Matrices a, Matrices b, Matrices c, const Tensor& bias = {}) {
    if (c.transposed) {
        std::swap(a, b);
        a = transposed(a);
        b = transposed(b);
        c = transposed(c);
    }
    std::vector<BatchDim> dims = batch_dims(batch, a, b, c);
    if (element_count(batch) == 0) {
        c.tensor.zero_();
        return;
    }
    GemmParams params{.m = c.rows,
                      .n = c.columns,
                      .k = a.columns,
                      .transpose_a = a.transposed,
                      .transpose_b = b.transposed,
                      .lda = a.leading,
                      .ldb = b.leading,
                      .ldc = c.leading,
                      .type_a = a.tensor.dtype(),
                      .type_b = b.tensor.dtype(),
                      .type_c = c.tensor.dtype()};
    // The innermost dimension along which C moves goes to the kernel, the others are walked here.
    const auto inner =
        std::find_if(dims.rbegin(), dims.rend(), [](const BatchDim& dim) { return dim.steps[2] != 0; });
    if (inner != dims.rend()) {
        params.batch = inner->size;
        params.stride_a = inner->steps[0];
        params.stride_b = inner->steps[1];
        params.stride_c = inner->steps[2];
        dims.erase(std::next(inner).base());
    }
    const Device device = c.tensor.device();
    const auto& gemm = kernels<MatmulKernels>(device).gemm;
    std::vector<std::int64_t> position(dims.size(), 0);
    for (bool more = true; more;) {
        std::array<std::int64_t, 3> offsets{};
        params.accumulate = false;
        for (std::size_t d = 0; d < dims.size(); ++d) {
            for (std::size_t i = 0; i < 3; ++i)
                offsets[i] += position[d] * dims[d].steps[i];
            params.accumulate = params.accumulate || (dims[d].steps[2] == 0 && position[d] > 0);
        }
        gemm(params, element(a, offsets[0]), element(b, offsets[1]),
             bias.defined() ? bias.raw_data() : nullptr, element(c, offsets[2]), device);
        more = false;
        for (std::size_t d = dims.size(); d-- > 0 && !more;) {
            more = ++position[d] < dims[d].size;
            if (!more) position[d] = 0;
        }
    }
}

/// `A * B` summed over the batch into a tensor shaped like input `index` of the tape.
/// \param like the input as it was multiplied. \param fold gives its stack of matrices.
template <class Fold>
void deliver_product(autograd::BackwardContext& context, std::size_t index, const Tensor& like,
                     const Shape& batch, const Matrices& a, const Matrices& b, const Fold& fold) {
    Tensor gradient = context.grad_buffer(index, like);
    if (gradient.numel() == 0) {
        context.set_grad(index, std::move(gradient));
        return;
    }
    Matrices c;
    const bool direct = describe(fold(gradient), c);
    // Sums over a batch are rounded once, at the end.
    const bool half = size_of(like.dtype()) < size_of(DType::f32);
    if (direct && !half) {
        multiply(batch, a, b, std::move(c));
    } else {
        const Tensor wide =
            empty(like.shape(), {.dtype = half ? DType::f32 : like.dtype(), .device = like.device()});
        multiply(batch, a, b, matrices(fold(wide)));
        gradient.copy_(wide);
    }
    context.set_grad(index, std::move(gradient));
}

/// A left operand as matrices: a vector is one row.
Tensor fold_left(const Tensor& tensor) {
    return tensor.dim() == 1 ? unsqueeze(tensor.detach(), 0) : tensor.detach();
}

/// A right operand as matrices: a vector is one column.
Tensor fold_right(const Tensor& tensor) {
    return tensor.dim() == 1 ? unsqueeze(tensor.detach(), 1) : tensor.detach();
}

Shape batch_of(const Tensor& tensor) {
    Shape batch = tensor.shape();
    batch.erase(batch.size() - 1);
    batch.erase(batch.size() - 1);
    return batch;
}

/// How many rows a tensor `[..., width]` has. \throws ShapeError beyond 63 bits.
std::int64_t row_count(const Tensor& tensor) {
    Shape leading = tensor.shape();
    leading.erase(leading.size() - 1);
    return element_count(leading);
}

/// `[..., width]` as one matrix `[rows, width]`. The tensor is contiguous, so this is a view.
Tensor as_rows(const Tensor& tensor) {
    return reshape(tensor.detach(), {row_count(tensor), tensor.size(-1)});
}

/// The gradient as a stack of matrices again: `[..., m, n]`, whatever vectors had dropped.
Tensor fold_gradient(const Tensor& grad, const Tensor& a, const Tensor& b) {
    Tensor result = grad.detach();
    if (a.dim() == 1) result = unsqueeze(result, b.dim() == 1 ? result.dim() : result.dim() - 1);
    if (b.dim() == 1) result = unsqueeze(result, result.dim());
    return result;
}

void matmul_backward(autograd::BackwardContext& context) {
    const Tensor& a = context.saved(0);
    const Tensor& b = context.saved(1);
    const Tensor folded_grad = fold_gradient(context.grad(), a, b);
    const Shape batch = batch_of(folded_grad);
    const Matrices grad = matrices(folded_grad);
    if (context.needs(0)) {
        deliver_product(context, 0, a, batch, grad, transposed(matrices(fold_right(b))), fold_left);
    }
    if (context.needs(1)) {
        deliver_product(context, 1, b, batch, transposed(matrices(fold_left(a))), grad, fold_right);
    }
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
    constexpr const char* kOp = "matmul";
    detail::check_defined(kOp, "a", a);
    detail::check_defined(kOp, "b", b);
    detail::check_floating(kOp, "a", a);
    detail::check_same_dtype(kOp, "a", a, "b", b);
    detail::check_same_device(kOp, "a", a, "b", b);
    if (a.dim() == 0 || b.dim() == 0) {
        throw ShapeError("matmul: " + to_string(a.shape()) + " x " + to_string(b.shape()) +
                         " has a scalar; both operands must have at least one dimension (use mul to scale)");
    }
    const Tensor left = fold_left(a);
    const Tensor right = fold_right(b);
    if (left.size(-1) != right.size(-2)) {
        throw ShapeError("matmul: the inner sizes of " + to_string(a.shape()) + " x " + to_string(b.shape()) +
                         " differ: " + std::to_string(left.size(-1)) + " and " +
                         std::to_string(right.size(-2)));
    }
    // A stack times one matrix is a taller matrix times that matrix.
    if (left.dim() > 2 && b.dim() == 2 && a.is_contiguous()) {
        Shape shape = a.shape();
        shape[shape.size() - 1] = b.size(1);
        element_count(shape);
        return reshape(matmul(reshape(a, {row_count(a), a.size(-1)}), b), shape);
    }
    const Shape batch = broadcast_shapes(batch_of(left), batch_of(right), kOp);
    Shape stacked = batch;
    stacked.push_back(left.size(-2));
    stacked.push_back(right.size(-1));
    Shape shape = batch;
    if (a.dim() > 1) shape.push_back(left.size(-2));
    if (b.dim() > 1) shape.push_back(right.size(-1));
    Tensor output = empty(shape, {.dtype = a.dtype(), .device = a.device()});
    if (output.numel() > 0) {
        multiply(batch, matrices(left), matrices(right), matrices(reshape(output, stacked)));
    }
    return autograd::record(kOp, output, {a, b}, {a, b}, matmul_backward);
}

namespace {

/// Saved are x (contiguous), the weight and the bias.
void linear_backward(autograd::BackwardContext& context) {
    const Tensor& x = context.saved(0);
    const Tensor& weight = context.saved(1);
    const Tensor& bias = context.saved(2);
    const Tensor grad_rows = as_rows(context.grad().contiguous());
    const Matrices grad = matrices(grad_rows);
    const auto as_it_is = [](const Tensor& tensor) { return tensor.detach(); };
    if (context.needs(0)) deliver_product(context, 0, x, {}, grad, matrices(weight), as_rows);
    if (context.needs(1)) {
        deliver_product(context, 1, weight, {}, transposed(grad), matrices(as_rows(x)), as_it_is);
    }
    if (context.needs(2)) {
        // Columns are summed by a product with a row of ones, straight into the gradient's place.
        const Tensor row =
            ones({1, grad_rows.size(0)}, {.dtype = grad_rows.dtype(), .device = grad_rows.device()});
        deliver_product(context, 2, bias, {}, matrices(row), grad, fold_left);
    }
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    constexpr const char* kOp = "linear";
    detail::check_defined(kOp, "x", x);
    detail::check_defined(kOp, "weight", weight);
    detail::check_floating(kOp, "x", x);
    const bool half = x.dtype() == DType::bf16 || x.dtype() == DType::f16;
    // Master weights stay f32 beside 16-bit activations.
    if (!(half && weight.dtype() == DType::f32)) detail::check_same_dtype(kOp, "x", x, "weight", weight);
    detail::check_same_device(kOp, "x", x, "weight", weight);
    if (weight.dim() != 2) {
        throw ShapeError("linear: weight " + to_string(weight.shape()) + " must be 2-D [out, in]");
    }
    if (x.dim() == 0 || x.size(-1) != weight.size(1)) {
        throw ShapeError("linear: x " + to_string(x.shape()) + " must end in the " +
                         std::to_string(weight.size(1)) + " inputs that weight " + to_string(weight.shape()) +
                         " [out, in] expects");
    }
    if (bias.defined()) {
        detail::check_same_dtype(kOp, "weight", weight, "bias", bias);
        detail::check_same_device(kOp, "x", x, "bias", bias);
        if (bias.shape() != Shape{weight.size(0)}) {
            throw ShapeError("linear: bias " + to_string(bias.shape()) + " must be [" +
                             std::to_string(weight.size(0)) + "], one value for each output of weight " +
                             to_string(weight.shape()));
        }
    }
    Shape shape = x.shape();
    shape[shape.size() - 1] = weight.size(0);
    const Tensor rows = x.detach().contiguous();
    const Tensor w = weight.detach();
    const Tensor b = bias.defined() ? bias.detach().contiguous() : Tensor();
    Tensor output = empty(shape, {.dtype = x.dtype(), .device = x.device()});
    if (output.numel() > 0) {
        multiply({}, matrices(as_rows(rows)), transposed(matrices(w)), matrices(as_rows(output)),
                 b.defined() ? b.to(x.dtype()) : b);
    }
    return autograd::record(kOp, output, {x, weight, bias}, {rows, w, b}, linear_backward);
}

}  // namespace fulcrum
