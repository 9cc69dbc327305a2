#pragma once

/// \file
/// Ctrl-C and SIGTERM as a wish: the first asks the run to stop after its step, the second ends the program.

#include <atomic>

namespace train_cifar10 {

/// Catches SIGINT and SIGTERM from now on, in a thread of its own. To be called before other threads start:
/// they inherit that these signals are blocked.
void catch_stop_signals();

/// True once one of them has come.
const std::atomic<bool>& stop_wanted();

}  // namespace train_cifar10
