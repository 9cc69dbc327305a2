#include "core/environment.h"

#include "core/threads.h"
#include "core/version.h"
#include "tests/catch.h"

#include <set>
#include <string>
#include <utility>

namespace {

std::string value_of(const std::string& group, const std::string& name) {
    for (const auto& fact : fulcrum::environment()) {
        if (fact.group == group && fact.name == name) return fact.value;
    }
    return {};
}

}  // namespace

TEST_CASE("The environment tells the build, the machine and each kind of device", "[core]") {
    CHECK(value_of("fulcrum", "version") == fulcrum::version());
    CHECK(value_of("fulcrum", "build") == fulcrum::build_options());
    CHECK_FALSE(value_of("fulcrum", "commit").empty());
    CHECK_FALSE(value_of("machine", "processor").empty());
    CHECK(value_of("machine", "threads") == std::to_string(fulcrum::num_threads()));
    CHECK(value_of("machine", "memory").find(" MiB") != std::string::npos);
    CHECK(value_of("cpu", "devices") == "1");
    CHECK_FALSE(value_of("cpu", "oneDNN").empty());
    CHECK_FALSE(value_of("cpu", "instruction set").empty());
}

TEST_CASE("A kind of device that is absent says why", "[core]") {
    if (value_of("cuda", "devices") == "0") CHECK_FALSE(value_of("cuda", "why none").empty());
}

TEST_CASE("No fact of the environment is told twice or is empty", "[core]") {
    std::set<std::pair<std::string, std::string>> seen;
    for (const auto& [group, name, value] : fulcrum::environment()) {
        INFO(group << " " << name);
        CHECK(seen.emplace(group, name).second);
        CHECK_FALSE(value.empty());
        CHECK(value.find('\n') == std::string::npos);
    }
}
