#include "kernels/cpu/backend.h"

#include <Eigen/Core>
#include <oneapi/dnnl/dnnl.h>

#include <string>

namespace fulcrum::cpu {

namespace {

std::string isa_name(dnnl_cpu_isa_t isa) {
    switch (isa) {
        case dnnl_cpu_isa_sse41:
            return "SSE4.1";
        case dnnl_cpu_isa_avx:
            return "AVX";
        case dnnl_cpu_isa_avx2:
            return "AVX2";
        case dnnl_cpu_isa_avx512_core:
            return "AVX-512";
        case dnnl_cpu_isa_avx512_core_vnni:
            return "AVX-512 VNNI";
        case dnnl_cpu_isa_avx512_core_bf16:
            return "AVX-512 BF16";
        case dnnl_cpu_isa_avx512_core_amx:
            return "AVX-512 AMX";
        default:
            return "code " + std::to_string(static_cast<int>(isa));
    }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> describe() {
    const dnnl_version_t& version = *dnnl_version();
    return {
        {"oneDNN", std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
                       std::to_string(version.patch)},
        {"instruction set", isa_name(dnnl_get_effective_cpu_isa())},
        {"Eigen", std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
                      std::to_string(EIGEN_MINOR_VERSION)},
    };
}

}  // namespace fulcrum::cpu
