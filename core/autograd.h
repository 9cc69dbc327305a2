#pragma once

/// \file
/// The tape: nodes recorded by ops, walked backwards by `Tensor::backward`.
///
/// Gradients are of first order. An op computes its result without recording anything, then calls `record`
/// with its inputs, the tensors its backward needs, and a function that turns the output's gradient into the
/// inputs' gradients.

#include "core/tensor.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace fulcrum::autograd {

class Node;

/// True while ops are recorded on this thread (the default).
bool is_recording();

/// Switches recording off for its lifetime.
class NoGradGuard {
  public:
    NoGradGuard();
    ~NoGradGuard();
    NoGradGuard(const NoGradGuard&) = delete;
    NoGradGuard& operator=(const NoGradGuard&) = delete;

  private:
    bool previous_;
};

/// While on, every op's result and every gradient is checked for NaN and infinity, and the first offender is
/// reported as an AutogradError that names the forward op. Slow; a tool for finding the fault.
class AnomalyGuard {
  public:
    explicit AnomalyGuard(bool enabled = true);
    ~AnomalyGuard();
    AnomalyGuard(const AnomalyGuard&) = delete;
    AnomalyGuard& operator=(const AnomalyGuard&) = delete;

  private:
    bool previous_;
};

/// What an op's backward function sees: the gradient that arrived, its saved tensors, and places for the
/// results.
class BackwardContext {
  public:
    /// Gradient with respect to the op's output; same shape and dtype as the output, any dense layout.
    const Tensor& grad() const { return grad_; }
    /// Saved tensor `i`, in the order given to `record`. \throws AutogradError when it was modified in place
    /// since.
    const Tensor& saved(std::size_t i) const;
    /// True when the gradient of input `i` is wanted.
    bool needs(std::size_t i) const;
    /// Uninitialised memory for input `i`'s gradient, like `like` in shape, strides and dtype; the
    /// parameter's own gradient slot when there is one that is free and fits, so that the kernel writes where
    /// the optimiser reads.
    Tensor grad_buffer(std::size_t i, const Tensor& like);
    /// Delivers the gradient of input `i`: same shape as the input.
    void set_grad(std::size_t i, Tensor gradient);

  private:
    friend class Node;
    friend class Engine;
    BackwardContext(Node& node, Tensor grad);

    Node& node_;
    Tensor grad_;
    std::vector<Tensor> results_;
};

/// Computes the inputs' gradients from the output's.
using BackwardFunction = std::function<void(BackwardContext&)>;

/// Ends an op. In anomaly mode checks `output`; when recording and some input requires a gradient, makes
/// `output` a non-leaf whose backward is `backward`. \param op the op's name, a literal. \param output the
/// result, freshly made (or a view), not yet on the tape. \param inputs in the order that `BackwardContext`
/// indexes them; undefined tensors are allowed and never need gradients. \param saved the tensors that
/// `backward` reads; kept detached until the node is walked. \return `output`.
Tensor record(const char* op, Tensor output, std::initializer_list<Tensor> inputs, std::vector<Tensor> saved,
              BackwardFunction backward);

/// True when recording and one of `inputs` requires a gradient: lets an op skip work that only its backward
/// needs.
bool should_record(std::initializer_list<Tensor> inputs);

/// \throws AutogradError when `tensor` is a variable and recording is on; `op` is the in-place function's
/// name.
void check_in_place(const Tensor& tensor, const char* op);

/// A recorded op, or the accumulator of a leaf.
class Node {
  public:
    Node(const char* op, std::size_t inputs);
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    const char* op() const { return op_; }

  private:
    friend class Engine;
    friend class BackwardContext;
    friend Tensor record(const char*, Tensor, std::initializer_list<Tensor>, std::vector<Tensor>,
                         BackwardFunction);

    struct Saved {
        Tensor tensor;
        std::uint64_t version = 0;
    };
    /// Where an input's gradient goes: the node that produced it, or a leaf.
    struct Edge {
        std::shared_ptr<Node> node;
        Tensor leaf;
    };

    const char* op_;
    std::uint64_t sequence_;
    std::vector<Edge> edges_;
    std::vector<Saved> saved_;
    BackwardFunction backward_;
    Shape output_shape_;
    bool released_ = false;
};

/// Autograd state of a tensor; for core.
struct Meta {
    bool requires_grad = false;
    std::shared_ptr<Node> node;  ///< producer, null for a leaf
    Tensor grad;                 ///< accumulated gradient of a leaf
    Tensor slot;                 ///< fixed place for `grad`, may be undefined
    bool slot_claimed = false;   ///< an op of the running backward pass writes into `slot`
};

/// Walks the graph from `root`. Used by `Tensor::backward`.
void backward(const Tensor& root, const Tensor& gradient, bool retain_graph);

}  // namespace fulcrum::autograd

namespace fulcrum {
using autograd::AnomalyGuard;
using autograd::NoGradGuard;
}  // namespace fulcrum
