#pragma once

/// \file
/// The CPU backend: its runtime and one set of kernels per op family.

#include "core/ops/activation.h"
#include "core/ops/augment.h"
#include "core/ops/batch_norm.h"
#include "core/ops/binary.h"
#include "core/ops/conv.h"
#include "core/ops/copy.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dropout.h"
#include "core/ops/matmul.h"
#include "core/ops/optimizer.h"
#include "core/ops/pool.h"
#include "core/ops/reduce.h"
#include "core/ops/softmax.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fulcrum::cpu {

/// Registers the CPU's runtime and kernels.
void install();

/// Host memory: 64-byte aligned blocks, huge pages for large ones, plain copies.
std::unique_ptr<DeviceRuntime> make_runtime();

/// Versions of the libraries behind the kernels and the instruction set in use, as (key, value).
std::vector<std::pair<std::string, std::string>> describe();

/// Each family's kernels, defined in the file of the same name.
const ActivationKernels& activation_kernels();
const AugmentKernels& augment_kernels();
const BatchNormKernels& batch_norm_kernels();
const BinaryKernels& binary_kernels();
const Conv2dKernels& conv2d_kernels();
const CopyKernels& copy_kernels();
const CrossEntropyKernels& cross_entropy_kernels();
const DropoutKernels& dropout_kernels();
const MatmulKernels& matmul_kernels();
const OptimizerKernels& optimizer_kernels();
const Pool2dKernels& pool2d_kernels();
const ReduceKernels& reduce_kernels();
const SoftmaxKernels& softmax_kernels();

}  // namespace fulcrum::cpu
