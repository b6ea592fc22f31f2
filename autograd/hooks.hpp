// Hooks: functions that backward calls with gradients. docs/hooks.md has the rules on one page.
//
//   HookHandle h = y.register_hook([](const Tensor& g) { return g * 2; });    // replaces the gradient of y
//   y.register_hook([](const GradEvent& e) { print(e.op, e.location.text()); });
//   w.register_post_accumulate_grad_hook([](const Tensor& leaf) { send(leaf.grad()); });
//   h.remove();
//
// Every kind of hook is a function of a GradEvent, or of its gradient alone, in one kind of list with one kind of
// handle.
//
// A hook list is an immutable snapshot, replaced when a hook is added or removed. So a hook may be removed inside a
// hook or by another thread, and no lock is held while hooks run.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/atomic.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/configuration.hpp"
#include "../tensor/index.hpp"
#include "../tensor/shared.hpp"

namespace weft {

struct Node;

enum class GradPhase : uint8_t {
  gradient,       ///< the gradient of a tensor is complete, before its producer runs or the leaf takes it
  accumulated,    ///< a leaf's `.grad` holds this backward's sum
  node_before,    ///< a node is about to run
  node_after,     ///< a node has run
  module_before,  ///< the gradient of a module's output is complete
  module_after,   ///< the gradients of a module's inputs are complete
};

/// A hook's argument. It is valid while the hook runs; its tensors may be kept.
struct GradEvent {
  /// The gradient; for a node undefined, for a module that of the output (before) or of the first input (after).
  Tensor grad;
  /// The leaf itself, or the elements of a result outside the graph, so that a hook need not capture its own tensor. A
  /// later in-place write shows.
  Tensor tensor;
  /// The op that produced the tensor ("accumulate_grad" for a leaf), and where it was called.
  const char* op;
  const Node* node;
  Location location;
  GradPhase phase;
  /// For a node or module: the gradients of its outputs, and in the after phases of its inputs; undefined where none
  /// flows.
  std::span<const Tensor> incoming = {};
  std::span<const Tensor> outgoing = {};
};

namespace detail {

/// The result of a hook: one gradient, or one per gradient of the node or module.
struct HookResult {
  Tensor grad;
  std::vector<Tensor> grads;
};
using HookFunction = Callback<void(const GradEvent&, HookResult&)>;

struct Hook {
  HookFunction call;
  GradPhase phase;
  /// It takes a GradEvent, so `event.tensor` must be set; for a result, to `tensor`.
  bool wants_tensor = false;
  /// Which output of its node it belongs to.
  uint16_t output = 0;
  Tensor tensor = {};
  Location where = Location::none();
  uint64_t id = 0;
  /// Of a module's hook.
  Shared<const Setting> setting = {};
  /// An object of another language that `call` owns.
  void* foreign = nullptr;
};

/// Replaces `gradients` by a hook's result; a single one replaces the first. An error changes nothing.
WEFT_API void replace_gradients(const Node& node, const Hook& hook, std::span<Tensor> gradients, HookResult&& result);

/// Something that handles can remove functions from.
class WEFT_API HookRegistry {
 public:
  virtual ~HookRegistry();
  virtual bool remove(uint64_t id) = 0;
};

/// Functions in order of registration. They are run from a snapshot: additions and removals meanwhile take effect the
/// next time, and a function is destroyed when the last run that uses it ends. Safe from any thread.
template <class Entry>
class HookList final : public HookRegistry {
 public:
  using Snapshot = Shared<const std::vector<Entry>>;

  uint64_t add(Entry entry);
  bool remove(uint64_t id) override;
  void clear();
  /// Null when there are none.
  Snapshot snapshot() const;
  /// Nodes that run these functions; the last one that ends clears the list.
  Atomic<int32_t> users{0};

 private:
  mutable Atomic<uint32_t> word_{0};
  uint64_t last_id_ = 0;
  Snapshot entries_;
};
extern template class HookList<Hook>;

}  // namespace detail

/// Names one registered hook. Copies name the same hook; the handle does not own it and may outlive its tensor.
class WEFT_API HookHandle {
 public:
  HookHandle() = default;
  HookHandle(Weak<detail::HookRegistry> list, uint64_t id) : list_(std::move(list)), id_(id) {}
  /// True where it removed the hook, false where that is already gone, alone or with its tensor or graph. Safe at any
  /// time, inside the hook too; a list of hooks that is running is run to its end.
  bool remove();

