#pragma once

/// \file
/// Inputs for the tests of element-wise ops, and a way to read results that uses no op.

#include "core/ops/copy.h"
#include "core/tensor.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace fulcrum::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline const std::vector<DType> kAllTypes{DType::f64, DType::f32, DType::bf16, DType::f16,
                                          DType::i64, DType::i32, DType::u8};
inline const std::vector<DType> kFloatingTypes{DType::f64, DType::f32, DType::bf16, DType::f16};

/// 0, 1, 2, ... modulo 97 in row-major order: exact in every element type.
inline Tensor counting(const Shape& shape, const TensorOptions& options = {}) {
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>(i % 97);
    return from_data<double>(values, shape, options);
}

/// Standard normal values, the same for the same seed.
inline Tensor normal_values(const Shape& shape, std::uint64_t seed, const TensorOptions& options = {}) {
    Generator generator(seed);
    return normal(shape, 0.0, 1.0, options, generator);
}

/// The elements in row-major order of the shape, read one by one through the strides. A tensor of another
/// device goes to the host first.
inline std::vector<double> read_by_strides(const Tensor& x) {
    const Tensor host = x.detach().to(kCpu);
    std::vector<double> values;
    std::vector<std::int64_t> index(host.shape().size(), 0);
    for (std::int64_t i = 0; i < host.numel(); ++i) {
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < index.size(); ++d)
            offset += index[d] * host.strides()[d];
        values.push_back(visit_dtype(host.dtype(), [&](auto tag) {
            using T = typename decltype(tag)::type;
            return static_cast<double>(static_cast<const T*>(host.raw_data())[offset]);
        }));
        for (std::size_t d = index.size(); d-- > 0;) {
            if (++index[d] < host.shape()[d]) break;
            index[d] = 0;
        }
    }
    return values;
}

}  // namespace fulcrum::test
