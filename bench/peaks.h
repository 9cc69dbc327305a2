#pragma once

/// \file
/// What this machine can do at best: the yardsticks that ops are held against.

#include <fulcrum/core/dtype.h>

namespace fulcrum::bench {

/// The fastest of several large square matrix products on all threads, in GFLOP/s. \param dtype f32 or bf16.
double gemm_peak(DType dtype);

/// Copying 64 MiB to 64 MiB on all threads, in GB/s; a byte copied counts twice, read and written. That is
/// about what a layer touches, and more than most caches hold; with a last-level cache of hundreds of
/// megabytes, it is that cache which answers, as it does in a training step.
double copy_peak();

}  // namespace fulcrum::bench
