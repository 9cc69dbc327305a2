#include "nn/evaluate.h"

#include "core/autograd.h"
#include "core/ops/cross_entropy.h"

#include <utility>
#include <vector>

namespace fulcrum::nn {

namespace {

/// Puts a network into evaluation mode for its lifetime.
class EvaluationMode {
  public:
    explicit EvaluationMode(Module& model) {
        for (const auto& [path, module] : model.named_modules())
            modes_.emplace_back(module, module->is_training());
        model.eval();
    }
    ~EvaluationMode() {
        // Parents come first: `train` sets a whole subtree, which the children then correct.
        for (const auto& [module, training] : modes_)
            module->train(training);
    }
    EvaluationMode(const EvaluationMode&) = delete;
    EvaluationMode& operator=(const EvaluationMode&) = delete;

  private:
    std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace

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
