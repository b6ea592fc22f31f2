// The graph: nodes with edges to the producers of their inputs, and their saved tensors.
//
// Nodes are destroyed one after the other through a thread-local list, so a graph of millions of nodes needs no deep
// stack. `add_to` lets the gradient of a slice go directly into the sum for the whole tensor: n rows cost n rows,
// not n tensors.
#pragma once

#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/atomic.hpp"
#include "mode.hpp"
#include "../backends/stream.hpp"
#include "../tensor/call.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/free_list.hpp"
#include "../tensor/index.hpp"

namespace weft {

struct Node;
struct NodeHooks;
class GraphRun;

namespace detail {
struct SavedHooks;
/// Not null inside SavedTensorHooks: saved tensors are packed (saved_hooks.hpp).
extern WEFT_API constinit thread_local const SavedHooks* saved_hooks;
WEFT_API void destroy_node(Node* node);
/// If not null, called with every tensor in a copied Saved. Tools list the saved tensors of a backward by copying it,
/// because the members of a lambda cannot be reached otherwise.
using SavedVisitor = Callback<void(const Tensor&)>;
extern WEFT_API constinit thread_local const SavedVisitor* saved_visitor;
/// Calls `visit` with each tensor that a node keeps for its backward; with none once they are freed.
WEFT_API void visit_saved(const Node& node, const SavedVisitor& visit);
/// Ends the use of the node's saved tensors. They are freed by the last run that shares the node.
WEFT_API void close_saved(Node& node);
/// Frees the saved tensors of a closed node, once.
void free_saved(Node& node);
}  // namespace detail

/// Where a gradient flows on to: an output of another node. Counted; null where no gradient is wanted.
class Edge {
 public:
  Edge() = default;
  inline Edge(Node* node, uint16_t output);
  Edge(Edge&& other) noexcept : node_(std::exchange(other.node_, nullptr)), output_(other.output_) {}
  Edge& operator=(Edge&& other) noexcept {
    std::swap(node_, other.node_);
    std::swap(output_, other.output_);
    return *this;
  }
  inline ~Edge();

  Node* node() const { return node_; }
  uint16_t output() const { return output_; }
  explicit operator bool() const { return node_ != nullptr; }
  Node* take() { return std::exchange(node_, nullptr); }
  /// Sets an empty edge.
  inline void set(Node* node, uint16_t output);

 private:
  Node* node_ = nullptr;
  uint16_t output_ = 0;
};

/// One recorded op. Gradients of its outputs come in, gradients of its inputs go out along the edges.
struct Node {
  struct Functions {
    /// incoming[output_count] may be moved from; outgoing[edge_count] is undefined where nothing flows.
    void (*run)(Node& self, Tensor* incoming, Tensor* outgoing);
    /// Drops the saved tensors; run must not be called again. Called through detail::close_saved.
    void (*release_saved)(Node& self);
    void (*destroy)(Node* self);
    /// Copies the saved tensors and drops the copy, for detail::visit_saved. Null if they cannot be copied.
    void (*copy_saved)(const Node& self) = nullptr;
    /// Adds the gradient of edge 0 to `sum`, which is contiguous and exclusively owned. For nodes that select a region
    /// of a tensor and have a mostly zero gradient; null for others.
    void (*add_to)(Node& self, const Tensor& sum, Tensor&& gradient) = nullptr;
  };

  Node(const Functions* functions_, const char* op_, Location where_)
      : functions(functions_), op(op_), where(where_), streams(detail::current_streams) {}

  RefCount refs;
  /// max over the inputs + 1: a node always runs before those it depends on.
  uint32_t order = 0;
  const Functions* functions;
  const char* op;
  Location where;
  Edge* edges = nullptr;
  uint16_t edge_count = 0;
  uint16_t output_count = 1;
  bool accumulates = false;
  bool started = false;
  /// The streams on which the op ran, and its backward will.
  uint16_t streams;

  // The run that holds this node, and its state in that run. A second run that meets it keeps its state elsewhere and
  // counts as a sharer.
  int32_t pending = 0;
  /// State of the saved tensors.
  enum : uint32_t { closed = 1, freed = 2, sharer = 4 };
  Atomic<uint32_t> saved_state{0};
  union {
    Atomic<GraphRun*> run{nullptr};
    /// For a dead node, which belongs to no run: the next one to be destroyed.
    Node* next_dead;
  };
  Tensor gradient;
  /// Gradients of outputs 1, 2, …; null for the usual single output.
  Tensor* more_gradients = nullptr;

  /// Null until the first hook.
  Atomic<NodeHooks*> hooks{nullptr};

