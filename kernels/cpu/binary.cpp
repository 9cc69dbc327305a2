#include "core/ops/binary.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/strided.h"

#include <array>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

namespace fulcrum::cpu {
namespace {

/// Integers wrap around: computed without sign, where that is defined.
template <std::integral T>
using Wrapping = std::make_unsigned_t<std::conditional_t<sizeof(T) < 4, int, T>>;

/// One operation on the arithmetic type of the elements.
template <BinaryOp Op, class T>
struct Apply {
    T operator()(T a, T b) const {
        if constexpr (std::integral<T>) {
            return integral(a, b);
        } else {
            if constexpr (Op == BinaryOp::add) return a + b;
            if constexpr (Op == BinaryOp::sub) return a - b;
            if constexpr (Op == BinaryOp::mul) return a * b;
            if constexpr (Op == BinaryOp::div) return a / b;
        }
    }

  private:
    static T integral(T a, T b) {
        const auto left = static_cast<Wrapping<T>>(a);
        const auto right = static_cast<Wrapping<T>>(b);
        if constexpr (Op == BinaryOp::add) return static_cast<T>(left + right);
        if constexpr (Op == BinaryOp::sub) return static_cast<T>(left - right);
        if constexpr (Op == BinaryOp::mul) return static_cast<T>(left * right);
        if constexpr (Op == BinaryOp::div) {
            if (b == 0) {
                throw ValueError("div: a divisor of element type " + std::string(name_of(dtype_of<T>())) +
                                 " is zero; cast both operands to a floating type for an infinity");
            }
            // The smallest integer divided by -1 does not fit and would stop the processor.
            if constexpr (std::is_signed_v<T>) {
                if (b == -1) return static_cast<T>(Wrapping<T>{0} - left);
            }
            return static_cast<T>(a / b);
        }
    }
};

/// `count` elements; separate loops for the patterns that vectorise.
template <class Operation, class T>
void binary_row(Operation operation, T* output, std::int64_t output_stride, const T* a, std::int64_t a_stride,
                const T* b, std::int64_t b_stride, std::int64_t count) {
    using A = Arithmetic<T>;
    if (output_stride == 1 && a_stride == 1 && b_stride == 1) {
        for (std::int64_t i = 0; i < count; ++i)
            output[i] = T(operation(A(a[i]), A(b[i])));
    } else if (output_stride == 1 && a_stride == 1 && b_stride == 0) {
        const A right = A(*b);
        for (std::int64_t i = 0; i < count; ++i)
            output[i] = T(operation(A(a[i]), right));
    } else if (output_stride == 1 && a_stride == 0 && b_stride == 1) {
        const A left = A(*a);
        for (std::int64_t i = 0; i < count; ++i)
            output[i] = T(operation(left, A(b[i])));
    } else {
        for (std::int64_t i = 0; i < count; ++i) {
            output[i * output_stride] = T(operation(A(a[i * a_stride]), A(b[i * b_stride])));
        }
    }
}

template <BinaryOp Op>
void apply(const LoopNest<3>& nest, const Tensor& a, const Tensor& b, Tensor& output) {
    visit_dtype(output.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto* out = static_cast<T*>(output.raw_data());
        const auto* left = static_cast<const T*>(a.raw_data());
        const auto* right = static_cast<const T*>(b.raw_data());
        parallel_walk(nest, [&](const std::array<std::int64_t, 3>& offsets, std::int64_t length) {
            binary_row(Apply<Op, Arithmetic<T>>{}, out + offsets[0], nest.inner_stride(0), left + offsets[1],
                       nest.inner_stride(1), right + offsets[2], nest.inner_stride(2), length);
        });
    });
}

void apply(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& output) {
    const auto nest = make_loop_nest<3>(output.shape(), {output.strides(), a.strides(), b.strides()});
    switch (op) {
        case BinaryOp::add:
            return apply<BinaryOp::add>(nest, a, b, output);
        case BinaryOp::sub:
            return apply<BinaryOp::sub>(nest, a, b, output);
        case BinaryOp::mul:
            return apply<BinaryOp::mul>(nest, a, b, output);
        case BinaryOp::div:
            return apply<BinaryOp::div>(nest, a, b, output);
    }
}

/// `a + scale * b`; the number has the arithmetic type.
template <class T>
struct AddScaled {
    T scale;
    T operator()(T a, T b) const {
        if constexpr (std::integral<T>) {
            return static_cast<T>(static_cast<Wrapping<T>>(a) +
                                  static_cast<Wrapping<T>>(scale) * static_cast<Wrapping<T>>(b));
        } else {
            return a + scale * b;
        }
    }
};

void add_in_place(Tensor& a, const Tensor& b, double scale) {
    const auto nest = make_loop_nest<2>(a.shape(), {a.strides(), b.strides()});
    visit_dtype(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using A = Arithmetic<T>;
        auto* target = static_cast<T*>(a.raw_data());
        const auto* addend = static_cast<const T*>(b.raw_data());
        const AddScaled<A> operation{convert<A>(scale)};
        const std::int64_t stride = nest.inner_stride(0);
        parallel_walk(nest, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t length) {
            T* row = target + offsets[0];
            binary_row(operation, row, stride, row, stride, addend + offsets[1], nest.inner_stride(1),
                       length);
        });
    });
}

void scale_in_place(Tensor& a, double factor) {
    const auto nest = make_loop_nest<1>(a.shape(), {a.strides()});
    visit_dtype(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using A = Arithmetic<T>;
        auto* target = static_cast<T*>(a.raw_data());
        const A multiplier = convert<A>(factor);
        const T unused{};
        const auto operation = [multiplier](A value, A) {
            return Apply<BinaryOp::mul, A>{}(value, multiplier);
        };
        const std::int64_t stride = nest.inner_stride(0);
        parallel_walk(nest, [&](const std::array<std::int64_t, 1>& offsets, std::int64_t length) {
            T* row = target + offsets[0];
            binary_row(operation, row, stride, row, stride, &unused, 0, length);
        });
    });
}

}  // namespace

const BinaryKernels& binary_kernels() {
    static constexpr BinaryKernels kKernels{apply, add_in_place, scale_in_place};
    return kKernels;
}

}  // namespace fulcrum::cpu
