#include "tests/reference/fixture.h"

#include "nn/safetensors.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace fulcrum::test {

namespace {

const std::filesystem::path kTests = FULCRUM_TESTS_DIR;

}  // namespace

std::optional<std::filesystem::path> reference_folder() {
    const char* chosen = std::getenv("FULCRUM_REFERENCE");
    const std::filesystem::path folder =
        chosen != nullptr ? std::filesystem::path(chosen) : kTests / ".." / ".." / "shared" / "reference";
    if (std::filesystem::is_directory(folder)) return folder;
    return std::nullopt;
}

std::filesystem::path bundled_reference() {
    return kTests / "data" / "reference";
}

nlohmann::json load_json(const std::filesystem::path& path) {
    std::ifstream file(path);
    return nlohmann::json::parse(file);
}

std::vector<ReferenceCase> load_cases(const std::filesystem::path& folder) {
    const nlohmann::json manifest = load_json(folder / "manifest.json");
    std::map<std::string, std::map<std::string, Tensor>> files;
    const auto tensors_of = [&](const std::string& name) -> const std::map<std::string, Tensor>& {
        const auto [entry, fresh] = files.try_emplace(name);
        if (fresh) {
            for (const auto& [key, tensor] : nn::read_safetensors(folder / name).tensors)
                entry->second[key] = tensor;
        }
        return entry->second;
    };
    std::vector<ReferenceCase> cases;
    for (const auto& entry : manifest.at("cases")) {
        ReferenceCase one;
        one.id = entry.at("id");
        one.op = entry.at("op");
        one.tier = entry.value("tier", "");
        one.attributes = entry.at("attributes");
        one.rtol = entry.value("rtol", 0.0);
        one.atol = entry.value("atol", 0.0);
        const auto& tensors = tensors_of(entry.value("file", manifest.value("tensors_file", "")));
        for (const auto& [role, name] : entry.at("tensors").items()) {
            one.tensors[role] = tensors.at(name.get<std::string>());
        }
        if (entry.contains("torch_f32_error")) one.f32_error = entry.at("torch_f32_error");
        cases.push_back(std::move(one));
    }
    return cases;
}

double distance(const Tensor& got, const Tensor& want) {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    if (!got.defined() || got.shape() != want.shape()) return kInfinite;
    const auto a = got.to_vector<double>();
    const auto b = want.to_vector<double>();
    double worst = 0.0;
    double scale = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!std::isfinite(b[i])) {
            if (std::isnan(b[i]) ? !std::isnan(a[i]) : a[i] != b[i]) return kInfinite;
            continue;
        }
        if (!std::isfinite(a[i])) return kInfinite;
        worst = std::max(worst, std::abs(a[i] - b[i]));
        scale = std::max(scale, std::abs(b[i]));
    }
    return scale > 0.0 ? worst / scale : worst;
}

}  // namespace fulcrum::test
