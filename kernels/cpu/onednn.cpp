#include "kernels/cpu/onednn.h"

#include "core/error.h"
#include "core/threads.h"

#include <oneapi/dnnl/dnnl_debug.h>

#include <string>

namespace fulcrum::cpu::onednn {

dnnl::engine& engine() {
    static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
    return instance;
}

dnnl::stream& stream() {
    thread_local dnnl::stream instance(engine());
    return instance;
}

bool has_fast_bf16() {
    static const bool answer = [] {
        // Instruction sets are bit masks that contain those they build on.
        const auto present = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
        const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
        return (present & needed) == needed;
    }();
    return answer;
}

dnnl::memory::data_type data_type(DType dtype) {
    if (dtype == DType::f32) return dnnl::memory::data_type::f32;
    if (dtype == DType::bf16) return dnnl::memory::data_type::bf16;
    throw DTypeError("oneDNN kernels take f32 and bf16, not " + std::string(name_of(dtype)));
}

dnnl::memory::desc strided(const Shape& shape, DType dtype, const Strides& strides) {
    return {dnnl::memory::dims(shape.begin(), shape.end()), data_type(dtype),
            dnnl::memory::dims(strides.begin(), strides.end())};
}

dnnl::memory::desc any_layout(const Shape& shape, DType dtype) {
    return {dnnl::memory::dims(shape.begin(), shape.end()), data_type(dtype), dnnl::memory::format_tag::any};
}

dnnl::primitive_attr attributes() {
    dnnl::primitive_attr result;
    result.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return result;
}

void rethrow(const char* op, const dnnl::error& error) {
    const dnnl_version_t* version = dnnl_version();
    const std::string message = std::string(op) + ": oneDNN " + std::to_string(version->major) + "." +
                                std::to_string(version->minor) + "." + std::to_string(version->patch) + ": " +
                                error.what() + " (status " + dnnl_status2str(error.status) + ")";
    if (error.status == dnnl_out_of_memory) throw OutOfMemoryError(message);
    throw Error(message);
}

Key::Key() {
    add(num_threads());
}

std::size_t Key::hash() const {
    // FNV-1a over whole words.
    std::uint64_t result = 0xcbf29ce484222325U;
    for (std::size_t i = 0; i < size_; ++i) {
        result = (result ^ static_cast<std::uint64_t>(values_[i])) * 0x100000001b3U;
    }
    return static_cast<std::size_t>(result ^ (result >> 32));
}

}  // namespace fulcrum::cpu::onednn
