#include <algorithm>

#include <fmt/format.h>

#include "../../nn/attention.hpp"
#include "../../nn/sharded_layer-inl.hpp"
#include "../../nn/layers.hpp"
#include "../../ops/index.hpp"
#include "../../ops/join.hpp"
#include "../../ops/pieces.hpp"
#include "../../ops/pointwise.hpp"
#include "../detail/member.hpp"
#include "../tensor_parallel.hpp"
#include "checks-inl.hpp"

namespace weft::distributed {

namespace {

using nn::detail::ShardedLayer;

/// The sum of all ranks' terms: whole, or this rank's shard of the sequence.
Tensor sum_of_terms(const Tensor& term, bool in_parts, const Group& group) {
  if (!in_parts || group.size() == 1) return reduce_from_tensor_parallel(term, group);
  const int sequence = wrap_dim(-2, term.dim());
  if (term.size(sequence) % group.size() != 0) {
    raise<ValueError>(
        {.problem = fmt::format("{} ranks do not divide a sequence of {}", group.size(), term.size(sequence))});
  }
  return reduce_scatter(term, group, ReduceOp::sum, sequence);
}

/// Input of a sharded computation, from an x that all ranks have or that is sharded along the sequence.
Tensor for_parts(const Tensor& x, bool in_parts, const Group& group) {
  if (!in_parts || group.size() == 1) return copy_to_tensor_parallel(x, group);
  return all_gather(x, group, wrap_dim(-2, checked(x).dim()));
}

/// A replicated tensor that is added to a result of sum_of_terms: with `in_parts`, each rank adds it to its shard of
/// the sequence only.
Tensor for_sums(const Tensor& whole, bool in_parts, const Group& group) {
  return in_parts ? copy_to_tensor_parallel(whole, group) : whole;
}

/// A layer sharded over the ranks of a group.
template <class Options>
class OnRanks : public ShardedLayer {
 public:
  explicit OnRanks(Options options)
      : ShardedLayer(options.group.size(), options.group.rank()), options_(std::move(options)) {}
  std::optional<Tensor> replicated(const Tensor& whole) const override {
    return copy_to_tensor_parallel(whole, options_.group);
  }

 protected:
  const Options options_;
};

class Columns final : public OnRanks<ColumnParallelOptions> {
 public:
  using OnRanks::OnRanks;
  Tensor input(const Tensor& x) const override { return for_parts(x, options_.sequence_parallel, options_.group); }
  Tensor output(const Tensor& y) const override {
    if (!options_.gather_output || count == 1) return y;
    if (options_.blocks == 1) return gather_from_tensor_parallel(y, options_.group);
    std::vector<Tensor> pieces = y.split(y.size(-1) / options_.blocks, -1);
    for (Tensor& piece : pieces) piece = gather_from_tensor_parallel(piece, options_.group);
    return cat(pieces, -1);
  }
  Tensor shared(const Tensor& whole) const override { return copy_to_tensor_parallel(whole, options_.group); }
  std::optional<int> shard_dim(std::string_view name) const override {
    return name == "lora_A.weight" ? std::nullopt : std::optional(0);
  }
  int64_t blocks_of(std::string_view) const override { return options_.blocks; }
};

class Rows final : public OnRanks<RowParallelOptions> {
 public:
  using OnRanks::OnRanks;
  bool sums() const override { return true; }
  Tensor input(const Tensor& x) const override {
    return options_.input_is_parallel ? x : scatter_to_tensor_parallel(x, options_.group);
  }
  Tensor output(const Tensor& term) const override {
    return sum_of_terms(term, options_.sequence_parallel, options_.group);
  }
  Tensor shared(const Tensor& whole) const override {
    return for_sums(whole, options_.sequence_parallel, options_.group);
  }
  std::optional<int> shard_dim(std::string_view name) const override {
    return name == "weight" || name == "lora_A.weight" ? std::optional(1) : std::nullopt;
  }
};

class Vocabulary final : public OnRanks<VocabParallelOptions> {
 public:
  using OnRanks::OnRanks;
  Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding) const override {
    detail::check_integers(indices);
    const int64_t size = weight.size(0), all = size * count;
    const Tensor given = indices.to(i64), local = given - size * index;
    detail::check_none(logical_or(given < 0, given >= all), fmt::format("an index is none of the {} rows", all));
    const Tensor elsewhere = logical_or(local < 0, local >= size);
    const int64_t own_padding = padding - size * index;
    const Tensor rows = weft::embedding(weight, masked_fill(local, elsewhere, 0),
                                        padding >= 0 && own_padding >= 0 && own_padding < size ? own_padding : -1);
    return sum_of_terms(masked_fill(rows, elsewhere.unsqueeze(-1), 0), options_.sequence_parallel, options_.group);
  }
  Tensor shared(const Tensor& whole) const override {
    return for_sums(whole, options_.sequence_parallel, options_.group);
  }
  std::optional<int> shard_dim(std::string_view name) const override {
    return name == "lora_A.weight" ? std::nullopt : std::optional(0);
  }
};

class Heads final : public OnRanks<HeadParallelOptions> {
 public:
  using OnRanks::OnRanks;
  Tensor input(const Tensor& x) const override { return for_parts(x, options_.sequence_parallel, options_.group); }
  Tensor over_heads(const Tensor& weights, bool averaged) const override {
    if (averaged) return reduce_from_tensor_parallel(weights, options_.group) / count;
    return gather_from_tensor_parallel(weights, options_.group, -3);
  }
  std::optional<int> shard_dim(std::string_view name) const override {
    if (name == "bias_k" || name == "bias_v") return 2;
    return name.starts_with("out_proj.") ? std::nullopt : std::optional(0);
  }
  int64_t blocks_of(std::string_view name) const override { return name.starts_with("in_proj_") ? 3 : 1; }
};

template <class Parts, class Layer, class Options>
void cut(const char* op, const nn::Module& layer, const Options& options, Location where) {
  const CallScope call(op, where);
  options.group.member().check_member();
  if (!nn::detail::is_of(layer, TypeId::of<Layer>())) {
    raise<ValueError>({.problem = fmt::format("a {} is not cut so", layer.class_name())});
  }
  nn::detail::shard_layer(layer, Shared<Parts>::make(options), where);
}

}  // namespace

