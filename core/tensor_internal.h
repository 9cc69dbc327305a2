#pragma once

/// \file
/// The body behind a Tensor handle; for core's sources only.

#include "core/autograd.h"
#include "core/tensor.h"

#include <memory>

namespace fulcrum {

/// What all copies of a handle share.
struct TensorImpl {
    std::shared_ptr<Storage> storage;
    std::int64_t offset = 0;  ///< elements
    Shape shape;
    Strides strides;
    DType dtype = DType::f32;
    std::int64_t numel = 0;
    std::unique_ptr<autograd::Meta> meta;  ///< null until the tensor meets the tape
};

}  // namespace fulcrum
