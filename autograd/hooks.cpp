#include "hooks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "accumulation.hpp"
#include "engine.hpp"
#include "from_ops.hpp"
#include "hook_list.hpp"
#include "program_watch.hpp"

namespace weft {

template class detail::HookList<detail::Hook>;

NodeHooks::NodeHooks(Shared<List> list_, uint16_t first_output_) : list(std::move(list_)), first_output(first_output_) {
  list->users.fetch_add(1, MemoryOrder::relaxed);
}

void NodeHooks::leave_list() {
  if (left.exchange(true, MemoryOrder::acq_rel)) return;
  if (list->users.fetch_sub(1, MemoryOrder::acq_rel) == 1) list->clear();
}

namespace {

using detail::Hook;
using detail::HookFunction;
using detail::HookResult;

std::string text_of(const Tensor& t) {
  return fmt::format("{} {} on {}", name(t.dtype()), t.shape().text(), t.device().name());
}

std::string owner_text(const Node& node) {
  if (node.accumulates) return "a leaf";
  return fmt::format("the result of {} at {}", node.op, node.where.text());
}

template <class E>
[[noreturn]] void raise_mismatch(const Node& node, const Hook& hook, const Tensor& old, const Tensor& replacement) {
  raise<E>({.op = "hook",
            .problem = fmt::format("a hook on {} returned a gradient that does not match", owner_text(node)),
            .details = fmt::format("gradient {}, returned {}", text_of(old), text_of(replacement)),
            .remedy = "return the same shape, dtype and device, or nothing",
            .event = "registered"},
           hook.where);
}

void check_replacement(const Node& node, const Hook& hook, const Tensor& old, const Tensor& replacement) {
  if (replacement.shape() != old.shape()) raise_mismatch<ShapeError>(node, hook, old, replacement);
  if (replacement.dtype() != old.dtype()) raise_mismatch<DTypeError>(node, hook, old, replacement);
  if (replacement.device() != old.device()) raise_mismatch<DeviceError>(node, hook, old, replacement);
}

[[noreturn]] void raise_written(const Node& node, const Hook& hook, bool returned) {
  raise<AutogradError>({.op = "hook",
                        .problem = fmt::format("a hook on {} wrote to its gradient in place{}", owner_text(node),
                                               returned ? ", which others hold too" : " and did not return it"),
                        .remedy = "return a new tensor, such as g * 2",
                        .event = "registered"},
                       hook.where);
}

// Calls one hook on event.grad and stores its result there.
void call_gradient_hook(Node& node, const Hook& hook, GradEvent& event) {
  if (WEFT_UNLIKELY(hook.wants_tensor)) event.tensor = node.accumulates ? living_leaf(node) : hook.tensor;
  const uint32_t version = event.grad.version();
  const bool shared = !exclusively_owned(event.grad.impl());
  if (WEFT_UNLIKELY(detail::program_watch != nullptr)) detail::program_watch->hook_begins(hook, event.grad);
  HookResult result;
  hook.call(event, result);
  if (WEFT_UNLIKELY(event.grad.version() != version)) {
    const bool returned = result.grad.defined() && result.grad.shares_storage(event.grad);
    if (!returned || shared) raise_written(node, hook, returned);
  }
  if (!result.grad.defined()) return;
  if (result.grad.impl() != event.grad.impl()) check_replacement(node, hook, event.grad, result.grad);
  event.grad = std::move(result.grad);
  if (WEFT_UNLIKELY(detail::program_watch != nullptr)) detail::program_watch->hook_changed(hook, node, event.grad);
}

HookHandle add(Node& node, Hook hook) {
  NodeHooks& hooks = detail::hooks_of(node);
  hook.output = static_cast<uint16_t>(hook.output + hooks.first_output);
  hooks.phases.fetch_or(1u << static_cast<int>(hook.phase), MemoryOrder::relaxed);
  return HookHandle(hooks.list, hooks.list->add(std::move(hook)));
}

void check_gradient_flows(const Tensor& tensor, const char* op, Location where) {
  if (tensor.defined() && tensor.requires_grad()) return;
  raise<ValueError>({.op = op,
                     .problem = "no gradient flows to this tensor",
                     .details = tensor.defined() ? text_of(tensor) : "undefined",
                     .remedy = "call requires_grad_() before the ops that use it"},
                    where);
}

AccumulationNode& checked_leaf(const Tensor& tensor, const char* op, Location where) {
  check_gradient_flows(tensor, op, where);
  if (!tensor.is_leaf()) {
    raise<ValueError>({.op = op,
                       .problem = "the tensor is not a leaf",
                       .details = text_of(tensor),
                       .remedy = "an op produced it: use register_hook"},
                      where);
  }
  return *accumulation_node(tensor.impl());
}

}  // namespace

namespace detail {

HookRegistry::~HookRegistry() = default;

void replace_gradients(const Node& node, const Hook& hook, std::span<Tensor> gradients, HookResult&& result) {
  std::vector<Tensor>& replacements = result.grads;
  if (result.grad.defined()) replacements.assign(1, std::move(result.grad)), replacements.resize(gradients.size());
  if (replacements.empty()) return;
  if (replacements.size() != gradients.size()) {
    raise<ValueError>({.op = "hook",
                       .problem = fmt::format("a hook on {} returned {} gradients for {}", owner_text(node),
                                              replacements.size(), gradients.size()),
                       .remedy = "return one for each, undefined where it stays, or nothing",
                       .event = "registered"},
                      hook.where);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!replacements[i].defined()) continue;
    if (!gradients[i].defined()) {
      raise<ValueError>(
          {.op = "hook",
           .problem = fmt::format("a hook on {} returned gradient {} where none flows", owner_text(node), i),
           .event = "registered"},
          hook.where);
    }
    check_replacement(node, hook, gradients[i], replacements[i]);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!replacements[i].defined()) continue;
    if (WEFT_UNLIKELY(program_watch != nullptr)) program_watch->hook_begins(hook, gradients[i]);
    gradients[i] = std::move(replacements[i]);
    if (WEFT_UNLIKELY(program_watch != nullptr)) program_watch->hook_changed(hook, node, gradients[i]);
  }
}

