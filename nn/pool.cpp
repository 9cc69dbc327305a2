#include "nn/pool.h"

namespace fulcrum::nn {

Tensor MaxPool2d::forward(const Tensor& x) {
    return max_pool2d(x, options_.params());
}

Tensor AvgPool2d::forward(const Tensor& x) {
    return avg_pool2d(x, options_.params());
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
    return adaptive_avg_pool2d(x, output_size_.array());
}

}  // namespace fulcrum::nn
