#include "kernels/cpu/backend.h"

namespace fulcrum::cpu {

void install() {
    register_runtime(DeviceType::cpu, make_runtime());
    register_kernels<CopyKernels>(DeviceType::cpu, copy_kernels());
}

}  // namespace fulcrum::cpu
