#include "nn/module.h"

#include "core/autograd.h"
#include "nn/observer.h"
#include "nn/state_dict.h"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <typeinfo>
#include <unordered_set>

namespace fulcrum::nn {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
    return prefix.empty() ? name : prefix + "." + name;
}

/// Marks an error whose message carries a path already.
class PathMark {
  public:
    virtual ~PathMark() = default;
};

template <class E>
class WithPath final : public E, public PathMark {
  public:
    using E::E;
};

template <class E>
void throw_if_kind(const Error& error, const std::string& message) {
    if (dynamic_cast<const E*>(&error) != nullptr) throw WithPath<E>(message);
}

/// Adds tensors to a list, each once.
class UniqueTensors {
  public:
    void add(std::string name, const Tensor& tensor) {
        const auto same = [&](const NamedTensor& item) { return item.second.is_same(tensor); };
        if (std::none_of(list_.begin(), list_.end(), same)) list_.emplace_back(std::move(name), tensor);
    }
    std::vector<NamedTensor> take() { return std::move(list_); }

  private:
    std::vector<NamedTensor> list_;
};

/// Replaces a tensor's elements; a gradient or its slot would no longer fit.
void replace_data(const Tensor& tensor, const Tensor& moved) {
    tensor.zero_grad();
    if (tensor.autograd_meta() != nullptr) tensor.set_grad_slot({});
    tensor.set_data(moved);
}

}  // namespace

// --- Calls

Tensor Module::operator()(const Tensor& x) {
    return traced(x, [&] { return forward(x); });
}

void Module::observe(const Tensor& x, const Tensor& output) {
    CallObserver::notify(*this, x, output);
}

void Module::rethrow_with_path() const {
    if (path_.empty()) throw;
    try {
        throw;
    } catch (const Error& error) {
        if (dynamic_cast<const PathMark*>(&error) != nullptr) throw;
        const std::string message = std::string(error.what()) + " (in " + path_ + ")";
        throw_if_kind<ShapeError>(error, message);
        throw_if_kind<DTypeError>(error, message);
        throw_if_kind<DeviceError>(error, message);
        throw_if_kind<ValueError>(error, message);
        throw_if_kind<OutOfMemoryError>(error, message);
        throw_if_kind<AutogradError>(error, message);
        throw_if_kind<IoError>(error, message);
        throw WithPath<Error>(message);
    }
}

std::string Module::type_name() const {
    int status = 0;
    char* demangled = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status);
    std::string name = status == 0 ? demangled : typeid(*this).name();
    std::free(demangled);
    name.resize(std::min(name.size(), name.find('<')));
    const std::size_t cut = name.rfind("::");
    return cut == std::string::npos ? name : name.substr(cut + 2);
}

MultiplyAdds Module::multiply_adds(const Shape& /*input*/, const Shape& /*output*/) const {
    return {};
}

// --- Registration

void Module::check_name(const std::string& name) const {
    if (name.empty() || name.find('.') != std::string::npos) {
        throw ValueError(type_name() + ": cannot register the name \"" + name +
                         "\"; names are not empty and have no dots");
    }
    const bool taken =
        std::any_of(parameters_.begin(), parameters_.end(),
                    [&](const NamedTensor& item) { return item.first == name; }) ||
        std::any_of(buffers_.begin(), buffers_.end(),
                    [&](const Buffer& item) { return item.name == name; }) ||
        std::any_of(children_.begin(), children_.end(), [&](const Child& item) { return item.name == name; });
    if (taken) throw ValueError(type_name() + ": \"" + name + "\" is registered already");
}

Tensor Module::register_parameter(const std::string& name, Tensor value) {
    check_name(name);
    if (!value.defined()) throw ValueError(type_name() + ": parameter \"" + name + "\" is undefined");
    value.set_requires_grad();
    parameters_.emplace_back(name, value);
    return value;
}

Tensor Module::register_buffer(const std::string& name, Tensor value, bool required) {
    check_name(name);
    if (!value.defined()) throw ValueError(type_name() + ": buffer \"" + name + "\" is undefined");
    buffers_.push_back({name, value, required});
    return value;
}

