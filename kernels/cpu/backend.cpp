#include "kernels/cpu/backend.h"

namespace fulcrum::cpu {

void install() {
    register_runtime(DeviceType::cpu, make_runtime());
}

}  // namespace fulcrum::cpu
