#pragma once

/// \file
/// The one way to Catch2, for its version 3 and its version 2.13 alike. In both there are `Approx` (also as
/// `Catch::Approx`) and, in `Catch::Matchers`, `ContainsSubstring`, `StartsWith`, `EndsWith`, `Equals`,
/// `WithinAbs` and `WithinRel`.

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

using Catch::Approx;
#else
#include <catch2/catch.hpp>

namespace Catch {

using Detail::Approx;

namespace Matchers {
/// Version 3's name for what version 2 calls `Contains` of a text.
inline StdString::ContainsMatcher ContainsSubstring(const std::string& text) {
    return Contains(text);
}
}  // namespace Matchers

}  // namespace Catch
#endif
