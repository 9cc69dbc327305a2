#include "nn/optim/check.h"

#include "core/error.h"

#include <fmt/format.h>

#include <cmath>

namespace fulcrum::optim::detail {
namespace {

void require(bool holds, const char* owner, const char* name, double value, const char* range) {
    if (!holds) throw ValueError(fmt::format("{}: {} is {} but must be {}", owner, name, value, range));
}

}  // namespace

void check_not_negative(const char* owner, const char* name, double value) {
    require(std::isfinite(value) && value >= 0.0, owner, name, value, "finite and at least 0");
}

void check_below_one(const char* owner, const char* name, double value) {
    require(value >= 0.0 && value < 1.0, owner, name, value, "at least 0 and below 1");
}

void check_fraction(const char* owner, const char* name, double value) {
    require(value >= 0.0 && value <= 1.0, owner, name, value, "between 0 and 1");
}

}  // namespace fulcrum::optim::detail
