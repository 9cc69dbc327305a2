#include "core/autograd.h"

#include "core/backend.h"
#include "core/ops/binary.h"
#include "core/ops/copy.h"
#include "core/tensor_internal.h"

#include <algorithm>
#include <atomic>
#include <queue>
#include <unordered_map>
#include <utility>

namespace fulcrum::autograd {

namespace {

thread_local bool recording = true;
thread_local bool anomaly = false;
// Results of ops that a backward function calls are reported as that op's gradient, not by their own names.
thread_local bool walking = false;
std::atomic<std::uint64_t> next_sequence{0};

bool all_finite(const Tensor& tensor) {
    if (!is_floating(tensor.dtype()) || tensor.numel() == 0) return true;
    const NoGradGuard no_grad;
    const Tensor dense = tensor.is_dense() ? tensor : tensor.detach().contiguous();
    return kernels<CopyKernels>(dense.device()).all_finite(dense);
}

/// Equal shapes; the elements are the same places in the same order.
bool is_same_place(const Tensor& a, const Tensor& b) {
    return a.storage() == b.storage() && a.storage_offset() == b.storage_offset() &&
           a.strides() == b.strides();
}

}  // namespace

bool is_recording() {
    return recording;
}

NoGradGuard::NoGradGuard() : previous_(std::exchange(recording, false)) {}
NoGradGuard::~NoGradGuard() {
    recording = previous_;
}

AnomalyGuard::AnomalyGuard(bool enabled) : previous_(std::exchange(anomaly, enabled)) {}
AnomalyGuard::~AnomalyGuard() {
    anomaly = previous_;
}

// --- Recording
// ----------------------------------------------------------------------------------------------------------

bool should_record(std::initializer_list<Tensor> inputs) {
    return recording && std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) {
               return input.defined() && input.requires_grad();
           });
}

void check_in_place(const Tensor& tensor, const char* op) {
    if (recording && tensor.requires_grad()) {
        throw AutogradError(
            std::string(op) +
            ": a tensor that requires a gradient cannot be modified in place while ops are recorded; "
            "do it under a NoGradGuard or on detach()");
    }
}

Tensor record(const char* op, Tensor output, std::initializer_list<Tensor> inputs, std::vector<Tensor> saved,
              BackwardFunction backward) {
    // A view computes nothing, and the ops take views of results that they have yet to write.
    const bool is_view = std::any_of(inputs.begin(), inputs.end(), [&output](const Tensor& input) {
        return input.defined() && input.storage() == output.storage();
    });
    if (anomaly && !walking && !is_view && !all_finite(output)) {
        throw AutogradError(std::string(op) + ": the result of shape " + to_string(output.shape()) +
                            " holds NaN or infinity (found by anomaly detection)");
    }
    if (!should_record(inputs)) return output;
    auto node = std::make_shared<Node>(op, inputs.size());
    std::size_t i = 0;
    for (const Tensor& input : inputs) {
        if (input.defined() && input.requires_grad()) {
            const auto& producer = input.autograd_meta()->node;
            if (producer != nullptr) {
                node->edges_[i].node = producer;
            } else {
                node->edges_[i].leaf = input;
            }
        }
        ++i;
    }
    node->saved_.reserve(saved.size());
    for (const Tensor& tensor : saved) {
        // Detached, so that a node that keeps its own output does not keep itself alive.
        if (tensor.defined()) {
            node->saved_.push_back({tensor.detach(), tensor.storage()->version()});
        } else {
            node->saved_.push_back({});
        }
    }
    node->backward_ = std::move(backward);
    node->output_shape_ = output.shape();
    Meta& meta = *output.autograd_meta(true);
    meta.requires_grad = true;
    meta.node = std::move(node);
    return output;
}

Node::Node(const char* op, std::size_t inputs) : op_(op), sequence_(next_sequence++), edges_(inputs) {}

// A long chain of nodes is taken apart in a loop: destructors that call each other would exhaust the stack.
Node::~Node() {
    std::vector<std::shared_ptr<Node>> pending;
    const auto take = [&pending](std::vector<Edge>& edges) {
        for (Edge& edge : edges) {
            if (edge.node != nullptr) pending.push_back(std::move(edge.node));
        }
    };
    take(edges_);
    while (!pending.empty()) {
        const std::shared_ptr<Node> node = std::move(pending.back());
        pending.pop_back();
        if (node.use_count() == 1) take(node->edges_);
    }
}

