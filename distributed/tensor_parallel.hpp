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
#include "../nn/module.hpp"
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
  Group group = world();
};
/// nn::Linear of which each rank has some of the outputs: weight [out / ranks, in] and bias [out / ranks]. ValueError
/// unless the number of ranks divides out, and for negative sizes.
class WEFT_API ColumnParallelLinear : public nn::Layer<ColumnParallelLinear> {
 public:
  ColumnParallelLinear(int64_t in, int64_t out, ColumnParallelOptions options = {}, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;
  /// This rank's parts by name, behind `prefix`, for states that other numbers of ranks load. Shares the memory.
  io::ShardedState sharded_state(const std::string& prefix = {}) const;

  nn::Parameter weight, bias;

 private:
  ColumnParallelOptions options_;
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
class WEFT_API RowParallelLinear : public nn::Layer<RowParallelLinear> {
 public:
  RowParallelLinear(int64_t in, int64_t out, RowParallelOptions options = {}, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;
  io::ShardedState sharded_state(const std::string& prefix = {}) const;

  nn::Parameter weight, bias;

 private:
  RowParallelOptions options_;
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
class WEFT_API VocabParallelEmbedding : public nn::Layer<VocabParallelEmbedding> {
 public:
  VocabParallelEmbedding(int64_t count, int64_t width, VocabParallelOptions options = {}, Location where = {});
  Tensor forward(const Tensor& indices, Location where) const;
  io::ShardedState sharded_state(const std::string& prefix = {}) const;

  nn::Parameter weight;

 private:
  VocabParallelOptions options_;
  int64_t count_;
};

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