NodeHooks& hooks_of(Node& node) {
  if (NodeHooks* present = node.hooks.load(MemoryOrder::acquire)) return *present;
  auto fresh = std::make_unique<NodeHooks>();
  NodeHooks* present = nullptr;
  if (node.hooks.compare_exchange_strong(present, fresh.get(), MemoryOrder::acq_rel)) return *fresh.release();
  return *present;
}

HookHandle add_gradient_hook(Node& node, uint16_t output, HookFunction hook, Location where) {
  return add(node, {.call = std::move(hook), .phase = GradPhase::gradient, .output = output, .where = where});
}

HookHandle add_tensor_hook(const Tensor& tensor, HookFunction hook, bool wants_tensor, Location where, void* foreign) {
  check_gradient_flows(tensor, "register_hook", where);
  TensorImpl* impl = tensor.impl();
  return add(*impl->node, {.call = std::move(hook),
                           .phase = GradPhase::gradient,
                           .wants_tensor = wants_tensor,
                           .output = impl->output_number,
                           .tensor = wants_tensor && !impl->accumulates ? tensor.detach() : Tensor(),
                           .where = where,
                           .foreign = foreign});
}

HookHandle add_accumulated_hook(const Tensor& tensor, HookFunction hook, bool wants_tensor, Location where,
                                void* foreign) {
  AccumulationNode& node = checked_leaf(tensor, "register_post_accumulate_grad_hook", where);
  return add(node, {.call = std::move(hook),
                    .phase = GradPhase::accumulated,
                    .wants_tensor = wants_tensor,
                    .where = where,
                    .foreign = foreign});
}

namespace {
// Null if a graph, a handle beyond `known` ones or an in-place result holds the hooks too.
NodeHooks* hooks_of_known_owners(const Tensor& tensor, int64_t known) {
  const TensorImpl* const impl = tensor.impl();
  if (impl == nullptr || impl->node == nullptr) return nullptr;
  if (impl->refs.value() != known || impl->node->refs.value() != 1) return nullptr;
  NodeHooks* const hooks = impl->node->hooks.load(MemoryOrder::acquire);
  return hooks != nullptr && hooks->list->users.load(MemoryOrder::acquire) == 1 ? hooks : nullptr;
}
}  // namespace

void visit_foreign(const Tensor& tensor, int64_t known, void (*visit)(void* foreign, void* context), void* context) {
  const NodeHooks* const hooks = hooks_of_known_owners(tensor, known);
  if (hooks == nullptr) return;
  const auto snapshot = hooks->list->snapshot();
  if (snapshot == nullptr) return;
  for (const Hook& hook : *snapshot) {
    if (hook.foreign != nullptr) visit(hook.foreign, context);
  }
}

