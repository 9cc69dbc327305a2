#include "nn/evaluate.h"

#include "core/autograd.h"
#include "core/ops/cross_entropy.h"
#include "nn/evaluation_mode.h"

namespace fulcrum::nn {

std::optional<Tally> evaluate(Module& model, data::DataLoader& loader, const std::atomic<bool>* stop) {
    const NoGradGuard no_grad;
    const EvaluationMode mode(model);
    const auto parameters = model.parameters();
    const Device device = parameters.empty() ? kCpu : parameters.front().device();

    loader.set_position({loader.position().epoch, 0});
    Tally tally;
    while (const auto batch = loader.next()) {
        if (stop != nullptr && stop->load()) return std::nullopt;
        const Tensor labels = batch->labels.to(device);
        const Tensor logits = model(batch->images.to(device));
        const double loss = cross_entropy(logits, labels).item();
        tally += {batch->count, static_cast<std::int64_t>(count_correct(logits, labels).item()),
                  loss * static_cast<double>(batch->count)};
    }
    return tally;
}

}  // namespace fulcrum::nn