// --- BackwardContext
// ------------------------------------------------------------------------------------------------------

BackwardContext::BackwardContext(Node& node, Tensor grad)
    : node_(node), grad_(std::move(grad)), results_(node.edges_.size()) {}

const Tensor& BackwardContext::saved(std::size_t i) const {
    const Node::Saved& saved = node_.saved_.at(i);
    if (saved.tensor.defined() && saved.tensor.storage()->version() != saved.version) {
        throw AutogradError(
            std::string(node_.op_) + ": a tensor of shape " + to_string(saved.tensor.shape()) +
            " that its gradient needs was modified in place after the forward pass; clone() it first or "
            "modify it after backward()");
    }
    return saved.tensor;
}

bool BackwardContext::needs(std::size_t i) const {
    const Node::Edge& edge = node_.edges_.at(i);
    return edge.node != nullptr || edge.leaf.defined();
}

Tensor BackwardContext::grad_buffer(std::size_t i, const Tensor& like) {
    const Node::Edge& edge = node_.edges_.at(i);
    if (edge.leaf.defined()) {
        Meta& meta = *edge.leaf.autograd_meta();
        const Tensor& slot = meta.slot;
        if (slot.defined() && !meta.grad.defined() && !meta.slot_claimed && slot.shape() == like.shape() &&
            slot.strides() == like.strides() && slot.dtype() == like.dtype() &&
            slot.device() == like.device()) {
            meta.slot_claimed = true;
            return slot;
        }
    }
    return empty_like(like);
}

void BackwardContext::set_grad(std::size_t i, Tensor gradient) {
    results_.at(i) = std::move(gradient);
}

// --- Walking the graph
// ------------------------------------------------------------------------------------------------------

/// One backward pass: counts how many gradients each node waits for, then runs nodes in reverse order of
/// recording.
class Engine {
  public:
    explicit Engine(bool retain_graph) : retain_graph_(retain_graph) {}

    void run(const std::shared_ptr<Node>& root, Tensor gradient) {
        const WalkingGuard guard;
        count_dependencies(root);
        pending_[root.get()].gradient = std::move(gradient);
        ready_.push(root);
        while (!ready_.empty()) {
            const std::shared_ptr<Node> node = ready_.top();
            ready_.pop();
            run_node(node);
        }
    }

    static void accumulate_leaf(const Tensor& leaf, Tensor gradient, const char* op) {
        check_shape(gradient, leaf.shape(), op);
        Meta& meta = *leaf.autograd_meta();
        meta.slot_claimed = false;
        if (gradient.dtype() != leaf.dtype()) gradient = gradient.to(leaf.dtype());
        if (meta.grad.defined()) {
            meta.grad.add_(gradient);
        } else if (meta.slot.defined()) {
            if (!is_same_place(meta.slot, gradient)) meta.slot.copy_(gradient);
            meta.slot.bump_version();
            meta.grad = meta.slot;
        } else {
            meta.grad = is_exclusive(gradient) && gradient.strides() == leaf.strides()
                            ? std::move(gradient)
                            : copied_like(gradient, leaf);
        }
    }