void clear_hooks(const Tensor& tensor, int64_t known) {
  if (NodeHooks* hooks = hooks_of_known_owners(tensor, known)) hooks->list->clear();
}

HookHandle add_node_hook(const Tensor& result, GradPhase phase, HookFunction hook, Location where) {
  const char* op = phase == GradPhase::node_before ? "register_node_pre_hook" : "register_node_post_hook";
  check_gradient_flows(result, op, where);
  if (result.is_leaf()) {
    raise<ValueError>({.op = op,
                       .problem = "no op produced this tensor",
                       .details = text_of(result),
                       .remedy = "a leaf has register_hook and register_post_accumulate_grad_hook"},
                      where);
  }
  return add(*result.impl()->node, {.call = std::move(hook), .phase = phase, .where = where});
}

}  // namespace detail

bool HookHandle::remove() {
  const auto list = list_.lock();
  return list != nullptr && list->remove(id_);
}

struct detail::LeafLink {
  Atomic<uint32_t> word{0};
  TensorImpl* leaf;
};

WeakLeaf::WeakLeaf(const Tensor& leaf, Location where) {
  NodeHooks& hooks = detail::hooks_of(checked_leaf(leaf, "WeakLeaf", where));
  auto fresh = Shared<detail::LeafLink>::make();
  fresh->leaf = leaf.impl();
  detail::WordLock lock(hooks.word);
  if (hooks.link == nullptr) hooks.link = std::move(fresh);
  link_ = hooks.link;
}

Tensor WeakLeaf::lock() const {
  if (link_ == nullptr) return {};
  detail::WordLock lock(link_->word);
  if (link_->leaf == nullptr || !link_->leaf->refs.try_increment()) return {};
  return Tensor::adopt(link_->leaf);
}

void unlink_leaf(Node& node) {
  NodeHooks& hooks = *node.hooks.load(MemoryOrder::acquire);
  Shared<detail::LeafLink> link;
  {
    detail::WordLock lock(hooks.word);
    link = std::move(hooks.link);
  }
  if (link == nullptr) return;
  detail::WordLock lock(link->word);
  link->leaf = nullptr;
}

namespace {

// A retained gradient accumulates like a leaf's. No kernel runs under the lock, because an observer may read the
// gradient.
void add_to_kept(NodeHooks& hooks, uint16_t output, const Tensor& gradient) {
  const CallScope call(CallPlace{"retain_grad"});
  for (;;) {
    Tensor before;
    {
      detail::WordLock lock(hooks.word);
      const NodeHooks::RetainedGradient* kept = retained_slot(hooks, output);
      if (kept == nullptr) return;
      before = kept->gradient;
    }
    Tensor sum = before.defined() ? detail::recorded_add(before, gradient) : gradient;  // dies after the lock
    detail::WordLock lock(hooks.word);
    NodeHooks::RetainedGradient* kept = retained_slot(hooks, output);
    if (kept == nullptr) return;
    if (kept->gradient.impl() != before.impl()) continue;  // another pass was here
    return std::swap(kept->gradient, sum);
  }
}

}  // namespace

void run_gradient_hooks(Node& node, uint16_t output, Tensor& gradient) {
  NodeHooks& hooks = *node.hooks.load(MemoryOrder::acquire);
  if (const auto snapshot = hooks.left.load(MemoryOrder::relaxed) ? nullptr : hooks.list->snapshot()) {
    GradEvent event{.grad = std::move(gradient),
                    .tensor = {},
                    .op = node.op,
                    .node = &node,
                    .location = node.where,
                    .phase = GradPhase::gradient};
    const int listed = hooks.first_output + output;
    for (const Hook& hook : *snapshot) {
      if (hook.phase == GradPhase::gradient && hook.output == listed) call_gradient_hook(node, hook, event);
    }
    gradient = std::move(event.grad);
  }
  if (WEFT_UNLIKELY(hooks.retains.load(MemoryOrder::relaxed))) add_to_kept(hooks, output, gradient);
}

void run_accumulated_hooks(Node& node, const Tensor& leaf) {
  const auto snapshot = node.hooks.load(MemoryOrder::acquire)->list->snapshot();
  if (snapshot == nullptr) return;
  for (const Hook& hook : *snapshot) {
    if (hook.phase != GradPhase::accumulated) continue;
    const GradEvent event{.grad = hook.wants_tensor ? leaf.grad() : Tensor(),
                          .tensor = leaf,
                          .op = node.op,
                          .node = &node,
                          .location = node.where,
                          .phase = GradPhase::accumulated};
    HookResult ignored;
    hook.call(event, ignored);
  }
}

