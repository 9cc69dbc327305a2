// fulcrum-info: what this build of fulcrum is and what it finds on this machine.
//   fulcrum-info [--json]

#include <fulcrum/fulcrum.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <exception>
#include <string_view>

namespace {

void print_table() {
    std::string group;
    for (const auto& fact : fulcrum::environment()) {
        if (fact.group != group) fmt::print("{}{}\n", group.empty() ? "" : "\n", fact.group);
        group = fact.group;
        fmt::print("  {:<18}{}\n", fact.name, fact.value);
    }
}

void print_json() {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const auto& fact : fulcrum::environment())
        json[fact.group][fact.name] = fact.value;
    fmt::print("{}\n", json.dump(2));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const std::string_view option = argc == 2 ? argv[1] : "";
        if (argc == 1) {
            print_table();
        } else if (option == "--json") {
            print_json();
        } else if (option == "--help" || option == "-h") {
            fmt::print(
                "usage: fulcrum-info [--json]\nTells what this build of fulcrum is and what it finds "
                "here.\n");
        } else {
            fmt::print(stderr, "fulcrum-info: unknown arguments; usage: fulcrum-info [--json]\n");
            return 2;
        }
        return std::fflush(stdout) == 0 ? 0 : 1;
    } catch (const std::exception& error) {
        fmt::print(stderr, "fulcrum-info: {}\n", error.what());
        return 1;
    }
}
