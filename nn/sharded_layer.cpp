#include "sharded_layer-inl.hpp"

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/join.hpp"
#include "../ops/matmul.hpp"
#include "../ops/pointwise.hpp"
#include "lora/low_rank-inl.hpp"
#include "moe/routing-inl.hpp"

namespace weft::nn::detail {

Tensor ShardedLayer::sum(const Tensor& term, const Tensor& bias) const {
  const Tensor all = output(term);
  return bias.defined() ? all + shared(bias).to(all.dtype()) : all;
}

Tensor ShardedLayer::over_heads(const Tensor&, bool) const {
  raise<ValueError>({.problem = "attention is cut by heads"});
}

Tensor ShardedLayer::embedding(const Tensor&, const Tensor&, int64_t) const {
  raise<ValueError>({.problem = "an embedding is cut along its rows"});
}

Tensor ShardedLayer::through_experts(const Tensor&, const Routed&, const Tensor&, const Tensor&, ExpertKind) const {
  raise<ValueError>({.problem = "a mixture of experts is cut by experts"});
}
RouterSums ShardedLayer::sums(const RouterSums& own) const { return own; }

Tensor ShardedLayer::shard_of(const Tensor& whole, int dim, int64_t equal) const {
  const int64_t block = whole.size(dim) / equal, size = block / count;
  std::vector<Tensor> pieces;
  for (int64_t b = 0; b < equal; ++b) pieces.push_back(whole.narrow(dim, b * block + index * size, size));
  return pieces.size() == 1 ? pieces[0] : cat(pieces, dim);
}

namespace {

using State = StateAccess::State;

std::optional<int> shard_dim_of(const Module& layer, const ShardedLayer& sharding, std::string_view name) {
  if (name.find("parametrizations.") != std::string_view::npos || name == "lora_merged") return {};
  const CodeFormat* const codes = code_format_of(layer);
  if (codes == nullptr || !is_of_codes(name)) return sharding.shard_dim(name);
  const std::optional<int> dim = sharding.shard_dim("weight");
  const bool is_sharded = sharding_of(layer) != nullptr;
  const bool has_own_scales = codes->shards_scales(is_sharded && dim == 1 ? sharding.count : 1);
  return dim == 1 && name != "codes" && !has_own_scales ? std::nullopt : dim;
}

int64_t blocks_of(const Module& layer, const ShardedLayer& sharding, std::string_view name) {
  const LowRank* const lora = adapter_of(layer);
  if (name == "lora_B.weight" && lora != nullptr && !lora->options.enable.empty()) {
    return std::ranges::count(lora->options.enable, true);
  }
  return sharding.blocks_of(is_of_codes(name) ? "weight" : name);
}

/// A tensor to shard, its dimension and its number of blocks.
struct Cut {
  std::string name;
  Tensor tensor;
  int dim;
  int64_t blocks;
};
Cut cut_of(const Module& layer, const ShardedLayer& sharding, const std::string& name, const Tensor& tensor, int dim) {
  return {name, tensor, dim, dim == 0 ? blocks_of(layer, sharding, name) : 1};
}
std::vector<Cut> cuts_of(const Module& layer, const ShardedLayer& sharding) {
  const State& state = StateAccess::state(layer);
  std::vector<Cut> out;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    const std::optional<int> dim = shard_dim_of(layer, sharding, name);
    if (dim) out.push_back(cut_of(layer, sharding, name, tensor, *dim));
  };
  for (const State::Entry& entry : state.parameters) add(entry.name, entry.tensor);
  for (const State::Entry& entry : state.buffers) {
    if (code_format_of(layer) != nullptr && is_of_codes(entry.name)) add(entry.name, entry.tensor);
  }
  if (const LowRank* lora = adapter_of(layer)) {
    add("lora_A.weight", lora->a.weight);
    add("lora_B.weight", lora->b.weight);
  }
  return out;
}

/// The shards of computed tensors, for `check` alone.
std::vector<Cut> computed_cuts_of(const Module& layer, const ShardedLayer& sharding) {
  std::vector<Cut> out;
  for (const ParametrizedTensor& p : parametrized_of(layer)) {
    if (const auto dim = sharding.shard_dim(p.name)) out.push_back(cut_of(layer, sharding, p.name, p.member, *dim));
  }
  return out;
}

void check(const Module& layer, const ShardedLayer& sharding, Location where) {
  if (sharding_of(layer) != nullptr) raise<ValueError>({.problem = "the layer is in parts already"});
  const std::vector<Cut> computed = computed_cuts_of(layer, sharding);
  if (!computed.empty() && !sharding.replicated(computed[0].tensor)) {
    raise<ValueError>({.problem = "a parametrized layer is not cut into parts"});
  }
  check_form(nullptr, layer, layer.class_name(), Form::sharded, where);
  const LowRank* const lora = adapter_of(layer);
  const bool fits = lora == nullptr || lora->options.enable.empty() ||
                    std::ssize(lora->options.enable) == sharding.blocks_of("weight");
  if (!fits) raise<ValueError>({.problem = "the layer's adapter has other blocks"});
  for (const auto& cuts : {cuts_of(layer, sharding), computed}) {
    for (const auto& [name, tensor, dim, blocks] : cuts) {
      if (dim < tensor.dim() && tensor.size(dim) % (sharding.count * blocks) == 0) continue;
      raise<ValueError>({.problem = fmt::format("{} ranks do not divide dimension {} of {}", sharding.count, dim, name),
                         .details = tensor.shape().text()});
    }
  }
}

}  // namespace

void shard_layer(const Module& module, Shared<const ShardedLayer> sharding, Location where) {
  State& state = StateAccess::state(module);
  check(module, *sharding, where);
  Shared<const CodeFormat> format;
  if (const CodeFormat* codes = code_format_of(module); codes != nullptr && sharding->shard_dim("weight") == 1) {
    format = Shared<CodeFormat>::make(codes->shard(sharding->count));
  }
  const NoGradGuard unrecorded;
  for (const auto& [name, tensor, dim, blocks] : cuts_of(module, *sharding)) {
    tensor.set_grad({});
    replace_memory(tensor, sharding->shard_of(tensor.detach(), dim, blocks).clone(), where);
  }
  if (sharding->count > 1) {
    state.extra_repr +=
        fmt::format("{}part {} of {}", state.extra_repr.empty() ? "" : ", ", sharding->index, sharding->count);
  }
  WeightForms& forms = state.forms.get_or_make();
  if (format != nullptr) forms.format = std::move(format);
  forms.sharding = std::move(sharding);
  state.changes.note();
}

std::optional<int> shard_dim_of(const Module& layer, std::string_view name) {
  return shard_dim_of(layer, *sharding_of(layer), name);
}
int64_t blocks_of(const Module& layer, std::string_view name) { return blocks_of(layer, *sharding_of(layer), name); }
bool is_of(const Module& module, TypeId layer) { return StateAccess::state(module).type == layer; }
const ShardedLayer* sharding_of(const Module& module) {
  const WeightForms* const forms = forms_of(module);
  return forms == nullptr ? nullptr : forms->sharding.get();
}

ShardRngScope::ShardRngScope(int index, Device device)
    : generator_(default_generator(device)), outer_(generator_.state().subsequence) {
  GeneratorState state = generator_.state();
  state.subsequence += static_cast<uint64_t>(index) + 1;
  generator_.set_state(state);
}

ShardRngScope::~ShardRngScope() {
  GeneratorState state = generator_.state();
  state.subsequence = outer_;
  generator_.set_state(state);
}

}  // namespace weft::nn::detail
