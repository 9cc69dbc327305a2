#include "nn/linear.h"

#include "core/error.h"
#include "core/ops/matmul.h"
#include "nn/init.h"

#include <cmath>
#include <string>

namespace fulcrum::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool bias)
    : in_features_(in_features), out_features_(out_features) {
    if (in_features < 1 || out_features < 1) {
        throw ValueError("Linear: features are " + std::to_string(in_features) + " in and " +
                         std::to_string(out_features) + " out but both must be at least 1");
    }
    weight_ = register_parameter("weight", empty({out_features, in_features}));
    init_weight(weight_, WeightInit::kaiming_uniform);
    if (bias) {
        bias_ = register_parameter("bias", empty({out_features}));
        const double bound = 1.0 / std::sqrt(static_cast<double>(in_features));
        init_uniform(bias_, -bound, bound);
    }
}

Tensor Linear::forward(const Tensor& x) {
    return linear(x, weight_, bias_);
}

MultiplyAdds Linear::multiply_adds(const Shape& /*input*/, const Shape& output) const {
    const std::int64_t count = element_count(output) * in_features_;
    return {count, count};
}

}  // namespace fulcrum::nn
