#pragma once

/// \file
/// The devices that a test runs on: every kind that this build and this machine have.

#include "core/backend.h"
#include "core/device.h"
#include "tests/catch.h"

#include <vector>

namespace fulcrum::test {

/// The CPU, then the first device of every other kind that can be used now.
inline std::vector<Device> available_devices() {
    std::vector<Device> devices{kCpu};
    for (std::size_t type = 1; type < kDeviceTypes; ++type) {
        const Device device{static_cast<DeviceType>(type), 0};
        if (device_count(device.type) > 0) devices.push_back(device);
    }
    return devices;
}

/// Runs `body(device)` on every available device; a failing check names the device.
template <class Body>
void for_each_device(Body&& body) {
    for (const Device device : available_devices()) {
        INFO("device " << to_string(device));
        body(device);
    }
}

}  // namespace fulcrum::test
