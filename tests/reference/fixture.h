#pragma once

/// \file
/// Values that another framework computed in f64: op cases with their inputs, expected results and
/// yardsticks.

#include "core/tensor.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fulcrum::test {

/// Tensors by their role in a case: `x`, `weight`, `out`, `grad_x`, ...
using Roles = std::map<std::string, Tensor>;

/// One op with attributes, inputs and expected results.
struct ReferenceCase {
    std::string id;
    std::string op;
    std::string tier;  ///< `core`, `optional`, `reference-only`; empty where the set has no tiers
    nlohmann::json attributes;
    Roles tensors;
    std::map<std::string, double> f32_error;  ///< the other framework's own f32 distance, by role
    double rtol = 0.0, atol = 0.0;
};

/// The folder of the large reference sets (FULCRUM_REFERENCE, else `../shared/reference` beside the sources),
/// or nothing where there is none.
std::optional<std::filesystem::path> reference_folder();

/// The small selection that the repository carries.
std::filesystem::path bundled_reference();

/// Reads `manifest.json` of a set and the tensor files that it names.
std::vector<ReferenceCase> load_cases(const std::filesystem::path& folder);

/// Parses a JSON file.
nlohmann::json load_json(const std::filesystem::path& path);

/// max|got - want| / max|want| over finite elements (absolute where `want` is all zero); infinite when the
/// shapes differ or a non-finite element is not met exactly.
double distance(const Tensor& got, const Tensor& want);

}  // namespace fulcrum::test
