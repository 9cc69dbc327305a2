#pragma once

/// \file
/// The contract of a device, told family by family.
///
/// Each op header declares, beside the op, a small struct of functions that a device must supply for it (its
/// *kernels*, for instance `Conv2dKernels` in `core/ops/conv.h`). A backend registers one such struct per
/// family, and an op asks `kernels<Conv2dKernels>(device)` for the one to call. Core never includes a
/// backend: the one function it needs from above, `install_backends`, is defined in `kernels/`.

#include "core/allocator.h"
#include "core/device.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fulcrum {

/// What a backend may hand from an op's forward to its backward: a workspace, a chosen algorithm, a mask.
/// Opaque to core.
using KernelContext = std::shared_ptr<void>;

/// Memory, copies and synchronisation of one kind of device. One instance per kind, alive until the program
/// ends.
class DeviceRuntime {
  public:
    DeviceRuntime() = default;
    virtual ~DeviceRuntime() = default;
    DeviceRuntime(const DeviceRuntime&) = delete;
    DeviceRuntime& operator=(const DeviceRuntime&) = delete;

    /// Devices of this kind that can be used now; never throws.
    virtual int device_count() const noexcept = 0;
    /// Why `device_count()` is zero, or empty.
    virtual std::string unavailable_reason() const = 0;
    /// The allocator of device `index`.
    virtual CachingAllocator& allocator(int index) = 0;
    /// Copies `bytes` bytes where at least one side is a device of this kind and the other is the same device
    /// or the host. Ordered after earlier work on the device; when it returns, host memory on either side may
    /// be reused.
    virtual void copy(void* destination, Device destination_device, const void* source, Device source_device,
                      std::size_t bytes) = 0;
    /// Sets `bytes` bytes to zero, in the order of the device's work.
    virtual void zero(void* destination, std::size_t bytes, int index) = 0;
    /// Returns when all work queued on device `index` is done.
    virtual void synchronize(int index) = 0;
    /// What the backend is made of, for people and logs: library versions, instruction set, device names, as
    /// (key, value).
    virtual std::vector<std::pair<std::string, std::string>> describe() const = 0;
};

/// Registers a kind of device. Called by backends from `install_backends`.
void register_runtime(DeviceType type, std::unique_ptr<DeviceRuntime> runtime);

/// The runtime of a kind of device, shared so that a storage can outlive the registry at program end; null
/// when the build has none.
std::shared_ptr<DeviceRuntime> find_runtime(DeviceType type);

/// The runtime of a device. \throws DeviceError when the build or the machine has no such device, saying
/// which and why.
DeviceRuntime& runtime(Device device);

/// Number of usable devices of a kind; zero when the build has no backend for it.
int device_count(DeviceType type);

/// Why `device_count(type)` is zero ("built with FULCRUM_CUDA=OFF"), or empty.
std::string unavailable_reason(DeviceType type);

/// Returns when all work queued on `device` is done. Nothing to do on the CPU.
void synchronize(Device device);

/// Registers the backends of this build, once. Defined in `kernels/backends.cpp`.
void install_backends();

namespace detail {

/// The registered kernels of family `Kernels`, one slot per kind of device.
template <class Kernels>
struct KernelSlots {
    static inline std::array<const Kernels*, kDeviceTypes> slots{};
};

/// Makes sure that `install_backends` has run.
void ensure_backends();

/// Throws the DeviceError for a family that a device lacks.
[[noreturn]] void throw_missing_kernels(const char* family, Device device);

}  // namespace detail

/// Registers a device's kernels for one family; `kernels` must live until the program ends.
template <class Kernels>
void register_kernels(DeviceType type, const Kernels& kernels) {
    detail::KernelSlots<Kernels>::slots[static_cast<std::size_t>(type)] = &kernels;
}

/// The kernels of family `Kernels` on `device`.
/// \throws DeviceError naming the family, the device and the build option when there are none.
template <class Kernels>
const Kernels& kernels(Device device) {
    detail::ensure_backends();
    const Kernels* found = detail::KernelSlots<Kernels>::slots[static_cast<std::size_t>(device.type)];
    if (found == nullptr) detail::throw_missing_kernels(Kernels::family, device);
    return *found;
}

/// True when `device`'s backend supplies the family.
template <class Kernels>
bool has_kernels(Device device) {
    detail::ensure_backends();
    return detail::KernelSlots<Kernels>::slots[static_cast<std::size_t>(device.type)] != nullptr;
}

}  // namespace fulcrum
