#include "core/environment.h"

#include "core/backend.h"
#include "core/device.h"
#include "core/threads.h"
#include "core/version.h"

#include <fstream>
#include <sched.h>
#include <string_view>
#include <sys/utsname.h>

namespace fulcrum {

namespace {

constexpr const char* kUnknown = "unknown";

/// The text behind the first "key   :" of a file such as /proc/cpuinfo.
std::string value_in(const char* path, std::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.compare(0, key.size(), key) != 0) continue;
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
        if (begin != std::string::npos) return line.substr(begin);
    }
    return kUnknown;
}

/// A value in kB of /proc/meminfo, in MiB.
std::string memory(std::string_view key) {
    const std::string text = value_in("/proc/meminfo", key);
    if (text == kUnknown) return text;
    return std::to_string(std::stoull(text) / 1024) + " MiB";
}

std::string usable_cpus() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return kUnknown;
    return std::to_string(CPU_COUNT(&allowed));
}

std::string operating_system() {
    utsname names{};
    if (uname(&names) != 0) return kUnknown;
    return std::string(names.sysname) + " " + names.release + " " + names.machine;
}

void add_device(std::vector<Fact>& facts, DeviceType type, const std::string& group) {
    const int count = device_count(type);
    facts.push_back({group, "devices", std::to_string(count)});
    if (count == 0) {
        facts.push_back({group, "why none", unavailable_reason(type)});
        return;
    }
    for (const auto& [name, value] : runtime(Device{type, 0}).describe())
        facts.push_back({group, name, value});
}

}  // namespace

std::vector<Fact> environment() {
    std::vector<Fact> facts{
        {"fulcrum", "version", std::string(version())},
        {"fulcrum", "commit", commit().empty() ? kUnknown : std::string(commit())},
        {"fulcrum", "build", std::string(build_options())},
        {"machine", "system", operating_system()},
        {"machine", "processor", value_in("/proc/cpuinfo", "model name")},
        {"machine", "usable CPUs", usable_cpus()},
        {"machine", "threads", std::to_string(num_threads())},
        {"machine", "memory", memory("MemTotal")},
        {"machine", "memory available", memory("MemAvailable")},
    };
    add_device(facts, DeviceType::cpu, "cpu");
    add_device(facts, DeviceType::cuda, "cuda");
    return facts;
}

}  // namespace fulcrum
