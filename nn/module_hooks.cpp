#include "module_hooks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../autograd/hook_list.hpp"
#include "../autograd/node.hpp"
#include "module.hpp"

template class weft::detail::HookList<weft::nn::detail::ForwardHook>;

namespace weft::nn {

const Tensor& ForwardEvent::first(std::span<const Tensor> tensors, const char* kind) const {
  if (!tensors.empty()) return tensors[0];
  raise<ValueError>({.op = "forward hook",
                     .problem = fmt::format("there are no tensors among the {} of this call", kind),
                     .remedy = "a struct names its own: auto tensors() { return std::tie(a, b); }"},
                    location);
}

namespace detail {

ModuleHooks::ModuleHooks()
    : forward(Shared<HookList<ForwardHook>>::make()), backward(Shared<HookList<weft::detail::Hook>>::make()) {}

namespace {

using weft::detail::Hook;

constexpr const char* call_name = "nn::Module call";

void replace(std::vector<Tensor>& tensors, const ForwardHook& hook, HookResult& result) {
  if (result.grad.defined()) {
    if (tensors.empty()) tensors.emplace_back();
    tensors[0] = std::move(result.grad);
  }
  if (result.grads.empty()) return;
  if (result.grads.size() != tensors.size()) {
    raise<ValueError>({.op = "forward hook",
                       .problem = fmt::format("a hook returned {} tensors for {}", result.grads.size(), tensors.size()),
                       .remedy = "return one for each, undefined where it stays, or nothing",
                       .event = "registered"},
                      hook.where);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (result.grads[i].defined()) tensors[i] = std::move(result.grads[i]);
  }
}

}  // namespace

// The backward state of one call. It holds tensors of the graph only between the two phases of a backward.
struct HookedCall::Backward {
  Shared<HookList<Hook>> hooks;
  Location where;
  size_t input_count = 0;
  bool ends_at_inputs = false;
  Atomic<uint32_t> word{0};
  std::vector<Tensor> incoming;

  std::vector<Tensor> arrived() {
    weft::detail::WordLock lock(word);
    return incoming;
  }
  std::vector<Tensor> take_arrived() {
    std::vector<Tensor> out(incoming.size());
    weft::detail::WordLock lock(word);
    out.swap(incoming);
    return out;
  }

  void output_arrived(const GradEvent& event, size_t i, HookResult& result) {
    Tensor gradient = event.grad;
    std::vector<Tensor> all = arrived();
    all[i] = gradient;
    if (const auto snapshot = hooks->snapshot()) {
      for (const Hook& hook : *snapshot) {
        if (hook.phase != GradPhase::module_before) continue;
        const GradEvent told = told_about(*event.node, GradPhase::module_before, gradient, all, {});
        HookResult returned;
        hook.call(told, returned);
        weft::detail::replace_gradients(*event.node, hook, {&gradient, 1}, std::move(returned));
        all[i] = gradient;
      }
    }
    {
      weft::detail::WordLock lock(word);
      std::swap(incoming[i], all[i]);
    }
    if (gradient.impl() != event.grad.impl()) result.grad = std::move(gradient);
    if (ends_at_inputs) return;
    std::vector<Tensor> nothing(input_count);
    inputs_arrived(*event.node, nothing);
  }

  void inputs_arrived(const Node& node, std::span<Tensor> outgoing) {
    const OutsideCalls users_code;
    const std::vector<Tensor> all = take_arrived();
    const auto snapshot = hooks->snapshot();
    if (snapshot == nullptr) return;
    for (const Hook& hook : *snapshot) {
      if (hook.phase != GradPhase::module_after) continue;
      const Tensor first = outgoing.empty() ? Tensor() : outgoing[0];
      HookResult returned;
      hook.call(told_about(node, GradPhase::module_after, first, all, outgoing), returned);
      weft::detail::replace_gradients(node, hook, outgoing, std::move(returned));
    }
  }

