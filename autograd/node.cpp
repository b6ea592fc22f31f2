#include "node.hpp"

#include <limits>
#include <mutex>

#include <fmt/format.h>

#include "accumulation.hpp"
#include "from_ops.hpp"
#include "hooks.hpp"
#include "program_watch.hpp"

namespace weft {

namespace detail {

constinit thread_local const SavedVisitor* saved_visitor = nullptr;

namespace {

// Nodes are destroyed one after the other, never inside one another: chains may be millions long.
struct Graveyard {
  Node* first = nullptr;
  bool digging = false;
};
constinit thread_local Graveyard graveyard = {};

[[gnu::noinline]] void bury_hooks(Node* node) { delete node->hooks.load(MemoryOrder::acquire); }

void bury(Node* node) {
  if (WEFT_UNLIKELY(node->hooks.load(MemoryOrder::acquire) != nullptr)) bury_hooks(node);
  node->functions->destroy(node);
}

}  // namespace

void destroy_node(Node* node) {
  Graveyard& yard = graveyard;
  node->next_dead = yard.first;
  yard.first = node;
  if (yard.digging) return;
  yard.digging = true;
  while (yard.first != nullptr) {
    Node* dead = yard.first;
    yard.first = dead->next_dead;
    bury(dead);
  }
  yard.digging = false;
}

const char* producing_op(const TensorImpl* result) { return result->node->op; }

void release_node(TensorImpl* impl) {
  if (impl->accumulates) {
    auto* node = static_cast<AccumulationNode*>(impl->node);
    if (WEFT_UNLIKELY(node->hooks.load(MemoryOrder::acquire) != nullptr)) unlink_leaf(*node);
    Tensor unreachable;  // a recorded gradient leads back to this node: kept, both would live for ever
    std::unique_ptr<AccumulationNode::Rows> rows;
    AccumulationNode::Lock lock(*node);
    node->leaf = nullptr;
    unreachable = std::move(node->grad);
    rows = std::move(node->rows);
  } else if (WEFT_UNLIKELY(impl->node->hooks.load(MemoryOrder::acquire) != nullptr)) {
    forget_retained_gradient(*impl->node, impl);
  }
  release(impl->node);
}

void close_saved(Node& node) {
  uint32_t untouched = 0;
  if (WEFT_SINGLE_THREADED) {
    untouched = node.saved_state.load(MemoryOrder::relaxed);
    node.saved_state.store(untouched == 0 ? Node::closed | Node::freed : untouched | Node::closed,
                           MemoryOrder::relaxed);
    if (untouched == 0) node.functions->release_saved(node);
  } else if (node.saved_state.compare_exchange_strong(untouched, Node::closed | Node::freed, MemoryOrder::acq_rel)) {
    node.functions->release_saved(node);
  } else {
    node.saved_state.fetch_or(Node::closed, MemoryOrder::acq_rel);
  }
}

void free_saved(Node& node) {
  uint32_t kept = Node::closed;
  if (node.saved_state.compare_exchange_strong(kept, Node::closed | Node::freed, MemoryOrder::acq_rel)) {
    node.functions->release_saved(node);
  }
}

}  // namespace detail

static constinit thread_local bool recomputing_now = false;
bool recomputing() { return recomputing_now; }
detail::RecomputingScope::RecomputingScope() : outer_(std::exchange(recomputing_now, true)) {}
detail::RecomputingScope::~RecomputingScope() { recomputing_now = outer_; }

void set_grad_mode(GradMode mode) {
  detail::current_mode = mode;
  if (WEFT_UNLIKELY(detail::program_watch != nullptr) && detail::current_call.op == nullptr) {
    detail::program_watch->mode_set(mode);
  }
}

void Saved::raise_modified(const Node& node, const Tensor& tensor, uint32_t saved_version) {
  const Storage& storage = *tensor.impl()->storage;
  raise<AutogradError>(
      {.op = node.op,
       .problem = fmt::format("a tensor saved for backward was modified by an in-place operation: {} of shape {} is at "
                              "version {}, saved at version {}",
                              name(tensor.dtype()), tensor.shape().text(), tensor.version(), saved_version),
       .details = fmt::format("written by {} at {}", storage.last_writer != nullptr ? storage.last_writer : "?",
                              storage.last_write.text()),
       .remedy = "use the out-of-place form there, or clone() before the write",
       .event = "saved"},
      node.where);
}

Tensor SavedOutput::get(Node& node, int output) const {
  const Tensor& kept = saved_.get(node);
  if (!recording()) return kept;
  Tensor tied = Tensor::adopt(detail::new_alias(kept.impl(), kept.raw_view().layout, kept.data_ptr()));
  node.refs.increment();
  set_history(tied.impl(), &node, static_cast<uint16_t>(output));
  return tied;
}

Edge gradient_edge(TensorImpl* impl) {
  if (!needs_gradient(impl)) return {};
  return Edge(impl->node, impl->output_number);
}

// Other memory was put under its base since.
static bool is_left_behind(const TensorImpl* view) { return view->storage != view->base->storage; }

// The version lag from which a written view is refreshed.
constexpr uint32_t was_written = uint32_t{1} << 31;

// Where only its base was written, a view's hooks go with it; where it was written itself, they stay with the old
// value.
static void keep_hooks(TensorImpl* view, Node& fresh, uint32_t version) {
  Node& old = *view->node;
  if (WEFT_LIKELY(old.hooks.load(MemoryOrder::acquire) == nullptr)) return;
  const uint32_t writes = version - view->node_version.load(MemoryOrder::relaxed);
  if (writes < was_written) share_hooks(old, view->output_number, fresh);
  make_room_for_retained_gradient(old, fresh);
  move_retained_gradient(old, view->output_number, fresh, 0);
}

void refresh_view(TensorImpl* view) {
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  const uint32_t version = view->storage->version.load(MemoryOrder::relaxed);
  if (view->node_version.load(MemoryOrder::relaxed) == version) return;
  if (is_left_behind(view)) {  // its base says nothing about this memory any more
    view->node_version.store(version, MemoryOrder::release);
    return;
  }
  NodeHandle fresh(view->base->requires_grad ? detail::make_view_node(view->base, view) : nullptr);
  if (fresh.get() != nullptr && view->node != nullptr) keep_hooks(view, *fresh.get(), version);
  view->requires_grad = fresh.get() != nullptr;
  if (view->requires_grad) view->output_number = 0;
  Node* old = std::exchange(view->node, fresh.take());
  view->node_version.store(version, MemoryOrder::release);
  lock.unlock();  // with a node die functions of the user
  if (old != nullptr) release(old);
}

void check_inplace(const Tensor& target) {
  if (!recording()) return;
  TensorImpl* impl = target.impl();
  const TensorImpl* owner = impl->base != nullptr ? impl->base : impl;
  if (!owner->accumulates && !impl->accumulates) return;
  raise<AutogradError>(
      {.problem = fmt::format("in-place write to {} that requires a gradient",
                              impl->base != nullptr && !impl->accumulates ? "a view of a leaf" : "a leaf"),
       .details = fmt::format("shape {}, {}", target.shape().text(), name(target.dtype())),
       .remedy = "write under NoGradGuard, or use the out-of-place form"});
}

void replace_producer(TensorImpl* impl, Node* node) {
  Node* old = std::exchange(impl->node, nullptr);
  const uint16_t old_output = impl->output_number;
  set_history(impl, node);
  if (old == nullptr) return;
  if (WEFT_UNLIKELY(old->hooks.load(MemoryOrder::acquire) != nullptr)) {
    move_retained_gradient(*old, old_output, *node, impl->output_number);
  }
  release(old);
}

Rebase::Rebase(const Tensor& target, Node* node) : target_(target.impl()), owner_(target_), producer_(nullptr) {
  NodeHandle value(node);
  const bool through_view = target_->base != nullptr && !is_left_behind(target_);
  if (through_view) owner_ = target_->base;
  NodeHandle producer(through_view ? detail::make_region_node(owner_, target_, node) : value.take());
  const Node* old = owner_->node;
  if (WEFT_UNLIKELY(old != nullptr && old->hooks.load(MemoryOrder::acquire) != nullptr)) {
    make_room_for_retained_gradient(*old, *producer.get());
  }
  producer_ = producer.take();
}

Rebase::~Rebase() {
  if (producer_ != nullptr) release(producer_);
}

void Rebase::commit() noexcept {
  replace_producer(owner_, std::exchange(producer_, nullptr));
  if (owner_ == target_) return;
  target_->node_version.store(owner_->node_version.load(MemoryOrder::relaxed) - was_written, MemoryOrder::relaxed);
}

GeneralNode::GeneralNode(int edge_count_, int output_count_, Backward backward_)
    : Node(nullptr, detail::current_call.op, detail::current_call.where),
      edge_list(edge_count_),
      extra(output_count_ - 1),
      backward(std::move(backward_)) {
  static constexpr Functions table = {
      [](Node& self, Tensor* in, Tensor* out) {
        const CallScope scope(self.place());
        static_cast<GeneralNode&>(self).backward(self, in, out);
      },
      [](Node& self) { static_cast<GeneralNode&>(self).backward = nullptr; },
      [](Node* self) { delete static_cast<GeneralNode*>(self); },
      [](const Node& self) { const Backward copy = static_cast<const GeneralNode&>(self).backward; }};
  functions = &table;
  edges = edge_list.data();
  edge_count = static_cast<uint16_t>(edge_count_);
  output_count = static_cast<uint16_t>(output_count_);
  more_gradients = extra.data();
}

GeneralNode* make_general_node(std::span<const Tensor> inputs, int output_count, GeneralNode::Backward backward) {
  constexpr size_t limit = std::numeric_limits<uint16_t>::max();
  if (WEFT_UNLIKELY(inputs.size() > limit || static_cast<size_t>(output_count) > limit)) {
    raise<AutogradError>({.problem = fmt::format("{} inputs and {} results are too many to be recorded, at most {}",
                                                 inputs.size(), output_count, limit),
                          .remedy = "call it in parts, or under NoGradGuard"});
  }
  auto* node = new GeneralNode(static_cast<int>(inputs.size()), output_count, std::move(backward));
  NodeHandle handle(node);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) set_edge(node, static_cast<int>(i), inputs[i].impl());
  }
  handle.take();
  return node;
}

void detail::visit_saved(const Node& node, const SavedVisitor& visit) {
  if (node.released() || node.functions->copy_saved == nullptr) return;
  struct Scope {
    const SavedVisitor* outer = saved_visitor;
    ~Scope() { saved_visitor = outer; }
  } scope;
  saved_visitor = &visit;
  node.functions->copy_saved(node);
}

}  // namespace weft
