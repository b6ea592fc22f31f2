// The output layer of a CausalLM whose embeddings are tied, as a layer that takes an adapter.
//
// Such a model computes its logits with the embedding's weight and has no output layer in its tree. With an adapter
// there is one: a Linear "lm_head" that holds the embedding's weight, among the children that all copies of the model
// share.
#include <algorithm>

#include "../../ops/matmul.hpp"
#include "../causal_lm.hpp"
#include "../parametrize.hpp"
#include "../path-inl.hpp"
#include "low_rank-inl.hpp"

namespace weft::nn::detail {

namespace {

using State = StateAccess::State;

constexpr std::string_view head_name = "lm_head";

const Module* child_of(const Module& module, std::string_view name) {
  for (const auto& [own, child] : StateAccess::state(module).children) {
    if (own == name) return &child;
  }
  return nullptr;
}

/// Whether the model was constructed without an output layer.
bool is_tied(const Module& module) {
  const State& state = StateAccess::state(module);
  return state.type == TypeId::of<CausalLM>() && state.config.get_or("tied", false);
}

/// Null if the embedding has another weight now, for example quantized.
const State::Entry* weight_entry(const Module& module) {
  return find_entry(StateAccess::state(module).parameters, "weight");
}

std::optional<Module> embedding_of(const Module& model) {
  const Module* const decoder = child_of(model, "model");
  const Module* const tokens = decoder == nullptr ? nullptr : child_of(*decoder, "embed_tokens");
  if (tokens == nullptr || weight_entry(*tokens) == nullptr) return {};
  return *tokens;
}

Module head_over(const Module& embedding) {
  const ModuleTensor& weight = weight_entry(embedding)->tensor;
  const Linear head(0, 0, false);
  State& state = StateAccess::state(head);
  state.slots.find("weight")->set(weight);
  state.config = {{"in_features", weight.size(1)}, {"out_features", weight.size(0)}, {"bias", false}};
  state.extra_repr = state.config.text();
  state.training = StateAccess::state(embedding).training;
  return head;
}

Tensor linear_with(Module& layer, const Tensor& x, Location where) {
  if (forms_of(layer) != nullptr) return linear_with_forms(layer, x, where);
  return linear(x, weight_entry(layer)->tensor, {}, where);
}

}  // namespace

std::vector<TiedHead> tied_heads(const Module& model) {
  std::vector<TiedHead> out;
  for (const auto& [path, module] : model.named_modules()) {
    if (!is_tied(module)) continue;
    const std::optional<Module> embedding = embedding_of(module);
    if (!embedding) continue;
    const Module* const present = child_of(module, head_name);
    out.push_back({joined(path, std::string(head_name)), module, *embedding,
                   present != nullptr ? *present : head_over(*embedding), present == nullptr});
  }
  return out;
}

std::vector<std::pair<std::string, Module>> layers_for_adapters(const Module& model) {
  auto out = model.named_modules();
  for (const TiedHead& head : tied_heads(model)) {
    if (head.is_new) out.emplace_back(head.name, head.layer);
  }
  return out;
}

const Module* tied_head_of(const Module& model) { return child_of(model, head_name); }

Tensor forward_tied_head(const Module& head, const Tensor& x, Location where) {
  constexpr OneTensorForward forward = {
      linear_with, [](const Module& layer) -> Shared<Module> { return Shared<Module>::make(layer); }};
  const ForwardScope scope(head, where);
  Module layer = head;
  if (const ModuleHooks* hooks = StateAccess::state(head).hooks.get()) {
    return call_with_hooks(layer, *hooks, forward, x, where);
  }
  return linear_with(layer, x, where);
}

void untie(const TiedHead& head) {
  State& model = StateAccess::state(head.model);
  if (head.is_new) {
    StateAccess::state(head.layer).registered = true;
    model.children.emplace_back(head_name, head.layer);
  }
  model.config.set("tied", false);
  model.changes.note();
}

}  // namespace weft::nn::detail
