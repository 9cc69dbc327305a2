#pragma once

#include <string_view>

namespace fulcrum {

/// The version of the library that is linked, as "major.minor.patch".
std::string_view version() noexcept;

/// The commit that the linked library was built from, with `-dirty` when files were changed; empty when it
/// was not built from a clone.
std::string_view commit() noexcept;

/// How the linked library was built, on one line: compiler, build type, backends and the options that change
/// its behaviour. For logs and bug reports.
std::string_view build_options() noexcept;

}  // namespace fulcrum
