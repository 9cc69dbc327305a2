#pragma once

/// \file
/// The one knob for the CPU backend's threads.

namespace fulcrum {

/// Sets how many threads CPU kernels use. \throws ValueError unless `count` is at least 1.
void set_num_threads(int count);

/// Threads that CPU kernels use: the last `set_num_threads`, else OMP_NUM_THREADS, else the physical cores
/// that this process may run on.
int num_threads();

}  // namespace fulcrum
