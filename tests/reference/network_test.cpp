#include "core/autograd.h"
#include "core/ops/cross_entropy.h"
#include "nn/models.h"
#include "nn/optim/sgd.h"
#include "tests/catch.h"
#include "tests/devices.h"
#include "tests/reference/fixture.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

using namespace fulcrum;
using namespace fulcrum::test;

namespace {

using Json = nlohmann::json;

// The formula that fills weights and inputs without a file: splitmix64 on top of an FNV-1a hash of the name.
std::uint64_t fnv1a(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : text)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return hash;
}

std::uint64_t splitmix64(std::uint64_t state) {
    std::uint64_t z = state + 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

Tensor filled(const std::string& name, const Shape& shape, double low, double high) {
    const std::uint64_t seed = fnv1a(name);
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double u = static_cast<double>(splitmix64(seed + i) >> 40) * 0x1p-24;
        values[i] = static_cast<float>(low == -high ? (2.0 * u - 1.0) * high : low + (high - low) * u);
    }
    return from_data<float>(values, shape);
}

// Matrices and filters by their fan-in; the vectors of a batch norm are told from a bias by its running
// statistics.
Tensor initial_value(const std::string& name, const Shape& shape, bool batch_norm) {
    if (shape.size() > 1) {
        const double fan_in = static_cast<double>(element_count(shape)) / static_cast<double>(shape[0]);
        const double bound = std::sqrt(3.0 / fan_in);
        return filled(name, shape, -bound, bound);
    }
    if (!batch_norm) return filled(name, shape, -0.1, 0.1);
    if (name.ends_with("weight")) return filled(name, shape, 0.5, 1.5);
    return filled(name, shape, -0.2, 0.2);
}

void fill_parameters(nn::Module& model) {
    const NoGradGuard no_grad;
    std::vector<std::string> buffers;
    for (const auto& [name, buffer] : model.named_buffers())
        buffers.push_back(name);
    for (const auto& [name, parameter] : model.named_parameters()) {
        const std::string owner = name.substr(0, name.rfind('.'));
        const bool batch_norm =
            std::find(buffers.begin(), buffers.end(), owner + ".running_mean") != buffers.end();
        parameter.copy_(initial_value(name, parameter.shape(), batch_norm));
    }
}

double l2(const std::vector<double>& values) {
    double total = 0.0;
    for (const double v : values)
        total += v * v;
    return std::sqrt(total);
}

// How far PyTorch's own f32 paths are from its f64 one, the largest of its variants; times four is what we
// may be.
struct Yardstick {
    double logits_train, logits_eval, gradient_norm, gradient_element, running, parameters;
    std::vector<double> losses;
};

Yardstick yardstick_of(const Json& variants, bool reduced) {
    const auto largest = [&](const char* key) {
        double value = 0.0;
        for (const auto& [name, variant] : variants.items()) {
            if (variant.contains(key)) value = std::max(value, variant.at(key).get<double>());
        }
        return value;
    };
    Yardstick y{};
    y.logits_train = largest("logits_train_max_abs");
    y.logits_eval = largest("logits_eval_after_3_max_abs");
    y.parameters = largest("params_after_3_rel_l2_max");
    if (!reduced) {
        y.gradient_norm = largest("grads_l2norm_rel_max");
        y.gradient_element = largest("grads_first8_err_over_rms_max");
        y.running = largest("running_after_1_rel_l2_max");
    }
    for (std::size_t step = 0; step < 3; ++step) {
        double value = 0.0;
        for (const auto& [name, variant] : variants.items()) {
            value = std::max(value, variant.at("losses_abs").at(step).get<double>());
        }
        y.losses.push_back(value);
    }
    return y;
}

// Tolerances of one run: four times the yardstick, but never tighter than what rounding alone explains.
struct Allowed {
    double factor = 4.0;
    double floor = 1e-6;
    double of(double yardstick) const { return std::max(factor * yardstick, floor); }
};

void check_matrix(const Tensor& got, const Json& want, double allowed) {
    const auto values = got.to_vector<double>();
    double worst = 0.0;
    std::size_t i = 0;
    for (const auto& row : want) {
        for (const auto& value : row)
            worst = std::max(worst, std::abs(values.at(i++) - value.get<double>()));
    }
    CHECK(i == values.size());
    CHECK(worst <= allowed);
}

// Norm and first eight elements; elements relative to the tensor's root mean square.
void check_summary(const std::vector<double>& values, const Json& want, double norm_allowed,
                   double element_allowed) {
    const double norm = want.at("l2");
    CHECK(std::abs(l2(values) - norm) <= norm_allowed * norm);
    const double rms = norm / std::sqrt(static_cast<double>(values.size()));
    const auto first = want.at("first8").get<std::vector<double>>();
    double worst = 0.0;
    for (std::size_t i = 0; i < first.size(); ++i)
        worst = std::max(worst, std::abs(values[i] - first[i]) / rms);
    CHECK(worst <= element_allowed);
}