  private:
    struct WalkingGuard {
        bool previous = std::exchange(walking, true);
        WalkingGuard() = default;
        ~WalkingGuard() { walking = previous; }
        WalkingGuard(const WalkingGuard&) = delete;
        WalkingGuard& operator=(const WalkingGuard&) = delete;
    };
    struct Pending {
        std::size_t waiting = 0;
        Tensor gradient;
    };
    struct EarlierFirst {
        bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
            return a->sequence_ < b->sequence_;
        }
    };

    // Nobody else can see these elements, so they may be kept or added to.
    static bool is_exclusive(const Tensor& tensor) {
        return tensor.impl_.use_count() == 1 && tensor.storage().use_count() == 1 && tensor.is_dense();
    }

    static Tensor copied_like(const Tensor& gradient, const Tensor& leaf) {
        Tensor result = empty_like(leaf);
        result.copy_(gradient);
        return result;
    }

    static void check_shape(const Tensor& gradient, const Shape& expected, const char* op) {
        if (gradient.shape() != expected) {
            throw AutogradError(std::string(op) + ": its backward gave a gradient of shape " +
                                to_string(gradient.shape()) + " for a tensor of shape " +
                                to_string(expected));
        }
    }

    void count_dependencies(const std::shared_ptr<Node>& root) {
        std::vector<Node*> stack{root.get()};
        pending_[root.get()];
        while (!stack.empty()) {
            Node* node = stack.back();
            stack.pop_back();
            if (node->released_) {
                throw AutogradError(
                    std::string(node->op_) +
                    ": its part of the graph was freed by an earlier backward(); pass retain_graph = true to "
                    "that call to walk it again");
            }
            for (const Node::Edge& edge : node->edges_) {
                if (edge.node == nullptr) continue;
                const auto [entry, fresh] = pending_.try_emplace(edge.node.get());
                ++entry->second.waiting;
                if (fresh) stack.push_back(edge.node.get());
            }
        }
    }

    void run_node(const std::shared_ptr<Node>& node) {
        Tensor gradient = std::move(pending_[node.get()].gradient);
        // A node none of whose outputs' consumers delivered a gradient contributes nothing.
        std::vector<Tensor> results(node->edges_.size());
        if (gradient.defined()) {
            BackwardContext context(*node, std::move(gradient));
            node->backward_(context);
            context.grad_ = {};
            results = std::move(context.results_);
        }
        for (std::size_t i = 0; i < results.size(); ++i) {
            const Node::Edge& edge = node->edges_[i];
            Tensor result = std::move(results[i]);
            if (result.defined() && anomaly && !all_finite(result)) {
                throw AutogradError(std::string(node->op_) + ": the gradient of its input " +
                                    std::to_string(i) +
                                    " holds NaN or infinity (found by anomaly detection)");
            }
            if (edge.leaf.defined() && result.defined()) {
                accumulate_leaf(edge.leaf, std::move(result), node->op_);
            } else if (edge.node != nullptr) {
                deliver(edge.node, std::move(result), node->op_);
            }
        }
        if (!retain_graph_) {
            node->saved_.clear();
            node->backward_ = nullptr;
            node->edges_.clear();
            node->released_ = true;
        }
    }

    void deliver(const std::shared_ptr<Node>& node, Tensor gradient, const char* op) {
        Pending& entry = pending_[node.get()];
        if (gradient.defined()) {
            check_shape(gradient, node->output_shape_, op);
            if (!entry.gradient.defined()) {
                entry.gradient = std::move(gradient);
            } else if (is_exclusive(entry.gradient)) {
                entry.gradient.add_(gradient);
            } else {
                entry.gradient = add(entry.gradient, gradient);
            }
        }
        if (--entry.waiting == 0) ready_.push(node);
    }

    bool retain_graph_;
    std::unordered_map<Node*, Pending> pending_;
    std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, EarlierFirst> ready_;
};

void backward(const Tensor& root, const Tensor& gradient, bool retain_graph) {
    if (!root.requires_grad()) {
        throw AutogradError(
            "backward: this tensor depends on nothing that requires a gradient; call set_requires_grad() on "
            "the variables before the forward pass");
    }
    Tensor start = gradient;
    if (!start.defined()) {
        if (root.numel() != 1) {
            throw AutogradError("backward: a tensor of shape " + to_string(root.shape()) +
                                " needs the gradient to start from; only a single element starts from 1");
        }
        const NoGradGuard no_grad;
        start = ones(root.shape(), {.dtype = root.dtype(), .device = root.device()});
    }
    if (start.shape() != root.shape()) {
        throw ShapeError("backward: gradient of shape " + to_string(start.shape()) +
                         " for a tensor of shape " + to_string(root.shape()));
    }
    if (start.device() != root.device()) {
        throw DeviceError("backward: gradient on " + to_string(start.device()) + " for a tensor on " +
                          to_string(root.device()));
    }
    const NoGradGuard no_grad;
    start = start.detach().to(root.dtype());
    // The caller's own tensor may be expanded, or be the very place that a gradient is about to be written
    // to.
    if (gradient.defined() && start.storage() == gradient.storage()) start = start.clone();
    if (root.is_leaf()) {
        Engine::accumulate_leaf(root, std::move(start), "backward");
        return;
    }
    Engine(retain_graph).run(root.autograd_meta()->node, std::move(start));
}

}  // namespace fulcrum::autograd

