#include "layer_in_parts-inl.hpp"

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/join.hpp"
#include "../ops/matmul.hpp"
#include "../ops/pointwise.hpp"
#include "lora/low_rank-inl.hpp"
#include "moe/routing-inl.hpp"

namespace weft::nn::detail {

Tensor LayerInParts::linear(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
  if (!sums()) return output(weft::linear(input(x), weight, bias));
  return sum(weft::linear(input(x), weight, {}), bias);
}

Tensor LayerInParts::sum(const Tensor& term, const Tensor& bias) const {
  const Tensor all = output(term);
  return bias.defined() ? all + shared(bias).to(all.dtype()) : all;
}

Tensor LayerInParts::over_heads(const Tensor&, bool) const {
  raise<ValueError>({.problem = "attention is cut by heads"});
}

Tensor LayerInParts::embedding(const Tensor&, const Tensor&, int64_t) const {
  raise<ValueError>({.problem = "an embedding is cut along its rows"});
}

Tensor LayerInParts::through_experts(const Tensor&, const Routed&, const Tensor&, const Tensor&, ExpertKind) const {
  raise<ValueError>({.problem = "a mixture of experts is cut by experts"});
}
RouterSums LayerInParts::sums(const RouterSums& own) const { return own; }

Tensor LayerInParts::part_of(const Tensor& whole, int dim, int64_t equal) const {
  const int64_t block = whole.size(dim) / equal, size = block / count;
  std::vector<Tensor> pieces;
  for (int64_t b = 0; b < equal; ++b) pieces.push_back(whole.detach().narrow(dim, b * block + index * size, size));
  return pieces.size() == 1 ? pieces[0].clone() : cat(pieces, dim);
}

namespace {

using State = StateAccess::State;

int64_t blocks_of(const State& state, const LayerInParts& parts, std::string_view name) {
  const LowRank* const lora = state.adapter.held.get();
  if (name != "lora_B.weight" || lora == nullptr || lora->options.enable.empty()) return parts.blocks_of(name);
  return std::ranges::count(lora->options.enable, true);
}

/// A tensor to shard, its dimension and its number of blocks.
struct Cut {
  std::string name;
  Tensor tensor;
  int dim;
  int64_t blocks;
};
std::vector<Cut> cuts_of(const State& state, const LayerInParts& parts) {
  std::vector<Cut> out;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    const std::optional<int> dim = parts.cut(name);
    if (dim) out.push_back({name, tensor, *dim, *dim == 0 ? blocks_of(state, parts, name) : 1});
  };
  for (const State::Entry& entry : state.parameters) add(entry.name, entry.tensor);
  if (const LowRank* lora = state.adapter.held.get()) {
    add("lora_A.weight", lora->a.weight);
    add("lora_B.weight", lora->b.weight);
  }
  return out;
}

void check(const State& state, const LayerInParts& parts) {
  if (state.in_parts != nullptr || !state.parametrized.empty()) {
    raise<ValueError>({.problem = state.in_parts != nullptr ? "the layer is in parts already"
                                                            : "a parametrized layer is not cut into parts"});
  }
  if (state.adapter.held != nullptr && (state.adapter.held->of_embedding || state.adapter.held->merged)) {
    raise<ValueError>({.problem = "the layer has an adapter that is merged, or an embedding's"});
  }
  const bool fits = state.adapter.held == nullptr || state.adapter.held->options.enable.empty() ||
                    std::ssize(state.adapter.held->options.enable) == parts.blocks_of("weight");
  if (!fits) raise<ValueError>({.problem = "the layer's adapter has other blocks"});
  for (const auto& [name, tensor, dim, blocks] : cuts_of(state, parts)) {
    if (dim < tensor.dim() && tensor.size(dim) % (parts.count * blocks) == 0) continue;
    raise<ValueError>({.problem = fmt::format("{} ranks do not divide dimension {} of {}", parts.count, dim, name),
                       .details = tensor.shape().text()});
  }
}

}  // namespace

void put_in_parts(const Module& module, Shared<const LayerInParts> parts, Location where) {
  State& state = StateAccess::state(module);
  check(state, *parts);
  const NoGradGuard unrecorded;
  for (const auto& [name, tensor, dim, blocks] : cuts_of(state, *parts)) {
    tensor.set_grad({});
    replace_memory(tensor, parts->part_of(tensor, dim, blocks), where);
  }
  if (parts->count > 1) {
    state.extra_repr +=
        fmt::format("{}part {} of {}", state.extra_repr.empty() ? "" : ", ", parts->index, parts->count);
  }
  state.in_parts = std::move(parts);
}

int64_t blocks_of(const Module& layer, std::string_view name) {
  return blocks_of(StateAccess::state(layer), *parts_of(layer), name);
}
bool is_of(const Module& module, TypeId layer) { return StateAccess::state(module).type == layer; }
const LayerInParts* parts_of(const Module& module) { return StateAccess::state(module).in_parts.get(); }

DrawsOfPart::DrawsOfPart(int index, Device device)
    : generator_(default_generator(device)), outer_(generator_.state().subsequence) {
  GeneratorState state = generator_.state();
  state.subsequence += static_cast<uint64_t>(index) + 1;
  generator_.set_state(state);
}

DrawsOfPart::~DrawsOfPart() {
  GeneratorState state = generator_.state();
  state.subsequence = outer_;
  generator_.set_state(state);
}

}  // namespace weft::nn::detail
