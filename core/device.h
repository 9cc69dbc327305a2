#pragma once

/// \file
/// Names of devices. What a device can do is in `core/backend.h`.

#include <cstdint>
#include <string>
#include <string_view>

namespace fulcrum {

/// The kinds of device that the framework knows.
enum class DeviceType : std::uint8_t { cpu, cuda };
/// How many kinds there are.
constexpr std::size_t kDeviceTypes = 2;

/// A device: a kind and, where there are several, a number.
struct Device {
    DeviceType type = DeviceType::cpu;
    int index = 0;

    friend bool operator==(const Device&, const Device&) = default;
};

/// The host processor.
constexpr Device kCpu{DeviceType::cpu, 0};

/// `cpu`, `cuda:0`.
std::string to_string(Device device);

/// Reads `cpu`, `cuda` or `cuda:N`. \throws ValueError for anything else, saying what is known.
Device parse_device(std::string_view text);

}  // namespace fulcrum
