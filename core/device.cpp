#include "core/device.h"

#include "core/error.h"

#include <charconv>

namespace fulcrum {

std::string to_string(Device device) {
    return device.type == DeviceType::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

Device parse_device(std::string_view text) {
    if (text == "cpu") return kCpu;
    if (text == "cuda") return {DeviceType::cuda, 0};
    constexpr std::string_view prefix = "cuda:";
    if (text.starts_with(prefix)) {
        const std::string_view digits = text.substr(prefix.size());
        int index = -1;
        const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
        if (failure == std::errc{} && end == digits.data() + digits.size() && index >= 0) {
            return {DeviceType::cuda, index};
        }
    }
    throw ValueError("device '" + std::string(text) + "' is unknown; use cpu, cuda or cuda:N");
}

}  // namespace fulcrum