namespace fulcrum {

// --- Tensor's side of the tape
// ------------------------------------------------------------------------------------------------

autograd::Meta* Tensor::autograd_meta(bool create) const {
    checked();
    if (impl_->meta == nullptr && create) impl_->meta = std::make_unique<autograd::Meta>();
    return impl_->meta.get();
}

bool Tensor::requires_grad() const {
    const autograd::Meta* meta = autograd_meta();
    return meta != nullptr && meta->requires_grad;
}

bool Tensor::is_leaf() const {
    const autograd::Meta* meta = autograd_meta();
    return meta == nullptr || meta->node == nullptr;
}

Tensor& Tensor::set_requires_grad(bool value) {
    if (!is_leaf()) {
        throw AutogradError(
            "set_requires_grad: this tensor was computed by a recorded op; detach() it first");
    }
    if (value && !is_floating(dtype())) {
        throw DTypeError("set_requires_grad: only floating-point tensors have gradients, not " +
                         std::string(name_of(dtype())));
    }
    if (value || autograd_meta() != nullptr) autograd_meta(true)->requires_grad = value;
    return *this;
}

Tensor Tensor::grad() const {
    const autograd::Meta* meta = autograd_meta();
    return meta == nullptr ? Tensor() : meta->grad;
}

void Tensor::set_grad(const Tensor& gradient) const {
    if (gradient.defined() && gradient.shape() != shape()) {
        throw ShapeError("set_grad: gradient of shape " + to_string(gradient.shape()) +
                         " for a tensor of shape " + to_string(shape()));
    }
    if (gradient.defined() && gradient.dtype() != dtype()) {
        throw DTypeError("set_grad: gradient of type " + std::string(name_of(gradient.dtype())) +
                         " for a tensor of type " + std::string(name_of(dtype())) +
                         "; convert it with to(DType)");
    }
    if (gradient.defined() && gradient.device() != device()) {
        throw DeviceError("set_grad: gradient on " + to_string(gradient.device()) + " for a tensor on " +
                          to_string(device()) + "; move it with to(Device)");
    }
    if (gradient.defined() && !gradient.is_dense()) return set_grad(gradient.detach().clone());
    autograd::Meta& meta = *autograd_meta(true);
    if (gradient.defined() && meta.slot.defined()) {
        meta.slot.copy_(gradient);
        meta.grad = meta.slot;
    } else {
        meta.grad = gradient;
    }
}

void Tensor::zero_grad() const {
    if (autograd::Meta* meta = autograd_meta(); meta != nullptr) {
        meta->grad = {};
        meta->slot_claimed = false;
    }
}

void Tensor::set_grad_slot(const Tensor& slot) const {
    if (slot.defined() && (slot.shape() != shape() || slot.device() != device() || slot.dtype() != dtype())) {
        throw ShapeError("set_grad_slot: the slot must have the shape, type and device of its tensor, " +
                         to_string(shape()));
    }
    if (slot.defined() && !slot.is_dense()) {
        throw ShapeError("set_grad_slot: the slot has gaps or elements that share memory, strides " +
                         to_string(slot.strides()) + " for shape " + to_string(shape()));
    }
    autograd::Meta& meta = *autograd_meta(true);
    meta.slot = slot;
    meta.slot_claimed = false;
    if (slot.defined() && meta.grad.defined()) {
        const NoGradGuard no_grad;
        slot.copy_(meta.grad);
        meta.grad = slot;
    }
}

void Tensor::backward(bool retain_graph) const {
    autograd::backward(*this, {}, retain_graph);
}

void Tensor::backward(const Tensor& gradient, bool retain_graph) const {
    if (!gradient.defined()) throw ValueError("backward: the gradient to start from is undefined");
    autograd::backward(*this, gradient, retain_graph);
}

}  // namespace fulcrum
