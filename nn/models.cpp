#include "nn/models.h"

#include "core/error.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace fulcrum::nn {
namespace {

/// Names and factories; usable from any thread.
class Registry {
  public:
    static Registry& instance() {
        static Registry registry;
        return registry;
    }

    void add(const std::string& name, ModelFactory factory) {
        if (name.empty()) throw ValueError("register_model: the name is empty");
        if (!factory) throw ValueError("register_model: the factory of \"" + name + "\" is empty");
        const std::lock_guard lock(mutex_);
        if (find(name) != entries_.end())
            throw ValueError("register_model: \"" + name + "\" is registered already");
        entries_.emplace_back(name, std::move(factory));
    }

    ModelFactory at(const std::string& name) const {
        const std::lock_guard lock(mutex_);
        const auto entry = find(name);
        if (entry != entries_.end()) return entry->second;
        std::string known;
        for (const auto& item : entries_)
            known += (known.empty() ? "" : ", ") + item.first;
        throw ValueError("make_model: there is no model \"" + name + "\"; known are " + known);
    }

    std::vector<std::string> names() const {
        const std::lock_guard lock(mutex_);
        std::vector<std::string> list;
        for (const auto& item : entries_)
            list.push_back(item.first);
        return list;
    }

  private:
    using Entry = std::pair<std::string, ModelFactory>;

    Registry() : entries_{{"small_cnn", small_cnn}, {"resnet18", resnet18}, {"resnet50", resnet50}} {}

    std::vector<Entry>::const_iterator find(const std::string& name) const {
        return std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& entry) { return entry.first == name; });
    }

    mutable std::mutex mutex_;
    std::vector<Entry> entries_;
};

}  // namespace

std::string_view name_of(Stem stem) {
    return stem == Stem::cifar ? "cifar" : "imagenet";
}

Stem parse_stem(std::string_view name) {
    for (const Stem stem : {Stem::imagenet, Stem::cifar}) {
        if (name == name_of(stem)) return stem;
    }
    throw ValueError("there is no stem \"" + std::string(name) + "\"; known are imagenet, cifar");
}

void ModelOptions::check() const {
    if (num_classes < 1)
        throw ValueError("model: num_classes is " + std::to_string(num_classes) + " but must be at least 1");
}

std::shared_ptr<Module> make_model(const std::string& name, const ModelOptions& options) {
    return Registry::instance().at(name)(options);
}

std::vector<std::string> model_names() {
    return Registry::instance().names();
}

void register_model(const std::string& name, ModelFactory factory) {
    Registry::instance().add(name, std::move(factory));
}

}  // namespace fulcrum::nn
