#include <weft/autograd/hooks.hpp>

#include <fmt/format.h>

#include <weft/autograd/node.hpp>

namespace weft {

namespace {

NodeHooks& hooks_of(const Tensor& tensor, const char* op, Location where) {
  if (!tensor.requires_grad()) {
    raise<ValueError>({.op = op,
                       .problem = "no gradient flows to this tensor",
                       .details = fmt::format("shape {}, {}", tensor.shape().text(), name(tensor.dtype())),
                       .remedy = "call requires_grad_() before the ops that use it"},
                      where);
  }
  Node* node = tensor.impl()->node;
  if (node->hooks == nullptr) node->hooks = new NodeHooks;
  return *node->hooks;
}

void check_replacement(const Node& node, const Tensor& old, const Tensor& replacement) {
  if (replacement.shape() == old.shape() && replacement.dtype() == old.dtype() &&
      replacement.device() == old.device()) {
    return;
  }
  raise<ShapeError>({.op = node.op,
                     .problem = "a gradient hook returned a tensor that does not match the gradient",
                     .details = fmt::format("gradient {} {} on {}, hook returned {} {} on {}", name(old.dtype()),
                                            old.shape().text(), old.device().name(), name(replacement.dtype()),
                                            replacement.shape().text(), replacement.device().name()),
                     .remedy = "return the same shape, dtype and device, or nothing"},
                    node.where);
}

std::vector<NodeHooks::Entry> snapshot(const NodeHooks& hooks, const std::vector<NodeHooks::Entry>& entries) {
  std::lock_guard lock(hooks.mutex);
  return entries;
}

// Calls a living hook without holding its lock; frees the function if it was removed meanwhile.
Tensor call_hook(HookState& state, const Tensor& argument) {
  {
    std::lock_guard lock(state.mutex);
    if (!state.alive) return {};
    ++state.running;
  }
  struct Leave {
    HookState& state;
    ~Leave() {
      std::function<Tensor(const Tensor&)> dead;
      std::lock_guard lock(state.mutex);
      if (--state.running == 0 && !state.alive) dead.swap(state.call);
    }
  } leave{state};
  return state.call(argument);
}

}  // namespace

bool HookState::retire() {
  std::function<Tensor(const Tensor&)> dead;
  std::lock_guard lock(mutex);
  const bool was_alive = std::exchange(alive, false);
  if (running == 0) dead.swap(call);
  return was_alive;
}

bool HookState::removed() {
  std::lock_guard lock(mutex);
  return !alive;
}

bool HookHandle::remove() { return state_ != nullptr && state_->retire(); }

HookHandle register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook, Location where) {
  NodeHooks& hooks = hooks_of(tensor, "register_hook", where);
  auto state = std::make_shared<HookState>();
  state->call = std::move(hook);
  std::lock_guard lock(hooks.mutex);
  hooks.gradient_hooks.push_back({state, tensor.impl()->output_number});
  return HookHandle(state);
}

HookHandle register_post_accumulate_grad_hook(const Tensor& tensor, std::function<void(const Tensor&)> hook,
                                              Location where) {
  if (!tensor.requires_grad() || !tensor.is_leaf()) {
    raise<ValueError>({.op = "register_post_accumulate_grad_hook",
                       .problem = tensor.requires_grad() ? "the tensor is not a leaf" : "the tensor needs no gradient",
                       .remedy = "register it on a leaf that requires a gradient"},
                      where);
  }
  auto state = std::make_shared<HookState>();
  state->call = [f = std::move(hook)](const Tensor& leaf) {
    f(leaf);
    return Tensor();
  };
  NodeHooks& hooks = hooks_of(tensor, "register_post_accumulate_grad_hook", where);
  std::lock_guard lock(hooks.mutex);
  hooks.accumulated_hooks.push_back({state, 0});
  return HookHandle(state);
}

void run_gradient_hooks(const Node& node, int output, Tensor& gradient) {
  // A hook may register others: those run from the next backward on.
  for (const auto& entry : snapshot(*node.hooks, node.hooks->gradient_hooks)) {
    if (entry.output != output) continue;
    Tensor replacement = call_hook(*entry.state, gradient);
    if (!replacement.defined()) continue;
    check_replacement(node, gradient, replacement);
    gradient = std::move(replacement);
  }
  Tensor keep = gradient;  // then the one kept so far, which dies after the lock
  std::lock_guard lock(node.hooks->mutex);
  for (auto& kept : node.hooks->kept) {
    if (kept.output == output) std::swap(kept.gradient, keep);
  }
  std::erase_if(node.hooks->gradient_hooks, [](const auto& entry) { return entry.state->removed(); });
}

void run_accumulated_hooks(const Node& node, const Tensor& leaf) {
  for (const auto& entry : snapshot(*node.hooks, node.hooks->accumulated_hooks)) call_hook(*entry.state, leaf);
  std::lock_guard lock(node.hooks->mutex);
  std::erase_if(node.hooks->accumulated_hooks, [](const auto& entry) { return entry.state->removed(); });
}

void drop_gradient_hooks(Node& node) {
  std::vector<NodeHooks::Entry> dead;
  {
    std::lock_guard lock(node.hooks->mutex);
    dead.swap(node.hooks->gradient_hooks);
  }
  for (const auto& entry : dead) entry.state->retire();
}

}  // namespace weft
