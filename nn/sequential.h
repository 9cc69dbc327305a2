#pragma once

/// \file
/// Modules run one after the other.

#include "nn/module.h"

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace fulcrum::nn {

/// Runs its children in order. They are named `0`, `1`, ... unless a name is given.
class Sequential : public Module {
  public:
    Sequential() = default;
    /// \throws ValueError when one is null.
    Sequential(std::initializer_list<std::shared_ptr<Module>> modules);

    /// Appends a module named after its place. \throws ValueError when null.
    void push_back(std::shared_ptr<Module> module);
    /// Appends a module under a name. \throws ValueError for null or a bad or taken name.
    void push_back(const std::string& name, std::shared_ptr<Module> module);

    /// The input itself when there are no children.
    Tensor forward(const Tensor& x) override;

    std::size_t size() const { return modules_.size(); }
    /// \throws ValueError when `index` is out of range.
    const std::shared_ptr<Module>& at(std::size_t index) const;

  private:
    std::vector<std::shared_ptr<Module>> modules_;
};

}  // namespace fulcrum::nn