  /// The op and place that errors and records name while the node runs.
  CallPlace place() const { return {op, where}; }
  bool wants(int edge) const { return edges[edge].node() != nullptr; }
  /// Its saved tensors were freed, or are about to be.
  bool released() const { return (saved_state.load(MemoryOrder::acquire) & closed) != 0; }
  Tensor& slot(int output) { return output == 0 ? gradient : more_gradients[output - 1]; }
};

/// Gives up one reference; the last one destroys the node.
inline void release(Node* node) {
  if (node->refs.decrement()) detail::destroy_node(node);
}

/// Owns a reference until it is handed on.
class NodeHandle {
 public:
  explicit NodeHandle(Node* node) : node_(node) {}
  ~NodeHandle() {
    if (node_ != nullptr) release(node_);
  }
  NodeHandle(const NodeHandle&) = delete;
  Node* get() const { return node_; }
  Node* take() { return std::exchange(node_, nullptr); }

 private:
  Node* node_;
};

inline Edge::Edge(Node* node, uint16_t output) : node_(node), output_(output) {
  if (node_ != nullptr) node_->refs.increment();
}
inline void Edge::set(Node* node, uint16_t output) {
  node->refs.increment();
  node_ = node;
  output_ = output;
}
inline Edge::~Edge() {
  if (node_ != nullptr) release(node_);
}

/// A tensor kept for backward with the version it had. An op's own output is kept by SavedOutput. Under
/// SavedTensorHooks it holds a placeholder with a version that never matches, so that `get` finds the packed value.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& tensor) : tensor_(tensor), version_(tensor.version()) { pack_if_hooked(); }
  explicit Saved(Tensor&& tensor) : tensor_(std::move(tensor)) {
    version_ = tensor_.version();
    pack_if_hooked();
  }
  Saved(const Saved& other) : tensor_(other.tensor_), version_(other.version_) {
    if (WEFT_UNLIKELY(detail::saved_visitor != nullptr) && defined()) (*detail::saved_visitor)(tensor_);
  }
  Saved(Saved&&) noexcept = default;
  Saved& operator=(const Saved&) = default;
  Saved& operator=(Saved&&) noexcept = default;

  bool defined() const { return tensor_.defined(); }
  void renew() { version_ = tensor_.version(); }
  /// AutogradError if the storage was written since; it names this op, the writer and the remedy. A packed tensor stays
  /// unpacked until the node has run.
  const Tensor& get(const Node& node) const {
    if (WEFT_UNLIKELY(tensor_.version() != version_)) return unpack_or_raise(node);
    return tensor_;
  }

 private:
  void pack_if_hooked() {
    if (WEFT_UNLIKELY(detail::saved_hooks != nullptr)) pack();
  }
  WEFT_API void pack();
  WEFT_API const Tensor& unpack_or_raise(const Node& node) const;
  [[noreturn]] static void raise_modified(const Node& node, const Tensor& tensor, uint32_t saved_version);

  Tensor tensor_;
  uint32_t version_ = 0;
};

/// The op's own output, held without its node to avoid a cycle. `get` connects it to the node again when the backward
/// pass itself is recorded.
class SavedOutput {
 public:
  SavedOutput() = default;
  explicit SavedOutput(const Tensor& output)
      : saved_(Tensor::adopt(detail::new_alias(output.impl(), output.raw_view().layout, output.data_ptr()))) {}

  bool defined() const { return saved_.defined(); }
  /// Takes the present version as the saved one, after an intended write.
  void renew() { saved_.renew(); }
  WEFT_API Tensor get(Node& node, int output = 0) const;

 private:
  Saved saved_;
};

namespace detail {

template <class F, int edge_capacity>
struct OpNode : Node {
  template <class Make>
  explicit OpNode(Make& make) : Node(&table, current_call.op, current_call.where), backward(make()) {
    edges = inline_edges;
    edge_count = edge_capacity;
  }
  ~OpNode() {}

  static void run(Node& self, Tensor* incoming, Tensor* outgoing) {
    F& f = static_cast<OpNode&>(self).backward;
    const CallScope scope(self.place());
    if constexpr (std::is_invocable_r_v<Tensor, F&, Tensor&&>) {
      outgoing[0] = f(std::move(incoming[0]));
    } else if constexpr (std::is_invocable_r_v<Tensor, F&, Node&, Tensor&&>) {
      outgoing[0] = f(self, std::move(incoming[0]));
    } else {
      f(self, incoming, outgoing);
    }
  }
  static void release_saved(Node& self) { static_cast<OpNode&>(self).backward.~F(); }
  static void destroy(Node* self) {
    auto* node = static_cast<OpNode*>(self);
    if ((node->saved_state.load(MemoryOrder::acquire) & freed) == 0) node->backward.~F();
    node->~OpNode();
    free_block(node, sizeof(OpNode));
  }
  static void copy_saved(const Node& self) {
    if constexpr (std::is_copy_constructible_v<F>) [[maybe_unused]]
      const F copy(static_cast<const OpNode&>(self).backward);
  }
  static constexpr bool adds = requires(F & f, Node& self, const Tensor& sum, Tensor&& g) {
    f.add_to(self, sum, std::move(g));
  };
  static void add_to(Node& self, const Tensor& sum, Tensor&& gradient) {
    const CallScope scope(self.place());
    if constexpr (adds) static_cast<OpNode&>(self).backward.add_to(self, sum, std::move(gradient));
  }
  static constexpr Functions table = {run, release_saved, destroy, copy_saved, adds ? add_to : nullptr};

