#pragma once

/// \file
/// Stochastic gradient descent.

#include "nn/optim/optimizer.h"

#include <span>
#include <vector>

namespace fulcrum::optim {

/// Settings of `SGD`; see `SgdParams` for the formula.
struct SgdOptions {
    double lr = 0.1;            ///< learning rate, >= 0
    double momentum = 0.0;      ///< in [0, 1)
    double dampening = 0.0;     ///< in [0, 1]
    double weight_decay = 0.0;  ///< L2 factor, >= 0, for all parameters
    bool nesterov = false;      ///< needs a momentum and no dampening
};

/// SGD with momentum, Nesterov's variant and weight decay, as PyTorch defines it.
class SGD : public Optimizer {
  public:
    /// \throws ValueError naming the setting that is out of range.
    SGD(const ParameterList& parameters, const SgdOptions& options);

    double lr() const override { return options_.lr; }
    void set_lr(double value) override;
    double momentum() const override { return options_.momentum; }
    void set_momentum(double value) override;
    const SgdOptions& options() const { return options_; }

  protected:
    void update(std::int64_t step, Device device, std::span<OptimizerSlice> slices) override;
    bool uses_state() const override { return options_.momentum != 0.0; }
    Settings settings() const override;
    void set_settings(std::span<const double> values) override;

  private:
    SgdOptions options_;
};

}  // namespace fulcrum::optim
