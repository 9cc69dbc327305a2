#pragma once

/// \file
/// Adam and AdamW.

#include "nn/optim/optimizer.h"

#include <span>
#include <vector>

namespace fulcrum::optim {

/// Settings of `Adam` and `AdamW`; see `AdamParams` for the formula.
struct AdamOptions {
    double lr = 1e-3;           ///< learning rate, >= 0
    double beta1 = 0.9;         ///< in [0, 1)
    double beta2 = 0.999;       ///< in [0, 1)
    double eps = 1e-8;          ///< > 0 keeps a zero gradient from dividing by zero; >= 0
    double weight_decay = 0.0;  ///< >= 0, for all parameters
};

/// Adam (Kingma and Ba, 2015); weight decay is added to the gradient.
class Adam : public Optimizer {
  public:
    /// \throws ValueError naming the setting that is out of range.
    Adam(const ParameterList& parameters, const AdamOptions& options);

    double lr() const override { return options_.lr; }
    void set_lr(double value) override;
    /// beta1.
    double momentum() const override { return options_.beta1; }
    void set_momentum(double value) override;
    const AdamOptions& options() const { return options_; }

  protected:
    /// \param decoupled AdamW's weight decay.
    Adam(const char* name, const ParameterList& parameters, const AdamOptions& options, bool decoupled);
    void update(std::int64_t step, Device device, std::span<OptimizerSlice> slices) override;
    Settings settings() const override;
    void set_settings(std::span<const double> values) override;

  private:
    AdamOptions options_;
    bool decoupled_;
};

/// AdamW (Loshchilov and Hutter, 2019): weight decay shrinks the parameter by `lr * weight_decay`, apart from
/// the gradient.
class AdamW : public Adam {
  public:
    /// \throws ValueError naming the setting that is out of range.
    AdamW(const ParameterList& parameters, const AdamOptions& options);
};

}  // namespace fulcrum::optim
