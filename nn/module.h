#pragma once

/// \file
/// Module: a piece of a network that owns parameters, buffers and child modules under names.
///
/// Modules are held by `std::shared_ptr`. A module registers what it owns in its constructor; names join with
/// dots to the paths that `state_dict` uses (`layer1.0.conv1.weight`). Not thread-safe.

#include "core/error.h"
#include "core/tensor.h"
#include "nn/state_dict.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fulcrum::nn {

/// Multiplications that each feed an addition, for one call of a module.
struct MultiplyAdds {
    std::int64_t usual = 0;   ///< every tap of every window, as the field counts
    std::int64_t useful = 0;  ///< only taps that meet a real pixel, not padding
};

/// Base of all layers and networks.
class Module {
  public:
    Module() = default;
    virtual ~Module() = default;
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

    /// Computes the output. Call a module through `operator()`, which adds the path to errors.
    virtual Tensor forward(const Tensor& x) = 0;
    /// `forward(x)`; an `Error` leaves with the path of the innermost module in its message, its type kept:
    /// `conv2d: ... (in layer2.0.conv1)`.
    Tensor operator()(const Tensor& x);

    /// Names from the root module to this one joined by dots; empty for a root.
    const std::string& path() const { return path_; }
    /// The class's name without namespaces and template arguments, `Conv2d`.
    std::string type_name() const;
    /// Multiply-adds of one call on an input of shape `input` that gave `output`, children not counted; zero
    /// unless a layer overrides it.
    virtual MultiplyAdds multiply_adds(const Shape& input, const Shape& output) const;

    // --- What the module owns: its own first, then its children's, in the order of registration

    /// Parameters with their paths relative to this module. One that is registered twice is listed once,
    /// under its first name.
    std::vector<NamedTensor> named_parameters() const;
    /// Buffers: state that is saved but not trained, such as running statistics.
    std::vector<NamedTensor> named_buffers() const;
    /// This module (path empty) and all below it, each once, a parent before its children. The pointers are
    /// owned by their parents.
    std::vector<std::pair<std::string, Module*>> named_modules();
    /// The tensors of `named_parameters`.
    std::vector<Tensor> parameters() const;
    /// Elements of all parameters.
    std::int64_t parameter_count() const;

    // --- Modes, devices, gradients

    /// Sets training mode (dropout drops, batch norm uses the batch) for this module and all below it.
    virtual void train(bool on = true);
    /// `train(false)`.
    void eval() { train(false); }
    bool is_training() const { return training_; }
    /// Moves parameters and buffers to `device`; handles stay valid. Gradients are forgotten. Do it before
    /// an optimiser is made. \throws DeviceError.
    void to(Device device);
    /// Converts floating parameters and buffers to `dtype`; gradients are forgotten. For gradient checks in
    /// f64. (bf16 training keeps f32 parameters: convert the input instead.) \throws DTypeError for an
    /// integer type.
    void to(DType dtype);
    /// Forgets all parameters' gradients.
    void zero_grad() const;
    /// Freezes (`false`) or thaws all parameters.
    void set_requires_grad(bool value) const;

    // --- Saving and loading

    /// Parameters and buffers, module by module, under torchvision's names. The tensors are detached but
    /// share the module's elements: `clone(dict)` is a snapshot. Convolution weights are logical
    /// `[O, I, KH, KW]` whatever their order in memory.
    StateDict state_dict() const;
    /// Copies values by name into parameters and buffers. Everything is checked before anything is written.
    /// Floating values are converted to the parameter's dtype. A missing `num_batches_tracked` counts as 0,
    /// since old files lack it.
    /// \param strict names that only one side has are errors too; otherwise they are left alone.
    /// \throws Error, one line listing the missing, unexpected, wrong-shape and wrong-dtype names.
    void load_state_dict(const StateDict& dict, bool strict = true);

  protected:
    /// Adds a trainable parameter. \param name unique within the module, not empty, without dots.
    /// \return the parameter's handle. \throws ValueError for the name, DTypeError for an integer tensor.
    Tensor register_parameter(const std::string& name, Tensor value);
    /// Adds a buffer. \param required false when `load_state_dict` takes zeros where a file lacks it.
    Tensor register_buffer(const std::string& name, Tensor value, bool required = true);
    /// Adds a child. \return the child. \throws ValueError for the name, for null, or when the child contains
    /// this module.
    template <class M>
    std::shared_ptr<M> register_module(const std::string& name, std::shared_ptr<M> child) {
        add_child(name, child);
        return child;
    }

    /// Runs `body` as one call of this module: errors get the path, observers see `x` and the result. For
    /// layers with entry points beside `forward`.
    template <class Body>
    Tensor traced(const Tensor& x, Body&& body) {
        try {
            Tensor output = body();
            observe(x, output);
            return output;
        } catch (const Error&) {
            rethrow_with_path();
        }
    }

  private:
    struct Buffer {
        std::string name;
        Tensor tensor;
        bool required = true;
    };
    struct Child {
        std::string name;
        std::shared_ptr<Module> module;
    };

    void add_child(const std::string& name, std::shared_ptr<Module> child);
    void check_name(const std::string& name) const;
    void set_path(const std::string& path);
    void observe(const Tensor& x, const Tensor& output);
    [[noreturn]] void rethrow_with_path() const;
    template <class Visit>
    void walk(const std::string& prefix, const Visit& visit) const;

    std::string path_;
    bool training_ = true;
    std::vector<NamedTensor> parameters_;
    std::vector<Buffer> buffers_;
    std::vector<Child> children_;
};

}  // namespace fulcrum::nn
