#include "nn/sequential.h"

#include "core/error.h"

#include <string>
#include <utility>

namespace fulcrum::nn {

Sequential::Sequential(std::initializer_list<std::shared_ptr<Module>> modules) {
    for (const auto& module : modules)
        push_back(module);
}

void Sequential::push_back(std::shared_ptr<Module> module) {
    push_back(std::to_string(modules_.size()), std::move(module));
}

void Sequential::push_back(const std::string& name, std::shared_ptr<Module> module) {
    modules_.push_back(register_module(name, std::move(module)));
}

Tensor Sequential::forward(const Tensor& x) {
    Tensor value = x;
    for (const auto& module : modules_)
        value = (*module)(value);
    return value;
}

const std::shared_ptr<Module>& Sequential::at(std::size_t index) const {
    if (index >= modules_.size()) {
        throw ValueError("Sequential: there is no module " + std::to_string(index) + " among " +
                         std::to_string(modules_.size()));
    }
    return modules_[index];
}

}  // namespace fulcrum::nn
