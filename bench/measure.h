#pragma once

/// \file
/// What the benchmark programs share: clocks, medians, memory, a busy neighbour.

#include <chrono>
#include <functional>
#include <sys/types.h>
#include <vector>

namespace fulcrum::bench {

using Clock = std::chrono::steady_clock;

/// Time since `begin`.
double milliseconds_since(Clock::time_point begin);

/// Time since the kernel started this process, to its clock's tick (10 ms as a rule).
double milliseconds_since_process_start();

/// The middle value, or the mean of the two middle ones. \param values at least one.
double median(std::vector<double> values);

/// Largest resident set of this process so far.
double peak_rss_mib();

/// Calls `step` `count` times, or fewer: no more once `seconds` have passed, but `least` times at any rate
/// (never more than `count`).
void repeat(const std::function<void()>& step, int count, int least, double seconds);

/// While it lives, a process of ordinary priority that does nothing but spin on the last of the cores that
/// this one may use. Beside a real-time process it hardly runs, so such a measurement shows nothing.
class BusyNeighbour {
  public:
    /// Call it before the first parallel loop: a process with threads should not fork. \throws Error when the
    /// system refuses.
    BusyNeighbour();
    ~BusyNeighbour();
    BusyNeighbour(const BusyNeighbour&) = delete;
    BusyNeighbour& operator=(const BusyNeighbour&) = delete;

  private:
    pid_t process_;
};

}  // namespace fulcrum::bench