void cut_columns(const nn::Module& layer, const ColumnParallelOptions& options, Location where) {
  cut<Columns, nn::Linear>("cut_columns", layer, options, where);
}
void cut_rows(const nn::Module& layer, const RowParallelOptions& options, Location where) {
  cut<Rows, nn::Linear>("cut_rows", layer, options, where);
}
void cut_vocabulary(const nn::Module& layer, const VocabParallelOptions& options, Location where) {
  cut<Vocabulary, nn::Embedding>("cut_vocabulary", layer, options, where);
}

void cut_heads(const nn::Module& layer, const HeadParallelOptions& options, Location where) {
  const CallScope call("cut_heads", where);
  const auto children = layer.named_children();
  const auto out = std::ranges::find(children, "out_proj", &std::pair<std::string, nn::Module>::first);
  const auto heads = layer.config().get_or<int64_t>("num_heads", 0);
  if (out != children.end() && (heads == 0 || heads % options.group.size() != 0)) {
    raise<ValueError>({.problem = fmt::format("{} ranks do not divide {} heads", options.group.size(), heads)});
  }
  if (out != children.end() && nn::detail::sharding_of(out->second) != nullptr) {
    raise<ValueError>({.problem = "the layer is in parts already"});
  }
  cut<Heads, nn::MultiheadAttention>("cut_heads", layer, options, where);
  cut_rows(out->second, {.sequence_parallel = options.sequence_parallel, .group = options.group});
}

ColumnParallelLinear::ColumnParallelLinear(int64_t in, int64_t out, const ColumnParallelOptions& options,
                                           Location where)
    : Linear(in, out, options.bias, where) {
  cut_columns(*this, options, where);
  set_class_name("ColumnParallelLinear");
}

RowParallelLinear::RowParallelLinear(int64_t in, int64_t out, const RowParallelOptions& options, Location where)
    : Linear(in, out, options.bias, where) {
  cut_rows(*this, options, where);
  set_class_name("RowParallelLinear");
}

VocabParallelEmbedding::VocabParallelEmbedding(int64_t count, int64_t width, const VocabParallelOptions& options,
                                               Location where)
    : Embedding(count, width, std::nullopt, where) {
  cut_vocabulary(*this, options, where);
  set_class_name("VocabParallelEmbedding");
}

}  // namespace weft::distributed
