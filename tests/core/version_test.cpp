#include "core/version.h"

#include "tests/catch.h"

#include <algorithm>
#include <string>

TEST_CASE("The version has three numbers", "[core]") {
    const std::string version(fulcrum::version());
    CHECK(std::count(version.begin(), version.end(), '.') == 2);
    CHECK(version.find_first_not_of("0123456789.") == std::string::npos);
}

TEST_CASE("The build options tell the compiler and the backends on one line", "[core]") {
    const std::string options(fulcrum::build_options());
    CHECK(options.find("cuda=") != std::string::npos);
    CHECK(options.find("oneDNN ") != std::string::npos);
    CHECK(options.find('\n') == std::string::npos);
}
