// Hooks: functions that backward calls with gradients. docs/hooks.md has the rules on one page.
//
//   HookHandle h = y.register_hook([](const Tensor& g) { return g * 2; });    // replaces the gradient of y
//   y.register_hook([](const GradEvent& e) { print(e.op, e.location.text()); });
//   w.register_post_accumulate_grad_hook([](const Tensor& leaf) { send(leaf.grad()); });
//   h.remove();
//
// Every kind of hook is a function of a GradEvent, or of its gradient alone, in one kind of list with one kind of
// handle.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/index.hpp"

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

/// What a hook is told. It is valid while the hook runs; the tensors in it may be kept.
struct GradEvent {
  /// The gradient; of a node undefined; of a module that of the output (before) or of the first input (after).
  Tensor grad;
  /// The leaf itself. Of a result the same elements outside the graph, so that a hook need not capture its own tensor
  /// to see it; memory written since shows the new elements.
  Tensor tensor;
  /// The op that produced the tensor ("accumulate_grad" for a leaf), and where it was called.
  const char* op;
  const Node* node;
  Location location;
  GradPhase phase;
  /// Of a node or module: gradients of its outputs, and in the after phases of its inputs; undefined where none flows.
  std::span<const Tensor> incoming = {};
  std::span<const Tensor> outgoing = {};
};

namespace detail {

/// What a hook returned: one gradient, or one for each that the node or module passes on.
struct HookResult {
  Tensor grad;
  std::vector<Tensor> grads;
};
using HookFunction = std::function<void(const GradEvent&, HookResult&)>;

struct Hook {
  HookFunction call;
  GradPhase phase;
  /// It takes a GradEvent, so that `event.tensor` must be filled; for a result with `tensor`.
  bool wants_tensor = false;
  /// Which output of its node it belongs to.
  uint16_t output = 0;
  Tensor tensor = {};
  Location where = Location::none();
  uint64_t id = 0;
};

/// Puts what a hook returned in place of `gradients`: one stands for the first. An error changes nothing.
WEFT_API void replace_gradients(const Node& node, const Hook& hook, std::span<Tensor> gradients, HookResult&& result);

/// Something that handles can remove functions from.
class WEFT_API HookRegistry {
 public:
  virtual ~HookRegistry();
  virtual bool remove(uint64_t id) = 0;
};

/// Functions in order of registration. Whoever runs them takes a snapshot first: what is added or removed while they
/// run counts from the next time on, and a function dies when the last run that knows it ends. Safe from any thread.
template <class Entry>
class HookList final : public HookRegistry {
 public:
  using Snapshot = std::shared_ptr<const std::vector<Entry>>;

  uint64_t add(Entry entry);
  bool remove(uint64_t id) override;
  void clear();
  /// Null when there are none.
  Snapshot snapshot() const;

 private:
  mutable std::atomic<uint32_t> word_{0};
  uint64_t last_id_ = 0;
  Snapshot entries_;
};
extern template class HookList<Hook>;

}  // namespace detail

/// Names one registered hook. Copies name the same hook; the handle does not own it and may outlive its tensor.
class WEFT_API HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<detail::HookRegistry> list, uint64_t id) : list_(std::move(list)), id_(id) {}
  /// True the first time, false when the hook is gone already, with its tensor or graph too. Safe at any time, inside
  /// the hook too: hooks of one tensor that run already run to the end of their list.
  bool remove();

 private:
  std::weak_ptr<detail::HookRegistry> list_;
  uint64_t id_ = 0;
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

/// What hangs on a node; most nodes have none.
struct NodeHooks {
  struct Kept {
    uint16_t output;
    Tensor gradient;
    /// Who asked for it; what it dies with.
    const TensorImpl* tensor;
  };
  NodeHooks();
  const std::shared_ptr<detail::HookList<detail::Hook>> list;
  /// Which phases ever had a hook, a bit for each, so that the others cost a test.
  std::atomic<uint32_t> phases{0};
  bool may_have(GradPhase phase) const {
    return (phases.load(std::memory_order_relaxed) >> static_cast<int>(phase) & 1) != 0;
  }
  /// Leaves only: apply_backward_hook fires instead of the engine.
  std::atomic<bool> manual{false};
  /// Guards `kept`: results whose gradient is retained.
  mutable std::atomic<uint32_t> word{0};
  std::atomic<bool> retains{false};
  std::vector<Kept> kept;
};

namespace detail {

/// The node's hooks, made at the first call. Threads may call it at once.
NodeHooks& hooks_of(Node& node);
WEFT_API HookHandle add_tensor_hook(const Tensor& tensor, HookFunction hook, bool wants_tensor, Location where);
WEFT_API HookHandle add_accumulated_hook(const Tensor& tensor, HookFunction hook, bool wants_tensor, Location where);
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

/// A user's function in the common form. `pick` gives it the part of the event that it takes if not the whole.
template <class Event = GradEvent, class F, class Pick>
std::function<void(const Event&, HookResult&)> hook_function(F&& hook, Pick pick) {
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

/// Calls `hook` with the gradient of `tensor` (or a GradEvent) once all contributions are summed; what it returns
/// replaces the gradient, for later hooks too. ValueError where no gradient flows. A replacement must match shape,
/// dtype and device; the gradient may be written in place only if it is returned. A result's hook dies with its graph:
/// a backward that does not retain the graph frees it.
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
/// its outputs, after their own hooks. It may return a vector that replaces them, undefined where one stays; nothing
/// can be put where no gradient arrived. ValueError where no op was recorded.
template <class F>
HookHandle register_node_pre_hook(const Tensor& result, F&& hook, Location where = {}) {
  return detail::add_node_hook(result, GradPhase::node_before,
                               detail::hook_function(std::forward<F>(hook), detail::gradient_of), where);
}
/// The same after the node ran: what is returned replaces `event.outgoing`, the gradients of its inputs.
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
HookHandle Tensor::register_post_accumulate_grad_hook(F&& hook, Location where) const {
  return weft::register_post_accumulate_grad_hook(*this, std::forward<F>(hook), where);
}

// ---- for the engine ----

/// Runs the gradient hooks of an output in order; `gradient` becomes what they make of it and is kept where asked.
void run_gradient_hooks(Node& node, uint16_t output, Tensor& gradient);
/// Runs a leaf's post-accumulate hooks.
void run_accumulated_hooks(Node& node, const Tensor& leaf);
/// Runs the node's hooks of one phase, which may replace `incoming` (before) or `outgoing` (after).
void run_node_hooks(Node& node, GradPhase phase, std::span<Tensor> incoming, std::span<Tensor> outgoing);
/// Before an in-place write: so that move_kept_gradient cannot fail.
void make_room_for_kept_gradient(const Node& from, Node& to);
/// After an in-place write: what retain_grad asked for follows the tensor to the node of its new value.
void move_kept_gradient(Node& from, uint16_t from_output, Node& to, uint16_t to_output);
/// A tensor died: nobody can ask for its retained gradient, which may lead back to this node.
void forget_kept_gradient(Node& node, const TensorImpl* tensor);
/// Frees the hooks of a node that can never run again: one that holds its own tensor would keep both for ever.
void drop_hooks(Node& node);

}  // namespace weft
