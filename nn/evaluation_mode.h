#pragma once

/// \file
/// Evaluation mode for a stretch of code.

#include "nn/module.h"

#include <utility>
#include <vector>

namespace fulcrum::nn {

/// Puts a network into evaluation mode for its lifetime; afterwards every module has the mode it had before.
class EvaluationMode {
  public:
    /// \param model must outlive the guard, and keep its modules.
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

}  // namespace fulcrum::nn
