#include "nn/dropout.h"

#include "core/error.h"
#include "core/ops/dropout.h"

#include <string>

namespace fulcrum::nn {

Dropout::Dropout(double p) : p_(p) {
    if (!(p >= 0.0 && p <= 1.0))
        throw ValueError("Dropout: p is " + std::to_string(p) + " but must be in [0, 1]");
}

Tensor Dropout::forward(const Tensor& x) {
    return dropout(x, p_, is_training());
}

}  // namespace fulcrum::nn
