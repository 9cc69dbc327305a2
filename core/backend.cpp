#include "core/backend.h"

#include "core/error.h"

#include <mutex>

namespace fulcrum {

namespace {

using Runtimes = std::array<std::shared_ptr<DeviceRuntime>, kDeviceTypes>;

Runtimes& runtimes() {
    static Runtimes all;
    return all;
}

std::string build_option(DeviceType type) {
    return type == DeviceType::cuda ? "FULCRUM_CUDA" : "the CPU backend";
}

}  // namespace

void detail::ensure_backends() {
    static std::once_flag once;
    std::call_once(once, install_backends);
}

void detail::throw_missing_kernels(const char* family, Device device) {
    const std::string reason = unavailable_reason(device.type);
    throw DeviceError(
        std::string(family) + ": " + to_string(device) + " has no kernels for it (" +
        (reason.empty() ? "this build of " + build_option(device.type) + " lacks the family" : reason) + ")");
}

void register_runtime(DeviceType type, std::unique_ptr<DeviceRuntime> runtime) {
    runtimes().at(static_cast<std::size_t>(type)) = std::move(runtime);
}

std::shared_ptr<DeviceRuntime> find_runtime(DeviceType type) {
    detail::ensure_backends();
    return runtimes().at(static_cast<std::size_t>(type));
}

DeviceRuntime& runtime(Device device) {
    detail::ensure_backends();
    const auto& found = runtimes().at(static_cast<std::size_t>(device.type));
    if (found == nullptr || device.index < 0 || device.index >= found->device_count()) {
        const std::string reason = unavailable_reason(device.type);
        throw DeviceError("device " + to_string(device) + " is not available: " +
                          (reason.empty() ? "this machine has " + std::to_string(device_count(device.type)) +
                                                " of its kind, numbered from 0"
                                          : reason));
    }
    return *found;
}

int device_count(DeviceType type) {
    const auto found = find_runtime(type);
    return found == nullptr ? 0 : found->device_count();
}

std::string unavailable_reason(DeviceType type) {
    const auto found = find_runtime(type);
    if (found != nullptr) return found->unavailable_reason();
    return "this build has no backend for it (" + build_option(type) + "=OFF)";
}

void synchronize(Device device) {
    runtime(device).synchronize(device.index);
}

}  // namespace fulcrum
