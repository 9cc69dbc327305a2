#pragma once

/// \file
/// Checks of numbers that optimisers and schedules share; each message names the owner and the number.

namespace fulcrum::optim::detail {

/// \throws ValueError unless `value` is finite and >= 0.
void check_not_negative(const char* owner, const char* name, double value);
/// \throws ValueError unless 0 <= value < 1.
void check_below_one(const char* owner, const char* name, double value);
/// \throws ValueError unless 0 <= value <= 1.
void check_fraction(const char* owner, const char* name, double value);

}  // namespace fulcrum::optim::detail
