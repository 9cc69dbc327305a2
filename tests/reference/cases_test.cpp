#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/reference/fixture.h"
#include "tests/reference/replay.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace fulcrum;
using namespace fulcrum::test;

namespace {

constexpr double kF64Tolerance = 1e-11;
constexpr double kF32Floor = 1e-6;
constexpr double kYardstickFactor = 4.0;

bool is_optimizer(const std::string& op) {
    return op == "sgd" || op == "adam" || op == "adamw";
}

// Everything that the case expects and that is no input: held to 1e-11 in f64, in f32 to four times the other
// framework's own f32 distance or 1e-6.
void check_case(const ReferenceCase& reference, DType dtype, Device device) {
    INFO(reference.id << " in " << name_of(dtype) << " on " << to_string(device));
    const Roles got = is_optimizer(reference.op) ? replay_optimizer(reference, dtype, device)
                                                 : replay(reference, dtype, device);
    for (const auto& [role, yardstick] : reference.f32_error) {
        const double allowed =
            dtype == DType::f64 ? kF64Tolerance : std::max(kYardstickFactor * yardstick, kF32Floor);
        INFO("result " << role);
        const auto found = got.find(role);
        REQUIRE(found != got.end());
        CHECK(distance(found->second, reference.tensors.at(role)) <= allowed);
    }
}

void check_set(const std::filesystem::path& folder) {
    const std::vector<ReferenceCase> cases = load_cases(folder);
    REQUIRE_FALSE(cases.empty());
    for (const ReferenceCase& reference : cases) {
        REQUIRE((can_replay(reference.op) || is_optimizer(reference.op)));
        REQUIRE_FALSE(reference.f32_error.empty());
        for_each_device([&](Device device) {
            check_case(reference, DType::f32, device);
            check_case(reference, DType::f64, device);
        });
    }
}

// The set's inputs come in f32 and f64; rounding the latter would be our own error.
DType input_type(const ReferenceCase& reference) {
    for (const auto& [role, tensor] : reference.tensors) {
        if (role != "out" && tensor.dtype() == DType::f64) return DType::f64;
    }
    return DType::f32;
}

// |got - want| <= atol + rtol * |want|, element by element.
void check_elements(const Tensor& got, const Tensor& want, double rtol, double atol) {
    REQUIRE(got.defined());
    REQUIRE(got.shape() == want.shape());
    const auto a = got.to_vector<double>();
    const auto b = want.to_vector<double>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const bool same = (std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i];
        if (!same && !(std::abs(a[i] - b[i]) <= atol + rtol * std::abs(b[i]))) ++wrong;
    }
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("The bundled reference cases replay in f32 and f64", "[reference]") {
    check_set(bundled_reference());
}

TEST_CASE("All handed reference cases replay in f32 and f64", "[reference]") {
    const auto folder = reference_folder();
    if (!folder) {
        WARN("skipped: no folder of reference values (set FULCRUM_REFERENCE)");
        return;
    }
    check_set(*folder / "handed");
}

TEST_CASE("The core tier of the exchange format's node tests replays", "[reference]") {
    const auto folder = reference_folder();
    if (!folder) {
        WARN("skipped: no folder of reference values (set FULCRUM_REFERENCE)");
        return;
    }
    const std::set<std::string> results{"out",
                                        "c",
                                        "d",
                                        "dc_da",
                                        "dc_db",
                                        "dd_da",
                                        "dd_db",
                                        "params_out",
                                        "exp_avg_out",
                                        "exp_avg_sq_out",
                                        "momentum_buffer_out",
                                        "running_mean_out",
                                        "running_var_out_unbiased",
                                        "log_prob_out"};
    std::size_t replayed = 0;
    for (const ReferenceCase& reference : load_cases(*folder / "onnx-node")) {
        if (reference.tier != "core") continue;
        for_each_device([&](Device device) {
            INFO(reference.id << " on " << to_string(device));
            const bool optimizer = is_optimizer(reference.op);
            const DType dtype = input_type(reference);
            const Roles got =
                optimizer ? replay_optimizer(reference, dtype, device) : replay(reference, dtype, device);
            std::size_t compared = 0;
            for (const auto& [role, want] : reference.tensors) {
                // In a gemm `c` is an operand.
                if (!results.contains(role) || (role == "c" && reference.op == "gemm")) continue;
                INFO("result " << role);
                REQUIRE(got.contains(role));
                check_elements(got.at(role), want, reference.rtol, reference.atol);
                ++compared;
            }
            CHECK(compared > 0);
        });
        ++replayed;
    }
    CHECK(replayed > 100);
}
