#include "nn/weights.h"

#include "core/error.h"
#include "nn/safetensors.h"

#include <string>
#include <string_view>
#include <unordered_set>

namespace fulcrum::nn {

void save_weights(const Module& module, const std::filesystem::path& path) {
    // The entry that PyTorch's own writer makes, which some of its readers ask for.
    write_safetensors(path, module.state_dict(), {{"format", "pt"}});
}

void load_weights(Module& module, const std::filesystem::path& path, bool strict) {
    const SafetensorsFile file(path);
    const StateDict own = module.state_dict();
    std::unordered_set<std::string_view> known;
    for (const auto& [name, tensor] : own)
        known.insert(name);
    StateDict saved;
    for (const TensorEntry& entry : file.entries()) {
        if (strict || known.contains(entry.name)) saved.emplace_back(entry.name, file.read(entry));
    }
    try {
        module.load_state_dict(saved, strict);
    } catch (const Error& error) {
        throw IoError("cannot load '" + path.string() + "': " + error.what());
    }
}

}  // namespace fulcrum::nn
