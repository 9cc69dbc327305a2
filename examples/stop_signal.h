#pragma once

/// \file
/// Ctrl-C and SIGTERM as a wish: the first asks the run to stop after its step, the second ends the program.

#include <atomic>

namespace train_cifar10 {

/// Catches SIGINT and SIGTERM from now on.
void catch_stop_signals();

/// True once one of them has come.
const std::atomic<bool>& stop_wanted();

}  // namespace train_cifar10
