#pragma once

/// \file
/// What a program runs on, for logs, results and bug reports.

#include <string>
#include <vector>

namespace fulcrum {

/// One fact about the library, the machine or a device.
struct Fact {
    std::string group;  ///< `fulcrum`, `machine`, `cpu`, `cuda`
    std::string name;   ///< unique within the group
    std::string value;  ///< "unknown" where the system does not tell
};

/// Version, commit and options of the build; processor, cores, threads and memory of the machine; and for
/// each kind of device what its backend is made of, or why there is none. The order is always the same.
std::vector<Fact> environment();

}  // namespace fulcrum
