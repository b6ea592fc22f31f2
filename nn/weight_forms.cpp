#include "weight_forms-inl.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/matmul.hpp"
#include "../ops/index.hpp"
#include "attention.hpp"
#include "lora/low_rank-inl.hpp"
#include "module_state-inl.hpp"
#include "path-inl.hpp"

namespace weft::nn::detail {

namespace {

using State = StateAccess::State;

const State::Entry* parameter_of(const Module& layer, std::string_view name) {
  return find_entry(StateAccess::state(layer).parameters, name);
}

/// The shard of a computed tensor, recorded.
Tensor own_shard(const ShardedLayer* sharding, const std::string& name, const Tensor& whole) {
  const std::optional<int> dim = sharding != nullptr ? sharding->shard_dim(name) : std::nullopt;
  if (!dim || !whole.defined()) return whole;
  return sharding->shard_of(*sharding->replicated(whole), *dim, *dim == 0 ? sharding->blocks_of(name) : 1);
}

}  // namespace

WeightForms* forms_of(const Module& layer) { return StateAccess::state(layer).forms.get(); }

const std::vector<ParametrizedTensor>& parametrized_of(const Module& module) {
  static const std::vector<ParametrizedTensor> none;
  const WeightForms* const forms = forms_of(module);
  return forms == nullptr ? none : forms->parametrized;
}

Tensor parametrized_shard(const Module& layer, const ParametrizedTensor& p, Location where) {
  p.asked->store(true, MemoryOrder::relaxed);
  return own_shard(sharding_of(layer), p.name, p.value(where));
}

Tensor current_tensor(const Module& layer, std::string_view name, Location where) {
  if (const State::Entry* entry = parameter_of(layer, name)) return entry->tensor;
  const ParametrizedTensor* const p = find_parametrized(layer, name);
  return p == nullptr ? Tensor() : parametrized_shard(layer, *p, where);
}

Tensor base_weight(const Module& layer, Location where) {
  const CodeFormat* const codes = code_format_of(layer);
  if (codes == nullptr) return current_tensor(layer, "weight", where);
  return codes->decoded(layer, where);
}

bool has_weight_matrix(const Module& layer) {
  if (code_format_of(layer) != nullptr) return true;
  if (const State::Entry* entry = parameter_of(layer, "weight")) return entry->tensor.dim() == 2;
  const ParametrizedTensor* const p = find_parametrized(layer, "weight");
  return p != nullptr && p->member.dim() == 2;
}

std::unordered_set<std::string> layers_without_forms(const Module& model) {
  std::unordered_set<std::string> out;
  for (const auto& [name, module] : model.named_modules()) {
    if (is_of(module, TypeId::of<MultiheadAttention>())) out.insert(joined(name, "out_proj"));
  }
  return out;
}

BaseWeight describe_base(const Module& layer, Location where) {
  if (const State::Entry* entry = parameter_of(layer, "weight")) {
    return {entry->tensor.shape(), entry->tensor.dtype(), entry->tensor.device(), entry->tensor};
  }
  if (const CodeFormat* codes = code_format_of(layer)) return codes->describe(layer);
  const NoGradGuard unrecorded;
  const Tensor value = current_tensor(layer, "weight", where);
  return {value.shape(), value.dtype(), value.device(), {}};
}

void set_stored(const Module& layer, std::string_view name, const Tensor& value) {
  State& state = StateAccess::state(layer);
  if (Slot* const slot = state.slots.find(name)) return slot->set(value);
  if (State::Entry* const entry = find_entry(state.parameters, name)) static_cast<Tensor&>(entry->tensor) = value;
  else state.parameters.insert(state.parameters.begin(), {std::string(name), held_as_it_is(value)});
  state.changes.note();
}

namespace {

/// The weight below the adapter; undefined if products read the adapter's own sum instead.
Tensor read_weight(const Module& layer, const LowRank* lora, Location where) {
  return lora != nullptr && lora->own_sum.defined() ? Tensor() : current_tensor(layer, "weight", where);
}

}  // namespace

Tensor linear_with_forms(const Module& layer, const Tensor& x, Location where) {
  const WeightForms& forms = *forms_of(layer);
  const LowRank* const lora = forms.adapter.held.get();
  const BaseProduct base{layer, forms.format.get(), read_weight(layer, lora, where), where};
  const Tensor bias = current_tensor(layer, "bias", where);
  if (lora != nullptr) {
    return lora->linear(base, x, bias, layer.is_training(), where, forms.sharding.get());
  }
  if (forms.sharding == nullptr) return base(x, bias);
  const CallScope call("Linear", where);
  return forms.sharding->linear(x, bias, base);
}

Tensor embedding_with_forms(const Module& layer, const Tensor& indices, int64_t padding, Location where) {
  const WeightForms& forms = *forms_of(layer);
  const LowRank* const lora = forms.adapter.held.get();
  const ShardedLayer* const sharding = forms.sharding.get();
  if (lora == nullptr && sharding == nullptr) return {};
  const Tensor weight = read_weight(layer, lora, where);
  if (lora != nullptr) return lora->embedding(weight, indices, padding, layer.is_training(), where, sharding);
  const CallScope call("Embedding", where);
  return sharding->embedding(weight, indices, padding);
}

// ---- combinations ---------------------------------------------------------------------------------------------------

void check_form(const char* op, const Module& layer, const std::string& name, Form added, Location where) {
  const LowRank* const lora = adapter_of(layer);
  const bool is_merged = lora != nullptr && lora->merged, is_shared = lora != nullptr && lora->is_shared;
  const bool is_computed = find_parametrized(layer, "weight") != nullptr;
  const bool stores_weight = added != Form::sharded;
  struct Refused {
    bool holds;
    const char *present, *remedy;
  };
  const Refused table[] = {
      {is_merged, "merged with its adapter", "unmerge_lora(model) first"},
      {is_shared && stores_weight, "one of several layers with one adapter", "apply_lora with share = false"},
      {is_computed && added == Form::codes, "parametrized",
       "remove_parametrizations(layer, \"weight\") first, or targets that do not find it"},
      {sharding_of(layer) != nullptr && added == Form::parametrized, "sharded",
       "parametrize a layer before it is sharded"}};
  for (const auto& [holds, present, remedy] : table) {
    if (!holds) continue;
    constexpr const char* names[] = {"quantized", "parametrized", "sharded"};
    raise<ValueError>(
        {.op = op,
         .problem = fmt::format("\"{}\" is {} and cannot be {}", name, present, names[static_cast<size_t>(added)]),
         .remedy = remedy},
        where);
  }
}

}  // namespace weft::nn::detail
