#include <fmt/format.h>

#include "../../nn/layers.hpp"
#include "../../ops/index.hpp"
#include "../../ops/matmul.hpp"
#include "../../ops/pointwise.hpp"
#include "../detail/member.hpp"
#include "../tensor_parallel.hpp"
#include "checks-inl.hpp"

namespace weft::distributed {

namespace {

/// How long each rank's part is.
int64_t part_size(const char* layer, const char* what, int64_t size, const Group& group, Location where) {
  const CallScope call(layer, where);
  group.member().check_member();
  if (size % group.size() == 0) return size / group.size();
  raise<ValueError>({.problem = fmt::format("{} ranks do not divide {} {}", group.size(), what, size)});
}

Tensor own_part(const Tensor& whole, int dim, int64_t size, const Group& group) {
  return whole.detach().narrow(dim, size * group.rank(), size).clone();
}

/// The part of a tensor that this rank has along `dim`, which all ranks have as much of.
io::ShardedTensor shard(const Tensor& part, int dim, const Group& group) {
  io::ShardedTensor out{part.detach(), part.shape(), Dims::filled(part.dim(), 0)};
  out.global_shape[dim] *= group.size();
  out.global_offset[dim] = part.size(dim) * group.rank();
  return out;
}

/// The sum of all ranks' terms: all of it, or this rank's part of the sequence.
Tensor sum_of_terms(const Tensor& term, bool in_parts, const Group& group) {
  if (!in_parts || group.size() == 1) return reduce_from_tensor_parallel(term, group);
  const int sequence = wrap_dim(-2, term.dim());
  if (term.size(sequence) % group.size() != 0) {
    raise<ValueError>(
        {.problem = fmt::format("{} ranks do not divide a sequence of {}", group.size(), term.size(sequence))});
  }
  return reduce_scatter(term, group, ReduceOp::sum, sequence);
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(int64_t in, int64_t out, ColumnParallelOptions options, Location where)
    : options_(std::move(options)) {
  const int64_t size = part_size("ColumnParallelLinear", "out", out, options_.group, where);
  const nn::Linear whole(in, out, options_.bias, where);
  weight = own_part(whole.weight, 0, size, options_.group);
  if (options_.bias) bias = own_part(whole.bias, 0, size, options_.group);
  WEFT_REGISTER(weight, bias);
  set_config({{"in_features", in},
              {"out_features", out},
              {"bias", options_.bias},
              {"gather_output", options_.gather_output},
              {"sequence_parallel", options_.sequence_parallel}});
}

Tensor ColumnParallelLinear::forward(const Tensor& x, Location where) const {
  const CallScope call("ColumnParallelLinear", where);
  const Group& group = options_.group;
  const bool gathers = options_.sequence_parallel && group.size() > 1;
  const Tensor all = gathers ? all_gather(x, group, wrap_dim(-2, checked(x).dim())) : copy_to_tensor_parallel(x, group);
  const Tensor y = linear(all, borrowed(weight), borrowed(bias));
  return options_.gather_output ? gather_from_tensor_parallel(y, group) : y;
}

io::ShardedState ColumnParallelLinear::sharded_state(const std::string& prefix) const {
  io::ShardedState out{{prefix + "weight", shard(weight, 0, options_.group)}};
  if (bias.defined()) out.emplace(prefix + "bias", shard(bias, 0, options_.group));
  return out;
}

RowParallelLinear::RowParallelLinear(int64_t in, int64_t out, RowParallelOptions options, Location where)
    : options_(std::move(options)) {
  const int64_t size = part_size("RowParallelLinear", "in", in, options_.group, where);
  const nn::Linear whole(in, out, options_.bias, where);
  weight = own_part(whole.weight, 1, size, options_.group);
  if (options_.bias) bias = whole.bias.detach();
  WEFT_REGISTER(weight, bias);
  set_config({{"in_features", in},
              {"out_features", out},
              {"bias", options_.bias},
              {"input_is_parallel", options_.input_is_parallel},
              {"sequence_parallel", options_.sequence_parallel}});
}

Tensor RowParallelLinear::forward(const Tensor& x, Location where) const {
  const CallScope call("RowParallelLinear", where);
  const Group& group = options_.group;
  const Tensor part = options_.input_is_parallel ? x : scatter_to_tensor_parallel(x, group);
  const Tensor sum = sum_of_terms(linear(part, borrowed(weight), {}), options_.sequence_parallel, group);
  if (!bias.defined()) return sum;
  // Each rank adds it to its own part of the sequence alone.
  return sum + (options_.sequence_parallel ? copy_to_tensor_parallel(borrowed(bias), group) : borrowed(bias).get());
}

io::ShardedState RowParallelLinear::sharded_state(const std::string& prefix) const {
  io::ShardedState out{{prefix + "weight", shard(weight, 1, options_.group)}};
  if (bias.defined()) out.emplace(prefix + "bias", io::ShardedTensor{bias.detach(), bias.shape(), Dims::filled(1, 0)});
  return out;
}

VocabParallelEmbedding::VocabParallelEmbedding(int64_t count, int64_t width, VocabParallelOptions options,
                                               Location where)
    : options_(std::move(options)), count_(count) {
  const int64_t size = part_size("VocabParallelEmbedding", "count", count, options_.group, where);
  const nn::Embedding whole(count, width, 1, nn::Embedding::no_padding, where);
  weight = own_part(whole.weight, 0, size, options_.group);
  WEFT_REGISTER(weight);
  set_config({{"num_embeddings", count}, {"embedding_dim", width}, {"sequence_parallel", options_.sequence_parallel}});
}

Tensor VocabParallelEmbedding::forward(const Tensor& indices, Location where) const {
  const CallScope call("VocabParallelEmbedding", where);
  detail::check_integers(indices);
  const Tensor given = indices.to(i64);
  detail::check_none(logical_or(given < -count_, given >= count_),
                     fmt::format("an index is beyond the {} rows", count_));
  const int64_t size = weight.size(0);
  const Tensor local = weft::where(given < 0, given + count_, given) - size * options_.group.rank();
  const Tensor elsewhere = logical_or(local < 0, local >= size);
  const Tensor rows = embedding(borrowed(weight), masked_fill(local, elsewhere, 0));
  return sum_of_terms(masked_fill(rows, elsewhere.unsqueeze(-1), 0), options_.sequence_parallel, options_.group);
}

io::ShardedState VocabParallelEmbedding::sharded_state(const std::string& prefix) const {
  return {{prefix + "weight", shard(weight, 0, options_.group)}};
}

}  // namespace weft::distributed