 private:
  Weak<detail::HookRegistry> list_;
  uint64_t id_ = 0;
};

namespace detail {
struct LeafLink;
}

/// Refers to a leaf without owning it. A hook on a leaf lives as long as the leaf, so a hook that captures the leaf
/// itself keeps both for ever; capture this one, or take `event.tensor`.
class WEFT_API WeakLeaf {
 public:
  WeakLeaf() = default;
  /// ValueError unless `leaf` is a leaf that requires a gradient.
  explicit WeakLeaf(const Tensor& leaf, Location where = {});
  /// The leaf; undefined once it has died or requires no gradient any more.
  Tensor lock() const;

 private:
  Shared<detail::LeafLink> link_;
};

/// Removes its hook at the end of the scope.
class ScopedHook {
 public:
  ScopedHook() = default;
  ScopedHook(HookHandle handle) : handle_(std::move(handle)) {}
  ScopedHook(ScopedHook&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  ScopedHook& operator=(ScopedHook&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~ScopedHook() { handle_.remove(); }
  bool remove() { return handle_.remove(); }

 private:
  HookHandle handle_;
};

/// The hooks and retained gradients of a node; most nodes have none.
struct NodeHooks {
  struct RetainedGradient {
    uint16_t output;
    Tensor gradient;
    /// The tensor on which retain_grad was called; the entry is removed with it.
    const TensorImpl* tensor;
  };
  using List = detail::HookList<detail::Hook>;
  NodeHooks() : NodeHooks(Shared<List>::make(), 0) {}
  NodeHooks(Shared<List> list_, uint16_t first_output_);
  ~NodeHooks() { leave_list(); }
  NodeHooks(const NodeHooks&) = delete;
  /// The node runs no hooks any more.
  void leave_list();

  /// A view's present node and its former one share a list.
  const Shared<List> list;
  /// The number of this node's output 0 in the list.
  const uint16_t first_output;
  Atomic<bool> left{false};
  /// Which phases ever had a hook, one bit each, so that the others cost only a test.
  Atomic<uint32_t> phases{0};
  bool may_have(GradPhase phase) const {
    return (phases.load(MemoryOrder::relaxed) >> static_cast<int>(phase) & 1) != 0;
  }
  /// Leaves only: apply_backward_hook fires instead of the engine.
  Atomic<bool> manual{false};
  /// Guards `retained`, the results with a retained gradient.
  mutable Atomic<uint32_t> word{0};
  Atomic<bool> retains{false};
  std::vector<RetainedGradient> retained;
  /// Leaves only: for WeakLeaf, null until there is one. Guarded by `word`.
  Shared<detail::LeafLink> link;
};

namespace detail {

/// The node's hooks, made at the first call. Threads may call it at once.
NodeHooks& hooks_of(Node& node);
WEFT_API HookHandle add_tensor_hook(const Tensor& tensor, HookFunction hook, bool wants_tensor, Location where,
                                    void* foreign = nullptr);
WEFT_API HookHandle add_accumulated_hook(const Tensor& tensor, HookFunction hook, bool wants_tensor, Location where,
                                         void* foreign = nullptr);
/// For cycle collectors: visits objects of another language that the hooks of `tensor` own, if the tensor has exactly
/// `known` references, those that the collector follows, and nothing else owns the hooks.
WEFT_API void visit_foreign(const Tensor& tensor, int64_t known, void (*visit)(void* foreign, void* context),
                            void* context);
/// Drops the hooks of `tensor` under the same condition.
WEFT_API void clear_hooks(const Tensor& tensor, int64_t known);
WEFT_API HookHandle add_node_hook(const Tensor& result, GradPhase phase, HookFunction hook, Location where);
/// For tools: a gradient hook on an output of a node, whatever tensor it belongs to now.
WEFT_API HookHandle add_gradient_hook(Node& node, uint16_t output, HookFunction hook, Location where);

template <class R>
void take_result(R&& returned, HookResult& result) {
  using T = std::remove_cvref_t<R>;
  if constexpr (std::is_same_v<T, Tensor>) result.grad = std::forward<R>(returned);
  else if constexpr (std::is_same_v<T, std::vector<Tensor>>) result.grads = std::forward<R>(returned);
  else if constexpr (std::is_same_v<T, std::optional<Tensor>> ||
                     std::is_same_v<T, std::optional<std::vector<Tensor>>>) {
    if (returned.has_value()) take_result(*std::forward<R>(returned), result);
  } else {
    static_assert(std::is_void_v<T>, "a hook returns nothing, a gradient (or gradients), or an optional of them");
  }
}

template <class F>
inline constexpr bool takes_gradient = std::is_invocable_v<std::remove_cvref_t<F>&, const Tensor&>;

/// A user's function in the common form. `pick` selects the part of the event for a function that does not take all.
template <class Event = GradEvent, class F, class Pick>
Callback<void(const Event&, HookResult&)> hook_function(F&& hook, Pick pick) {
  return [f = std::forward<F>(hook), pick](const Event& event, HookResult& result) mutable {
    const auto call = [&]() -> decltype(auto) {
      if constexpr (takes_gradient<F>) return f(pick(event));
      else return f(event);
    };
    if constexpr (std::is_void_v<decltype(call())>) call();
    else take_result(call(), result);
  };
}

inline const Tensor& gradient_of(const GradEvent& event) { return event.grad; }
inline const Tensor& tensor_of(const GradEvent& event) { return event.tensor; }

}  // namespace detail

/// Calls `hook` with the gradient of `tensor` (or a GradEvent) once all contributions are summed; a returned tensor
/// replaces the gradient, for later hooks too. ValueError where no gradient flows. During backward: ShapeError,
/// DTypeError or DeviceError for a replacement that does not match, AutogradError for a gradient that is written in
/// place and not returned. A result's hook dies with its graph: a backward that does not retain the graph frees it.
template <class F>
HookHandle register_hook(const Tensor& tensor, F&& hook, Location where = {}) {
  return detail::add_tensor_hook(tensor, detail::hook_function(std::forward<F>(hook), detail::gradient_of),
                                 !detail::takes_gradient<F>, where);
}

/// Calls `hook` with the leaf (or a GradEvent) after this backward's sum was added to its `.grad`, once per backward
/// that reaches it. ValueError unless `tensor` is a leaf that requires a gradient.
template <class F>
HookHandle register_post_accumulate_grad_hook(const Tensor& tensor, F&& hook, Location where = {}) {
  return detail::add_accumulated_hook(tensor, detail::hook_function(std::forward<F>(hook), detail::tensor_of),
                                      !detail::takes_gradient<F>, where);
}

/// Calls `hook` with a GradEvent before the node that produced `result` runs: `event.incoming` holds the gradients of
/// its outputs, after their own hooks. It may return a vector that replaces them, undefined where one stays. ValueError
/// where no op was recorded; during backward, for another number of gradients and for one where none arrived, besides
/// the errors of register_hook.
template <class F>
HookHandle register_node_pre_hook(const Tensor& result, F&& hook, Location where = {}) {
  return detail::add_node_hook(result, GradPhase::node_before,
                               detail::hook_function(std::forward<F>(hook), detail::gradient_of), where);
}
/// The same after the node has run: a returned vector replaces `event.outgoing`, the gradients of its inputs.
template <class F>
HookHandle register_node_post_hook(const Tensor& result, F&& hook, Location where = {}) {
  return detail::add_node_hook(result, GradPhase::node_after,
                               detail::hook_function(std::forward<F>(hook), detail::gradient_of), where);
}

template <class F>
HookHandle Tensor::register_hook(F&& hook, Location where) const {
  return weft::register_hook(*this, std::forward<F>(hook), where);
}
template <class F>
HookHandle Indexed::register_hook(F&& hook, Location where) const {
  return elements().register_hook(std::forward<F>(hook), where);
}
template <class F>
HookHandle Tensor::register_post_accumulate_grad_hook(F&& hook, Location where) const {
  return weft::register_post_accumulate_grad_hook(*this, std::forward<F>(hook), where);
}

// ---- for the engine ----

/// Runs the gradient hooks of an output in order, on `gradient`, which is also kept where retain_grad asked for it.
void run_gradient_hooks(Node& node, uint16_t output, Tensor& gradient);
/// Runs a leaf's post-accumulate hooks.
void run_accumulated_hooks(Node& node, const Tensor& leaf);
/// Runs the node's hooks of one phase, which may replace `incoming` (before) or `outgoing` (after).
void run_node_hooks(Node& node, GradPhase phase, std::span<Tensor> incoming, std::span<Tensor> outgoing);
/// Called before an in-place write, so that move_retained_gradient cannot fail.
void make_room_for_retained_gradient(const Node& from, Node& to);
/// Called after an in-place write: a retained gradient follows the tensor to the node of its new value.
void move_retained_gradient(Node& from, uint16_t from_output, Node& to, uint16_t to_output);
/// Called when the base of a view was written: the hooks of the view's old node run for `fresh`, its new one, too.
void share_hooks(const Node& old, uint16_t old_output, Node& fresh);
/// Called when a tensor dies: drops its retained gradient, which may lead back to this node.
void forget_retained_gradient(Node& node, const TensorImpl* tensor);
/// Called when a leaf dies or stops being one.
void unlink_leaf(Node& node);
/// Frees the hooks of a node that can never run again: a hook that holds its own tensor would keep both alive for ever.
void drop_hooks(Node& node);

}  // namespace weft
