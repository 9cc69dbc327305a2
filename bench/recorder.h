#pragma once

/// \file
/// Watches every kernel that a training step calls: what it computed, how, and how long it took.

#include <cstdint>
#include <string>
#include <vector>

namespace fulcrum::bench {

/// One kernel call of a step.
struct Call {
    std::string op;              ///< `conv2d forward`
    std::string shape;           ///< `64->128 3x3/2 8x8`
    std::string implementation;  ///< as noted by the kernel; empty when it has one way only
    /// Multiplications and additions of the products, only those of filter taps that meet a real pixel; zero
    /// for an op without products.
    double flops = 0.0;
    double bytes = 0.0;                ///< of the operands, each read or written once
    std::vector<double> milliseconds;  ///< one for each recorded step

    /// What identical calls have in common.
    std::string key() const { return op + '|' + shape + '|' + implementation; }
};

/// Puts itself between the ops and the CPU's kernels. One at a time, for the rest of the program: kernels
/// stay wrapped, but cost a function call only when nothing is recorded.
class Recorder {
  public:
    Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// From here on calls belong to a new step. The first step says what the calls are, the later ones add
    /// their times. \throws Error when a step makes other calls than the first.
    void begin_step();
    /// Ends the recording. \throws like `begin_step`.
    void end();

    /// In the order in which a step makes them.
    const std::vector<Call>& calls() const;
};

}  // namespace fulcrum::bench
