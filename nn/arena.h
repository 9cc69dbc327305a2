#pragma once

/// \file
/// Flat arenas: all parameters of a model in one block, all gradients in another.
///
/// With them an optimiser step is one kernel call, a gradient norm one reduction, and an exchange between
/// machines one message.

#include "core/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fulcrum::nn {

/// Moves parameters into one block of memory per (dtype, device) and gives each a gradient slot at the same
/// place of a second block. Every parameter starts on a 64-byte boundary; the gaps hold zeros in both blocks
/// and belong to nobody, so a pass over a block may run through them. Parameters keep their handles, shapes,
/// order in memory and values; gradients that exist are moved too. The blocks live as long as a tensor shows
/// them, so a model may outlive its arena. Copies of an arena share the blocks.
class ParameterArena {
  public:
    /// One parameter's place.
    struct Entry {
        Tensor parameter;         ///< the model's handle
        Tensor gradient;          ///< its slot: same shape and strides
        std::size_t group = 0;    ///< which block
        std::int64_t offset = 0;  ///< in elements from the block's start
        std::int64_t length = 0;  ///< in elements
    };
    /// One (dtype, device).
    struct Group {
        Tensor values;                     ///< 1-D, the parameters
        Tensor gradients;                  ///< 1-D, same length
        std::vector<std::size_t> members;  ///< entries in order of their offsets
    };

    /// \param parameters leaves, each once. \throws ValueError for an undefined or repeated one, or a
    /// non-leaf.
    explicit ParameterArena(std::span<const Tensor> parameters);

    /// In the order of the constructor's argument.
    std::span<const Entry> entries() const { return entries_; }
    std::span<const Group> groups() const { return groups_; }
    /// True while entry `i`'s parameter still lies at its place (`Module::to` and other arenas move it away).
    bool holds(std::size_t i) const;

  private:
    std::vector<Entry> entries_;
    std::vector<Group> groups_;
};

}  // namespace fulcrum::nn
