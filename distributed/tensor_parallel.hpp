// Layers whose weights lie in parts on the ranks of a group (Shoeybi et al. 2019), between activations that all have.
//
//   ColumnParallelLinear up(512, 2048, {.group = tp});    // each rank computes its part of the hidden features
//   RowParallelLinear down(2048, 512, {.group = tp});     // and a term of the result
//   Tensor y = down(gelu(up(x)));                         // one all_reduce, and one in backward
//
// Every rank of the group calls the same functions in the same order, and computes the same loss, whose gradient this
// is: not that of the sum of all ranks' losses, as for collectives. A group of one rank sends nothing.
//
// First values are those of the whole layer, of which each rank keeps its part. So ranks whose generators stand alike
// make one layer together, and their generators still stand alike behind it.
#pragma once

#include "../io/sharded_state.hpp"
#include "../nn/layers.hpp"
#include "../ops/loss.hpp"
#include "collectives.hpp"

namespace weft::distributed {

// ---- where activations change between whole and in parts; each is the backward of the one beside it ----
/// x, which all ranks have, for what each makes a part of. The gradient is the sum of the ranks'. Shares x's memory.
WEFT_API Tensor copy_to_tensor_parallel(const Tensor& x, const Group& group = world(), Location where = {});
/// The sum of the ranks' x, on every rank. The gradient is that of the sum.
WEFT_API Tensor reduce_from_tensor_parallel(const Tensor& x, const Group& group = world(), Location where = {});
/// This rank's part along `dim` of x, which all ranks have; the gradient is all ranks' parts. ValueError unless the
/// number of ranks divides the size.
WEFT_API Tensor scatter_to_tensor_parallel(const Tensor& x, const Group& group = world(), int dim = -1,
                                           Location where = {});
/// All ranks' x along `dim`; the gradient is this rank's part.
WEFT_API Tensor gather_from_tensor_parallel(const Tensor& x, const Group& group = world(), int dim = -1,
                                            Location where = {});
// Sequences in parts become whole for what each rank makes a part of by all_gather, and sums of ranks' terms go back
// into parts by reduce_scatter: their gradients are what is needed here.

struct ColumnParallelOptions {
  bool bias = true;
  /// The result is whole, [..., out], instead of this rank's part [..., out / ranks].
  bool gather_output = false;
  /// x is this rank's part of the sequence, [..., S / ranks, in]; the result is of all of it.
  bool sequence_parallel = false;
  /// The outputs are so many equal blocks, such as queries, keys and values, of each of which a rank has its part.
  int64_t blocks = 1;
  Group group = world();
};
/// nn::Linear of which each rank has some of the outputs: weight [out / ranks, in] and bias [out / ranks]. ValueError
/// unless the number of ranks divides out, and for negative sizes.
class WEFT_API ColumnParallelLinear : public nn::Linear {
 public:
  ColumnParallelLinear(int64_t in, int64_t out, const ColumnParallelOptions& options = {}, Location where = {});
};

struct RowParallelOptions {
  bool bias = true;
  /// x is this rank's part of the features, [..., in / ranks], instead of [..., in].
  bool input_is_parallel = true;
  /// The result is this rank's part of the sequence, [..., S / ranks, out], which a call raises ValueError about unless
  /// the number of ranks divides S.
  bool sequence_parallel = false;
  Group group = world();
};
/// nn::Linear of which each rank has some of the inputs: weight [out, in / ranks], and bias [out], which is added once,
/// behind the sum over ranks. ValueError unless the number of ranks divides in, and for negative sizes.
class WEFT_API RowParallelLinear : public nn::Linear {
 public:
  RowParallelLinear(int64_t in, int64_t out, const RowParallelOptions& options = {}, Location where = {});
};

struct VocabParallelOptions {
  /// The result is this rank's part of the sequence, as RowParallelLinear's.
  bool sequence_parallel = false;
  Group group = world();
};
/// nn::Embedding of which each rank has the rows [rank · count / ranks, …): weight [count / ranks, width]. Every rank
/// calls it with the same indices, and gets all of their rows. ValueError unless the number of ranks divides count, and
/// for negative sizes; a call raises IndexError for indices beyond [-count, count), DTypeError unless they are
/// integers.
class WEFT_API VocabParallelEmbedding : public nn::Embedding {
 public:
  VocabParallelEmbedding(int64_t count, int64_t width, const VocabParallelOptions& options = {}, Location where = {});
};

// ---- the same of layers that are whole: those of a model, in place, for all its copies ----
/// All ranks have the same values, of which each keeps its part; gradients are dropped. An adapter of LoRA is cut
/// along, and one that is given later is in parts, too: of columns A is whole and B cut, of rows A is cut and B whole
/// (`options.bias` says nothing here). ValueError as above, for another kind of layer, and for one that is in parts
/// already, is parametrized, or has a merged adapter; then it is as it was.
WEFT_API void cut_columns(const nn::Module& layer, const ColumnParallelOptions& options = {}, Location where = {});
WEFT_API void cut_rows(const nn::Module& layer, const RowParallelOptions& options = {}, Location where = {});
WEFT_API void cut_vocabulary(const nn::Module& layer, const VocabParallelOptions& options = {}, Location where = {});

struct HeadParallelOptions {
  /// Queries, keys, values and output are this rank's parts of their sequences.
  bool sequence_parallel = false;
  Group group = world();
};
/// An nn::MultiheadAttention, as those of transformer layers are, of which each rank has some of the heads: rows of
/// in_proj_weight, or of q_proj_weight, k_proj_weight and v_proj_weight, and columns of out_proj. Masks are those of
/// the whole, and so are the weights that a call gives. ValueError unless the number of ranks divides the heads.
WEFT_API void cut_heads(const nn::Module& layer, const HeadParallelOptions& options = {}, Location where = {});

/// This rank's parts of a model's parameters and buffers, by name behind `prefix`, for states that other numbers of
/// ranks load; what is not in parts is whole. Shares the memory.
WEFT_API io::ShardedState sharded_state(const nn::Module& model, const std::string& prefix = {}, Location where = {});
/// Loads it, saved on any number of ranks. Errors as io::load_state_dict.
WEFT_API void load_sharded_state(const nn::Module& model, const io::Path& folder,
                                 const io::LoadStateDictOptions& options = {}, const std::string& prefix = {},
                                 Location where = {});

struct ParallelCrossEntropyOptions {
  LossReduction reduction = LossReduction::mean;
  /// Targets of this value give no loss and do not count in the mean.
  int64_t ignore_index = -100;
  Group group = world();
};
/// cross_entropy of logits of which each rank has as many classes, [..., C / ranks], in the order of ranks, along the
/// last dimension; targets [...], integers in [0, C), are the same on all ranks. The logits are never gathered: ranks
/// exchange a maximum, and a sum and a logit, for each target. Every rank gets the loss, in the logits' dtype; the
/// gradient is of its own classes, and needs no other rank. 16-bit floats are computed in f32. ShapeError where targets
/// do not fit; DTypeError unless logits are floating and targets integers; IndexError for a target outside the classes.
WEFT_API Tensor parallel_cross_entropy(const Tensor& logits, const Tensor& targets,
                                       ParallelCrossEntropyOptions options = {}, Location where = {});

}  // namespace weft::distributed
