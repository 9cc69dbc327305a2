#include "core/dtype.h"

#include <array>

namespace fulcrum {

namespace {

constexpr std::array kAll{DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8};

}  // namespace

std::string_view name_of(DType dtype) {
    switch (dtype) {
        case DType::f64:
            return "f64";
        case DType::f32:
            return "f32";
        case DType::bf16:
            return "bf16";
        case DType::f16:
            return "f16";
        case DType::i64:
            return "i64";
        case DType::i32:
            return "i32";
        case DType::u8:
            break;
    }
    return "u8";
}

DType parse_dtype(std::string_view name) {
    for (const DType dtype : kAll) {
        if (name == name_of(dtype)) return dtype;
    }
    std::string known;
    for (const DType dtype : kAll)
        known += (known.empty() ? "" : ", ") + std::string(name_of(dtype));
    throw ValueError("element type '" + std::string(name) + "' is unknown; known are " + known);
}

}  // namespace fulcrum
