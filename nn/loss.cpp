#include "nn/loss.h"

#include "core/error.h"

#include <string>

namespace fulcrum::nn {

CrossEntropyLoss::CrossEntropyLoss(double label_smoothing, Reduction reduction)
    : params_{label_smoothing, reduction} {
    if (!(label_smoothing >= 0.0 && label_smoothing <= 1.0)) {
        throw ValueError("CrossEntropyLoss: label_smoothing is " + std::to_string(label_smoothing) +
                         " but must be in [0, 1]");
    }
}

Tensor CrossEntropyLoss::operator()(const Tensor& logits, const Tensor& labels) const {
    return cross_entropy(logits, labels, params_);
}

}  // namespace fulcrum::nn