  GradEvent told_about(const Node& node, GradPhase phase, const Tensor& gradient, std::span<const Tensor> in,
                       std::span<const Tensor> out) const {
    return {.grad = gradient,
            .tensor = {},
            .op = node.op,
            .node = &node,
            .location = where,
            .phase = phase,
            .incoming = in,
            .outgoing = out};
  }
};

HookedCall::HookedCall(const Module& module, const ModuleHooks& hooks, std::vector<Tensor> inputs, Location where,
                       Unbegun)
    : module_(module), hooks_(hooks), where_(where), inputs_(std::move(inputs)) {}

// Delegates to another constructor, so that the destructor runs if this one throws, and calls the begun hooks.
HookedCall::HookedCall(const Module& module, const ModuleHooks& hooks, std::vector<Tensor> inputs, Location where)
    : HookedCall(module, hooks, std::move(inputs), where, Unbegun()) {
  run(ForwardPhase::before, inputs_);
  if (!recording() || hooks_.backward->snapshot() == nullptr) return;
  backward_ = Shared<Backward>::make();
  backward_->hooks = hooks_.backward;
  backward_->where = where;
  backward_->input_count = inputs_.size();
  const auto wants = [](const Tensor& t) { return t.defined() && t.requires_grad(); };
  if (std::ranges::none_of(inputs_, wants)) return;
  backward_->ends_at_inputs = true;
  const CallScope call(call_name, where);
  Node* node = make_general_node(inputs_, static_cast<int>(inputs_.size()),
                                 [b = backward_, n = inputs_.size()](Node& self, Tensor* in, Tensor* out) {
                                   std::move(in, in + n, out);
                                   b->inputs_arrived(self, {out, n});
                                 });
  const NodeHandle handle(node);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!wants(inputs_[i])) continue;
    // A view of the input, so that an in-place write inside the module also writes the input.
    const View& own = inputs_[i].raw_view();
    Tensor alias = Tensor::adopt(weft::detail::new_view(inputs_[i].impl(), own.layout, own.data));
    node->refs.increment();
    set_history(alias.impl(), node, static_cast<uint16_t>(i));
    inputs_[i] = std::move(alias);
  }
}

void raise_not_copied(const Module& module, Location where) {
  const std::string name = module.class_name();
  raise<ValueError>({.op = name.c_str(),
                     .problem = "a checkpointed call needs copies of the module and of all arguments",
                     .remedy = "checkpoint a module with copyable arguments, or set_checkpointing(..., false)"},
                    where);
}

// Calls forward(x) checkpointed; the recomputation uses a copy of the module.
static Tensor call_checkpointed(Module& module, const OneTensorForward& forward, const Tensor& x, Location where) {
  if (forward.copy == nullptr) raise_not_copied(module, where);
  const auto again = [copy = forward.copy(module), run = forward.run, where](std::span<const Tensor> inputs) {
    (void)run(*copy, inputs[0], where);
  };
  weft::detail::CheckpointCall call({x}, again, where);
  const auto scope = call.hooks();
  return forward.run(module, x, where);
}

Tensor call_with_hooks(Module& module, const ModuleHooks& hooks, const OneTensorForward& forward, const Tensor& x,
                       Location where) {
  HookedCall call(module, hooks, {x}, where);
  const bool recomputes = hooks.recomputes.load(MemoryOrder::relaxed) && recording();
  Tensor result =
      recomputes ? call_checkpointed(module, forward, call.input(0), where) : forward.run(module, call.input(0), where);
  Tensor* const place = &result;
  call.finish({&place, result.defined() ? size_t{1} : size_t{0}});
  return result;
}

void HookedCall::run(ForwardPhase phase, std::vector<Tensor>& tensors) {
  const auto snapshot = hooks_.forward->snapshot();
  if (snapshot == nullptr) return;
  const bool before = phase == ForwardPhase::before;
  for (const ForwardHook& hook : *snapshot) {
    const bool both = hook.at == CallEnd::both;
    if (!both && (hook.at == CallEnd::before) != before) continue;
    if (both && before) begun_.push_back(hook.id);
    if (both && !before && std::erase(begun_, hook.id) == 0) continue;
    const ForwardEvent event{module_, before ? tensors : inputs_, before ? std::span<const Tensor>() : tensors, where_,
                             phase};
    HookResult result;
    hook.call(event, result);
    if (!both) replace(tensors, hook, result);
  }
}

void HookedCall::fail() noexcept {
  const auto snapshot = hooks_.forward->snapshot();
  if (snapshot == nullptr) return;
  for (auto hook = snapshot->rbegin(); hook != snapshot->rend(); ++hook) {
    if (std::erase(begun_, hook->id) == 0) continue;
    try {
      HookResult ignored;
      hook->call({module_, inputs_, {}, where_, ForwardPhase::failed}, ignored);
    } catch (...) {  // the call's own error is already propagating
    }
  }
}

void HookedCall::finish(std::span<Tensor* const> outputs) {
  std::vector<Tensor> tensors;
  for (const Tensor* t : outputs) tensors.push_back(*t);
  run(ForwardPhase::after, tensors);
  begun_.clear();  // hooks left in the list were removed during the call
  for (size_t i = 0; i < outputs.size(); ++i) *outputs[i] = std::move(tensors[i]);
  if (backward_ == nullptr) return;
  backward_->incoming.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]->defined() || !outputs[i]->requires_grad()) continue;
    TensorImpl* impl = outputs[i]->impl();
    weft::detail::add_gradient_hook(
        *impl->node, impl->output_number,
        [b = backward_, i](const GradEvent& event, HookResult& result) { b->output_arrived(event, i, result); },
        where_);
  }
}

}  // namespace detail

}  // namespace weft::nn
