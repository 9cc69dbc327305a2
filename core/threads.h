#pragma once

/// \file
/// The one knob for the CPU backend's threads.

namespace fulcrum {

/// Sets how many threads CPU kernels use. \throws ValueError unless `count` is at least 1.
void set_num_threads(int count);

/// Threads that CPU kernels started from this thread use: the limit of a `ThreadLimitGuard` here, else the
/// last `set_num_threads`, else OMP_NUM_THREADS, else the physical cores that this process may run on. Also
/// makes OpenMP's default on the calling thread agree, since libraries ask OpenMP.
int num_threads();

/// Limits the CPU kernels that the calling thread starts to `count` threads, for its lifetime: a loader's
/// worker works alone and does not wake a second team. \throws ValueError unless `count` is at least 1.
class ThreadLimitGuard {
  public:
    explicit ThreadLimitGuard(int count);
    ~ThreadLimitGuard();
    ThreadLimitGuard(const ThreadLimitGuard&) = delete;
    ThreadLimitGuard& operator=(const ThreadLimitGuard&) = delete;

  private:
    int previous_;
};

}  // namespace fulcrum