void Module::add_child(const std::string& name, std::shared_ptr<Module> child) {
    check_name(name);
    if (child == nullptr) throw ValueError(type_name() + ": child \"" + name + "\" is null");
    child->walk("", [&](const std::string&, const Module& module) {
        if (&module == this)
            throw ValueError(type_name() + ": child \"" + name +
                             "\" contains its parent; modules form a tree");
    });
    child->set_path(joined(path_, name));
    children_.push_back({name, std::move(child)});
}

void Module::set_path(const std::string& path) {
    path_ = path;
    for (const Child& child : children_)
        child.module->set_path(joined(path, child.name));
}

// --- Walking

template <class Visit>
void Module::walk(const std::string& prefix, const Visit& visit) const {
    visit(prefix, *this);
    for (const Child& child : children_)
        child.module->walk(joined(prefix, child.name), visit);
}

std::vector<NamedTensor> Module::named_parameters() const {
    UniqueTensors found;
    walk("", [&](const std::string& prefix, const Module& module) {
        for (const auto& [name, tensor] : module.parameters_)
            found.add(joined(prefix, name), tensor);
    });
    return found.take();
}

std::vector<NamedTensor> Module::named_buffers() const {
    UniqueTensors found;
    walk("", [&](const std::string& prefix, const Module& module) {
        for (const Buffer& buffer : module.buffers_)
            found.add(joined(prefix, buffer.name), buffer.tensor);
    });
    return found.take();
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
    std::vector<std::pair<std::string, Module*>> found{{"", this}};
    std::unordered_set<const Module*> seen{this};
    for (const Child& child : children_) {
        for (auto& [name, module] : child.module->named_modules()) {
            if (seen.insert(module).second)
                found.emplace_back(name.empty() ? child.name : child.name + "." + name, module);
        }
    }
    return found;
}

std::vector<Tensor> Module::parameters() const {
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : named_parameters())
        tensors.push_back(tensor);
    return tensors;
}

std::int64_t Module::parameter_count() const {
    std::int64_t count = 0;
    for (const auto& [name, tensor] : named_parameters())
        count += tensor.numel();
    return count;
}

// --- Modes, devices, gradients

void Module::train(bool on) {
    training_ = on;
    for (const Child& child : children_)
        child.module->train(on);
}

void Module::to(Device device) {
    const NoGradGuard no_grad;
    for (const auto& tensors : {named_parameters(), named_buffers()}) {
        for (const auto& [name, tensor] : tensors) {
            if (tensor.device() != device) replace_data(tensor, tensor.detach().to(device));
        }
    }
}

void Module::to(DType dtype) {
    if (!is_floating(dtype)) {
        throw DTypeError(type_name() + ": parameters cannot be " + std::string(name_of(dtype)) +
                         "; convert to a floating-point type");
    }
    const NoGradGuard no_grad;
    for (const auto& tensors : {named_parameters(), named_buffers()}) {
        for (const auto& [name, tensor] : tensors) {
            if (is_floating(tensor.dtype()) && tensor.dtype() != dtype)
                replace_data(tensor, tensor.detach().to(dtype));
        }
    }
}

void Module::zero_grad() const {
    for (const auto& [name, tensor] : named_parameters())
        tensor.zero_grad();
}

void Module::set_requires_grad(bool value) const {
    for (auto& [name, tensor] : named_parameters()) {
        Tensor handle = tensor;
        handle.set_requires_grad(value);
    }
}

// --- Saving and loading

StateDict Module::state_dict() const {
    StateDict dict;
    walk("", [&](const std::string& prefix, const Module& module) {
        for (const auto& [name, tensor] : module.parameters_)
            dict.emplace_back(joined(prefix, name), tensor.detach());
        for (const Buffer& buffer : module.buffers_)
            dict.emplace_back(joined(prefix, buffer.name), buffer.tensor.detach());
    });
    return dict;
}

void Module::load_state_dict(const StateDict& dict, bool strict) {
    StateDict completed = dict;
    walk("", [&](const std::string& prefix, const Module& module) {
        for (const Buffer& buffer : module.buffers_) {
            const std::string name = joined(prefix, buffer.name);
            if (!buffer.required && find(dict, name) == nullptr)
                completed.emplace_back(name, zeros_like(buffer.tensor));
        }
    });
    load_state(state_dict(), completed, strict, "load_state_dict");
}

}  // namespace fulcrum::nn
