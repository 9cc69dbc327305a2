#pragma once

/// \file
/// A note of how a kernel did its work, for benchmarks and reports.

#include <string>
#include <string_view>

namespace fulcrum {

/// Notes which of its ways the kernel that runs on this thread has taken. The last note of a call counts.
void note_implementation(std::string_view name);

/// What was noted on this thread since `clear_implementation`; empty when nothing was, for the kernels that
/// have one way only.
const std::string& noted_implementation();

/// Forgets the note.
void clear_implementation();

}  // namespace fulcrum