  Edge inline_edges[edge_capacity];
  union {
    F backward;
  };
};

}  // namespace detail

/// Where the gradient of `impl` flows to; null where it needs none. Refreshes views.
WEFT_API Edge gradient_edge(TensorImpl* impl);
/// For views: re-derives the node from the base when the storage was written since.
WEFT_API void refresh_view(TensorImpl* view);

/// Whether a gradient flows to this tensor.
inline bool needs_gradient(TensorImpl* impl) {
  if (WEFT_UNLIKELY(impl->base != nullptr) &&
      impl->node_version.load(MemoryOrder::acquire) != impl->storage->version.load(MemoryOrder::relaxed)) {
    refresh_view(impl);
  }
  return impl->requires_grad;
}
/// Whether ops of this thread are recorded.
inline bool recording() { return detail::current_mode.enabled; }

/// A node of the running op with `edge_count` inputs. Its backward is the result of `make_backward`, constructed in
/// place: Tensor(Tensor&& g) or Tensor(Node&, Tensor&& g) for a single input, else void(Node&, Tensor* incoming,
/// Tensor* outgoing). It runs under the op's name and place. One reference belongs to the caller.
template <int edge_count, class Make>
Node* make_node_with(Make&& make_backward) {
  using N = detail::OpNode<std::invoke_result_t<Make&>, edge_count>;
  static_assert(sizeof(N) <= detail::block_granule * detail::block_classes);
  void* block = detail::allocate_block(sizeof(N));
  try {
    return new (block) N(make_backward);
  } catch (...) {  // saving may run the user's hook
    detail::free_block(block, sizeof(N));
    throw;
  }
}
template <int edge_count, class F>
Node* make_node(F backward) {
  return make_node_with<edge_count>([&] { return std::move(backward); });
}

/// Sets edge i to the node of `input`, if that needs a gradient.
inline void set_edge(Node* node, int i, TensorImpl* input) {
  if (!needs_gradient(input)) return;
  node->edges[i].set(input->node, input->output_number);
  if (input->node->order >= node->order) node->order = input->node->order + 1;
}

/// Makes `output` the result of `node`, taking over the caller's reference.
inline void set_history(TensorImpl* output, Node* node, uint16_t output_number = 0) {
  output->node = node;
  output->output_number = output_number;
  output->requires_grad = true;
  output->node_version.store(output->storage->version.load(MemoryOrder::relaxed), MemoryOrder::relaxed);
}

/// The tensor's new value comes from `node`, which is taken over. Hooks stay with the old one; a retained gradient is
/// the latest value's, for which make_room_for_retained_gradient was called.
void replace_producer(TensorImpl* impl, Node* node);
/// AutogradError where `target` may not be written now: a leaf that requires a gradient, or a view of one.
WEFT_API void check_inplace(const Tensor& target);
/// The change that an in-place write makes to the graph, prepared before the elements change so that nothing can fail
/// afterwards: `node` (taken over) becomes the producer of `target`'s new value. For a view, the base gets a node that
/// replaces the region, so that every other view sees the write.
class Rebase {
 public:
  WEFT_API Rebase(const Tensor& target, Node* node);
  WEFT_API ~Rebase();
  Rebase(const Rebase&) = delete;
  /// To be called once the elements are written and the version is raised.
  WEFT_API void commit() noexcept;

 private:
  TensorImpl* target_;
  /// The tensor that gets a new producer: the target, or its base.
  TensorImpl* owner_;
  Node* producer_;
};

/// The usual way to record: makes a node of the running op with `make_backward`'s result as the producer of `output`
/// from one or more `inputs`.
template <class Make, class... Inputs>
void record_with(const Tensor& output, Make&& make_backward, const Inputs&... inputs) {
  NodeHandle node(make_node_with<sizeof...(Inputs)>(make_backward));
  int i = 0;
  ((inputs.defined() ? set_edge(node.get(), i++, inputs.impl()) : void(i++)), ...);
  set_history(output.impl(), node.take());
}
template <class F, class... Inputs>
void record(const Tensor& output, F backward, const Inputs&... inputs) {
  record_with(
      output, [&] { return std::move(backward); }, inputs...);
}

/// True when an op on these inputs must be recorded.
template <class... Inputs>
inline bool should_record(const Inputs&... inputs) {
  return recording() && ((inputs.defined() && needs_gradient(inputs.impl())) || ...);
}

/// A node with any number of edges and outputs, for ops over lists and for user functions.
struct GeneralNode : Node {
  using Backward = Callback<void(Node&, Tensor*, Tensor*)>;
  WEFT_API GeneralNode(int edge_count, int output_count, Backward backward);
  std::vector<Edge> edge_list;
  /// For functions without a record: the string that `op` points to.
  std::string name;
  std::vector<Tensor> extra;
  Backward backward;
};
/// AutogradError for more than 65535 inputs or outputs.
WEFT_API GeneralNode* make_general_node(std::span<const Tensor> inputs, int output_count,
                                        GeneralNode::Backward backward);

}  // namespace weft
