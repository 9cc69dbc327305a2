#pragma once

/// \file
/// Element types of tensors, and the dispatch from a run-time type to a C++ type.

#include "core/error.h"
#include "core/half.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace fulcrum {

/// The element type of a tensor.
enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8 };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
    switch (dtype) {
        case DType::f64:
        case DType::i64:
            return 8;
        case DType::f32:
        case DType::i32:
            return 4;
        case DType::bf16:
        case DType::f16:
            return 2;
        case DType::u8:
            break;
    }
    return 1;
}

/// The short name used in messages and on command lines: `f32`, `bf16`, ...
std::string_view name_of(DType dtype);

/// The inverse of `name_of`. \throws ValueError for an unknown name, listing the known ones.
DType parse_dtype(std::string_view name);

/// True for f64, f32, bf16 and f16: the types that can carry gradients.
constexpr bool is_floating(DType dtype) {
    return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

/// The `DType` of a C++ element type.
template <class T>
constexpr DType dtype_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, double>) return DType::f64;
    if constexpr (std::is_same_v<U, float>) return DType::f32;
    if constexpr (std::is_same_v<U, BFloat16>) return DType::bf16;
    if constexpr (std::is_same_v<U, Float16>) return DType::f16;
    if constexpr (std::is_same_v<U, std::int64_t>) return DType::i64;
    if constexpr (std::is_same_v<U, std::int32_t>) return DType::i32;
    if constexpr (std::is_same_v<U, std::uint8_t>) return DType::u8;
}

/// Carries a C++ element type into a generic lambda: `visit_dtype(t, [&](auto tag) { using T = typename
/// decltype(tag)::type; ... })`.
template <class T>
struct TypeTag {
    using type = T;
};

/// Calls `function(TypeTag<T>{})` with the C++ type of `dtype`, for all seven types.
template <class Function>
decltype(auto) visit_dtype(DType dtype, Function&& function) {
    switch (dtype) {
        case DType::f64:
            return function(TypeTag<double>{});
        case DType::f32:
            return function(TypeTag<float>{});
        case DType::bf16:
            return function(TypeTag<BFloat16>{});
        case DType::f16:
            return function(TypeTag<Float16>{});
        case DType::i64:
            return function(TypeTag<std::int64_t>{});
        case DType::i32:
            return function(TypeTag<std::int32_t>{});
        case DType::u8:
            break;
    }
    return function(TypeTag<std::uint8_t>{});
}

/// Calls `function(TypeTag<T>{})` for a floating type.
/// \param op the operation's name for the message.
/// \throws DTypeError when `dtype` is an integer type.
template <class Function>
decltype(auto) visit_floating(DType dtype, std::string_view op, Function&& function) {
    switch (dtype) {
        case DType::f64:
            return function(TypeTag<double>{});
        case DType::f32:
            return function(TypeTag<float>{});
        case DType::bf16:
            return function(TypeTag<BFloat16>{});
        case DType::f16:
            return function(TypeTag<Float16>{});
        default:
            break;
    }
    throw DTypeError(std::string(op) + ": takes a floating-point tensor, not " + std::string(name_of(dtype)));
}

}  // namespace fulcrum
