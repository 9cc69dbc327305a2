#include "nn/flatten.h"

#include "core/ops/shape.h"

namespace fulcrum::nn {

Tensor Flatten::forward(const Tensor& x) {
    return flatten(x, start_, end_);
}

}  // namespace fulcrum::nn