void run_node_hooks(Node& node, GradPhase phase, std::span<Tensor> incoming, std::span<Tensor> outgoing) {
  const auto snapshot = node.hooks.load(MemoryOrder::acquire)->list->snapshot();
  if (snapshot == nullptr) return;
  const GradEvent event{.grad = {},
                        .tensor = {},
                        .op = node.op,
                        .node = &node,
                        .location = node.where,
                        .phase = phase,
                        .incoming = incoming,
                        .outgoing = outgoing};
  for (const Hook& hook : *snapshot) {
    if (hook.phase != phase) continue;
    HookResult result;
    hook.call(event, result);
    detail::replace_gradients(node, hook, phase == GradPhase::node_before ? incoming : outgoing, std::move(result));
  }
}

void make_room_for_retained_gradient(const Node& from, Node& to) {
  if (!from.hooks.load(MemoryOrder::acquire)->retains.load(MemoryOrder::relaxed)) return;
  NodeHooks& target = detail::hooks_of(to);
  detail::WordLock lock(target.word);
  target.retained.reserve(target.retained.size() + 1);
}

void move_retained_gradient(Node& from, uint16_t from_output, Node& to, uint16_t to_output) {
  NodeHooks& hooks = *from.hooks.load(MemoryOrder::acquire);
  if (!hooks.retains.load(MemoryOrder::relaxed)) return;
  NodeHooks& target = detail::hooks_of(to);
  NodeHooks::RetainedGradient moved;
  {
    detail::WordLock lock(hooks.word);
    const auto at = std::ranges::find(hooks.retained, from_output, &NodeHooks::RetainedGradient::output);
    if (at == hooks.retained.end()) return;
    moved = std::move(*at);
    hooks.retained.erase(at);
  }
  moved.output = to_output;
  detail::WordLock lock(target.word);
  target.retained.push_back(std::move(moved));
  target.retains = true;
}

void forget_retained_gradient(Node& node, const TensorImpl* tensor) {
  NodeHooks& hooks = *node.hooks.load(MemoryOrder::acquire);
  Tensor dead;  // dies after the lock
  detail::WordLock lock(hooks.word);
  const auto at = std::ranges::find(hooks.retained, tensor, &NodeHooks::RetainedGradient::tensor);
  if (at == hooks.retained.end()) return;
  dead = std::move(at->gradient);
  hooks.retained.erase(at);
}

void share_hooks(const Node& old, uint16_t old_output, Node& fresh) {
  const NodeHooks& hooks = *old.hooks.load(MemoryOrder::acquire);
  auto shared = std::make_unique<NodeHooks>(hooks.list, static_cast<uint16_t>(hooks.first_output + old_output));
  const uint32_t phases = hooks.phases.load(MemoryOrder::relaxed);
  shared->phases = old.output_count == 1 ? phases : phases & 1u << static_cast<int>(GradPhase::gradient);
  fresh.hooks.store(shared.release(), MemoryOrder::release);
}

void drop_hooks(Node& node) { node.hooks.load(MemoryOrder::acquire)->leave_list(); }

void Tensor::set_manual_backward_hook(bool on, Location where) const {
  detail::hooks_of(checked_leaf(*this, "set_manual_backward_hook", where)).manual = on;
}

void Tensor::apply_backward_hook(bool allow_missing, Location where) const {
  AccumulationNode& node = checked_leaf(*this, "apply_backward_hook", where);
  NodeHooks* hooks = node.hooks.load(MemoryOrder::acquire);
  const bool manual = hooks != nullptr && hooks->manual;
  if (!manual && node.run.load(MemoryOrder::relaxed) != nullptr && node.pending > 0) {
    raise<AutogradError>({.op = "apply_backward_hook",
                          .problem = "the backward that runs will fire this leaf's hooks a second time",
                          .details = text_of(*this),
                          .remedy = "call set_manual_backward_hook() on it before"},
                         where);
  }
  if (!grad().defined()) {
    if (!allow_missing) {
      raise<ValueError>({.op = "apply_backward_hook",
                         .problem = "the leaf has no gradient",
                         .details = text_of(*this),
                         .remedy = "set_grad() first, or allow_missing for a gradient of zeros"},
                        where);
    }
    set_grad(detail::zeros_unrecorded(shape(), dtype(), device()), where);
  }
  if (hooks != nullptr) run_accumulated_hooks(node, *this);
}

}  // namespace weft
