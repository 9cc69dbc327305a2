#include "nn/activation.h"

#include "core/ops/activation.h"

namespace fulcrum::nn {

Tensor ReLU::forward(const Tensor& x) {
    return relu(x);
}

Tensor Sigmoid::forward(const Tensor& x) {
    return sigmoid(x);
}

Tensor Tanh::forward(const Tensor& x) {
    return fulcrum::tanh(x);
}

Tensor GELU::forward(const Tensor& x) {
    return gelu(x);
}

Tensor SiLU::forward(const Tensor& x) {
    return silu(x);
}

}  // namespace fulcrum::nn
