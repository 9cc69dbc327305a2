#pragma once

/// \file
/// How far a run is: a bar that moves on a terminal, plain lines now and then elsewhere.

#include <fulcrum/nn/trainer.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace train_cifar10 {

/// `1:02:03`, `2:03`, `0:03`.
std::string clock_text(double seconds);

/// Shows a run's progress on standard output.
class Progress {
  public:
    /// \param epochs, steps of the whole run. \param first_step steps that were done before this start.
    Progress(std::int64_t epochs, std::int64_t steps, std::int64_t first_step);

    /// Shows a step, unless the last display is too fresh.
    void step(const fulcrum::nn::StepReport& report);
    /// Removes the bar, before other text is printed.
    void clear();

  private:
    using Clock = std::chrono::steady_clock;

    std::int64_t epochs_;
    std::int64_t steps_;
    std::int64_t first_step_;
    bool terminal_;
    bool shown_ = false;
    Clock::time_point started_ = Clock::now();
    Clock::time_point displayed_ = started_;
};

}  // namespace train_cifar10
