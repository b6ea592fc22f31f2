// Layers whose weights are sharded over the ranks of a group, with activations that are the same on all ranks (Shoeybi
// et al. 2019).
//
//   ColumnParallelLinear up(512, 2048, {.group = tp});    // each rank computes its shard of the hidden features
//   RowParallelLinear down(2048, 512, {.group = tp});     // and a term of the result
//   Tensor y = down(gelu(up(x)));                         // one all_reduce, and one in backward
//
// Every rank of the group calls the same functions in the same order, and computes the same loss. Gradients are those
// of this one loss, not of the sum of all ranks' losses as for collectives. A group of one rank sends nothing.
//
// Parameters are initialized as those of the whole layer, and each rank keeps its shard. So ranks with equal generator
// states together initialize one layer, and their generator states are still equal afterwards.
#pragma once

#include "../io/sharded_state.hpp"
#include "../nn/layers.hpp"
#include "../ops/loss.hpp"
#include "collectives.hpp"

namespace weft::distributed {

// ---- conversions between whole and sharded activations; each function is the backward of its neighbour ----
/// x itself; the gradient is the sum of the ranks' gradients.
WEFT_API Tensor copy_to_tensor_parallel(const Tensor& x, const Group& group = world(), Location where = {});
/// The sum of the ranks' x, on every rank. The gradient is passed on unchanged.
WEFT_API Tensor reduce_from_tensor_parallel(const Tensor& x, const Group& group = world(), Location where = {});
/// This rank's shard along `dim` of x, which is the same on all ranks; backward gathers the gradient's shards. Raises
/// ValueError unless the number of ranks divides the size.
WEFT_API Tensor scatter_to_tensor_parallel(const Tensor& x, const Group& group = world(), int dim = -1,
                                           Location where = {});
/// Concatenates all ranks' x along `dim`; backward keeps this rank's shard of the gradient.
WEFT_API Tensor gather_from_tensor_parallel(const Tensor& x, const Group& group = world(), int dim = -1,
                                            Location where = {});
// For sequence parallelism, use all_gather before and reduce_scatter after a sharded computation: their gradients are
// correct here.

struct ColumnParallelOptions {
  bool bias = true;
  /// The result is whole, [..., out], instead of this rank's shard [..., out / ranks].
  bool gather_output = false;
  /// x is this rank's shard of the sequence, [..., S / ranks, in]; the result covers the whole sequence.
  bool sequence_parallel = false;
  /// Number of equal blocks of outputs, such as queries, keys and values; each block is sharded.
  int64_t blocks = 1;
  Group group = world();
};
/// nn::Linear with sharded outputs: weight [out / ranks, in] and bias [out / ranks]. Raises ValueError unless the
/// number of ranks divides out, and for negative sizes.
class WEFT_API ColumnParallelLinear : public nn::Linear {
 public:
  ColumnParallelLinear(int64_t in, int64_t out, const ColumnParallelOptions& options = {}, Location where = {});
};

struct RowParallelOptions {
  bool bias = true;
  /// x is this rank's shard of the features, [..., in / ranks], instead of [..., in].
  bool input_is_parallel = true;
  /// The result is this rank's shard of the sequence, [..., S / ranks, out]. A call raises ValueError unless the number
  /// of ranks divides S.
  bool sequence_parallel = false;
  Group group = world();
};
/// nn::Linear with sharded inputs: weight [out, in / ranks], and bias [out], which is added once, after the sum over
/// ranks. Raises ValueError unless the number of ranks divides in, and for negative sizes.
class WEFT_API RowParallelLinear : public nn::Linear {
 public:
  RowParallelLinear(int64_t in, int64_t out, const RowParallelOptions& options = {}, Location where = {});
};

struct VocabParallelOptions {
  /// The result is this rank's shard of the sequence, as for RowParallelLinear.
  bool sequence_parallel = false;
  Group group = world();
};
/// nn::Embedding with sharded rows: each rank has the rows [rank · count / ranks, …), weight [count / ranks, width].
/// Every rank passes the same indices, and gets all of their rows. Raises ValueError unless the number of ranks divides
/// count, and for negative sizes; a call raises IndexError for indices outside [-count, count), and DTypeError unless
/// they are integers.
class WEFT_API VocabParallelEmbedding : public nn::Embedding {
 public:
  VocabParallelEmbedding(int64_t count, int64_t width, const VocabParallelOptions& options = {}, Location where = {});
};

// ---- convert whole layers to sharded ones, in place, for all copies of the module ----
/// Keeps this rank's part of the weight: cut_columns as ColumnParallelLinear, cut_rows as RowParallelLinear,
/// cut_vocabulary as VocabParallelEmbedding. Raises ValueError for another layer.
WEFT_API void cut_columns(const nn::Module& layer, const ColumnParallelOptions& options = {}, Location where = {});
WEFT_API void cut_rows(const nn::Module& layer, const RowParallelOptions& options = {}, Location where = {});
WEFT_API void cut_vocabulary(const nn::Module& layer, const VocabParallelOptions& options = {}, Location where = {});

struct HeadParallelOptions {
  /// Queries, keys, values and output are this rank's shards of their sequences.
  bool sequence_parallel = false;
  Group group = world();
};
/// Shards the heads of an nn::MultiheadAttention, also that of a transformer layer: rows of in_proj_weight, or of
/// q_proj_weight, k_proj_weight and v_proj_weight, and columns of out_proj. Masks cover all heads, and so do the
/// attention weights that a call returns. Raises ValueError unless the number of ranks divides the heads.
WEFT_API void cut_heads(const nn::Module& layer, const HeadParallelOptions& options = {}, Location where = {});

/// This rank's shards of a model's parameters and buffers, by name after `prefix`, for states that other numbers of
/// ranks can load; tensors that are not sharded are whole. Shares memory with them.
WEFT_API io::ShardedState sharded_state(const nn::Module& model, const std::string& prefix = {}, Location where = {});
/// Loads a sharded_state saved on any number of ranks. Raises the errors of io::load_state_dict.
WEFT_API void load_sharded_state(const nn::Module& model, const io::Path& folder,
                                 const io::LoadStateDictOptions& options = {}, const std::string& prefix = {},
                                 Location where = {});

struct ParallelCrossEntropyOptions {
  LossReduction reduction = LossReduction::mean;
  /// Targets with this value add no loss and do not count in the mean.
  int64_t ignore_index = -100;
  Group group = world();
};
/// cross_entropy of logits whose classes are sharded equally, in rank order: [..., C / ranks], along the last
/// dimension. Targets [...] are integers in [0, C), the same on all ranks. The logits are never gathered: for each
/// target, ranks exchange a maximum, a sum and a logit. Every rank gets the loss, in the logits' dtype; the gradient
/// for its own classes needs no communication. 16-bit floats are computed in f32. Raises ShapeError if targets do not
/// fit; DTypeError unless logits are floating and targets integers; IndexError for a target outside the classes.
WEFT_API Tensor parallel_cross_entropy(const Tensor& logits, const Tensor& targets,
                                       ParallelCrossEntropyOptions options = {}, Location where = {});

}  // namespace weft::distributed
