#include "core/backend.h"
#include "kernels/cpu/backend.h"

namespace fulcrum {

void install_backends() {
    cpu::install();
}

}  // namespace fulcrum
