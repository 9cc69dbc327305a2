#include "kernels/cpu/backend.h"

namespace fulcrum::cpu {

void install() {
    register_runtime(DeviceType::cpu, make_runtime());
    register_kernels<ActivationKernels>(DeviceType::cpu, activation_kernels());
    register_kernels<AugmentKernels>(DeviceType::cpu, augment_kernels());
    register_kernels<BatchNormKernels>(DeviceType::cpu, batch_norm_kernels());
    register_kernels<BinaryKernels>(DeviceType::cpu, binary_kernels());
    register_kernels<Conv2dKernels>(DeviceType::cpu, conv2d_kernels());
    register_kernels<CopyKernels>(DeviceType::cpu, copy_kernels());
    register_kernels<CrossEntropyKernels>(DeviceType::cpu, cross_entropy_kernels());
    register_kernels<DropoutKernels>(DeviceType::cpu, dropout_kernels());
    register_kernels<MatmulKernels>(DeviceType::cpu, matmul_kernels());
    register_kernels<OptimizerKernels>(DeviceType::cpu, optimizer_kernels());
    register_kernels<Pool2dKernels>(DeviceType::cpu, pool2d_kernels());
    register_kernels<ReduceKernels>(DeviceType::cpu, reduce_kernels());
    register_kernels<SoftmaxKernels>(DeviceType::cpu, softmax_kernels());
}

}  // namespace fulcrum::cpu
