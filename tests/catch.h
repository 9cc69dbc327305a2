#pragma once

/// The one way to Catch2, for its version 3 and its version 2.13 alike. `Catch::Approx` is there in both.

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>
#else
#include <catch2/catch.hpp>

namespace Catch {
using Detail::Approx;
}
#endif