void check_network(const Json& reference, const char* results, const Yardstick& yardstick,
                   const Allowed& allowed, double lr, DType dtype, Device device) {
    INFO(reference.at("model") << " in " << name_of(dtype) << " on " << to_string(device) << ", rate " << lr);
    const Json& want = reference.at(results);
    const auto model = nn::make_model(reference.at("model"), {.num_classes = reference.at("num_classes")});
    CHECK(model->parameter_count() == reference.at("num_parameters").get<std::int64_t>());
    fill_parameters(*model);
    for (const auto& [name, parameter] : model->named_parameters()) {
        INFO("fill of " << name);
        const auto values = parameter.to_vector<double>();
        const Json& check = reference.at("init_check").at(name);
        double total = 0.0;
        for (const double v : values)
            total += v;
        CHECK(total == Catch::Approx(check.at("sum").get<double>()).margin(1e-6));
        CHECK(values.front() == check.at("first4").at(0).get<double>());
    }
    model->to(device);
    if (dtype != DType::f32) model->to(dtype);

    const Tensor input = filled("input", {16, 3, 32, 32}, -1.0, 1.0);
    CHECK(input.to_vector<double>().front() == reference.at("input_check").at("first8").at(0).get<double>());
    const Tensor x = input.to(dtype).to(device);
    std::vector<std::int64_t> labels(16);
    for (std::size_t i = 0; i < labels.size(); ++i)
        labels[i] = static_cast<std::int64_t>(i % 10);
    const Tensor target = from_data<std::int64_t>(labels, {16}, {.dtype = DType::i64, .device = device});

    optim::SGD optimizer(model->named_parameters(), {.lr = lr, .momentum = 0.9, .weight_decay = 5e-4});
    model->train();
    for (std::size_t step = 0; step < 3; ++step) {
        INFO("step " << step);
        optimizer.zero_grad();
        const Tensor logits = (*model)(x);
        const Tensor loss = cross_entropy(logits, target);
        loss.backward();
        CHECK(std::abs(loss.item() - want.at("losses").at(step).get<double>()) <=
              allowed.of(yardstick.losses[step]));
        if (step == 0 && want.contains("grads")) {
            check_matrix(logits, want.at("logits_train"), allowed.of(yardstick.logits_train));
            for (const auto& [name, parameter] : model->named_parameters()) {
                INFO("gradient of " << name);
                check_summary(parameter.grad().to_vector<double>(), want.at("grads").at(name),
                              allowed.of(yardstick.gradient_norm), allowed.of(yardstick.gradient_element));
            }
            for (const auto& [name, buffer] : model->named_buffers()) {
                if (!want.at("running_after_1").contains(name)) continue;
                INFO("buffer " << name);
                const auto values = buffer.to_vector<double>();
                const auto first = want.at("running_after_1").at(name).get<std::vector<double>>();
                const double scale = l2(values) / std::sqrt(static_cast<double>(values.size()));
                for (std::size_t i = 0; i < first.size(); ++i) {
                    CHECK(std::abs(values[i] - first[i]) <= allowed.of(yardstick.running) * scale);
                }
            }
        }
        optimizer.step();
    }
    for (const auto& [name, parameter] : model->named_parameters()) {
        INFO("parameter " << name << " after three steps");
        check_summary(parameter.to_vector<double>(), want.at("params_after_3").at(name),
                      allowed.of(yardstick.parameters), allowed.of(4.0 * yardstick.parameters));
    }
    model->eval();
    const NoGradGuard no_grad;
    check_matrix((*model)(x), want.at("logits_eval_after_3"), allowed.of(yardstick.logits_eval));
}

std::optional<Json> network(const char* file) {
    const auto folder = reference_folder();
    if (!folder) {
        WARN("skipped: no folder of reference values (set FULCRUM_REFERENCE)");
        return std::nullopt;
    }
    return load_json(*folder / "handed" / file);
}

constexpr Allowed kF64{.factor = 0.0, .floor = 1e-9};

}  // namespace

TEST_CASE("Three training steps of small_cnn match the reference", "[reference][network]") {
    if (const auto reference = network("net_small_cnn.json")) {
        const Yardstick yardstick = yardstick_of(reference->at("float32_distance_by_variant"), false);
        for_each_device([&](Device device) {
            check_network(*reference, "float64", yardstick, {}, 0.01, DType::f32, device);
            check_network(*reference, "float64", yardstick, kF64, 0.01, DType::f64, device);
        });
    }
}

TEST_CASE("Three training steps of resnet18 match the reference", "[reference][network]") {
    if (const auto reference = network("net_resnet18.json")) {
        const Yardstick large = yardstick_of(reference->at("float32_distance_by_variant"), false);
        const Yardstick small = yardstick_of(reference->at("float32_distance_lr1e-4_by_variant"), true);
        for_each_device([&](Device device) {
            check_network(*reference, "float64", large, {}, 0.01, DType::f32, device);
            check_network(*reference, "float64_lr1e-4", small, {}, 1e-4, DType::f32, device);
            check_network(*reference, "float64", large, kF64, 0.01, DType::f64, device);
        });
    }
}
