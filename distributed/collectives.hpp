// Collectives: functions that every rank of a group calls, in the same order, each on its own tensor.
//
// Results are new contiguous tensors on the operand's device. Operands may have any strides, and may be empty. Tensors
// on devices are copied through host memory. Functions without a trailing `_` are differentiable: the gradient is that
// of the sum of all ranks' losses. Their backward is a collective again, so either all ranks require the gradient or
// none does, and all ranks run backward.
//
// Errors raised before anything is sent: ValueError if this rank does not belong to the group, DTypeError as documented
// for ReduceOp. If a rank fails, exits, or does not arrive within group.timeout(), every rank raises DistributedError,
// and so does every later call in the world. Ranks whose calls differ in function, dtype, shape or order raise
// DistributedError with both call sites: always in a LocalWorld; between processes in debug builds and with
// WEFT_CHECK_COLLECTIVES=1.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "error.hpp"
#include "group.hpp"
#include "reduce_op.hpp"
#include "work.hpp"

namespace weft::distributed {

/// Elementwise reduction of x over all ranks; every rank gets the result. Gradients: for sum and avg, the sum and the
/// average of the ranks' gradients; for max and min, their sum, which equal extremes share; for prod, the exact
/// gradient, also where elements are 0.
WEFT_API Tensor all_reduce(const Tensor& x, const Group& group = world(), ReduceOp op = ReduceOp::sum,
                           Location where = {});
/// all_reduce in place; returns x. Raises DTypeError for ReduceOp::any and ReduceOp::all unless x is bool.
WEFT_API const Tensor& all_reduce_(const Tensor& x, const Group& group = world(), ReduceOp op = ReduceOp::sum,
                                   Location where = {});
/// Mean over ranks of `own`, the number of samples or tokens that this rank's mean loss counts. Where gradients are
/// averaged over ranks, `(loss * (own / mean_weight(own))).backward()` gives the gradient of the mean over all ranks'
/// samples; the factor is 1 if all ranks have equally many. Layers with auxiliary losses need an nn::AuxiliaryLossScale
/// of this factor. Raises ValueError if `own` is negative or not finite.
WEFT_API double mean_weight(double own, const Group& group = world(), Location where = {});
/// The result of all_reduce on rank `root`; zeros on the other ranks. Raises IndexError if the group has no rank `root`
/// (also below).
WEFT_API Tensor reduce(const Tensor& x, int root, const Group& group = world(), ReduceOp op = ReduceOp::sum,
                       Location where = {});
/// Rank `root`'s x, on every rank; the other ranks' x must have its shape and dtype. Backward sums the gradients onto
/// the root.
WEFT_API Tensor broadcast(const Tensor& x, int root, const Group& group = world(), Location where = {});
/// broadcast in place; returns x.
WEFT_API const Tensor& broadcast_(const Tensor& x, int root, const Group& group = world(), Location where = {});

/// Concatenates all ranks' x along `dim` in rank order; all have one shape. Backward is reduce_scatter with sum. 0-d
/// tensors count as shape [1].
WEFT_API Tensor all_gather(const Tensor& x, const Group& group = world(), int dim = 0, Location where = {});
/// all_gather of different sizes: rank r has sizes[r] along `dim`. Raises ShapeError unless x has this rank's size.
WEFT_API Tensor all_gather(const Tensor& x, std::span<const int64_t> sizes, const Group& group = world(), int dim = 0,
                           Location where = {});
/// all_gather with sizes along `dim` that the ranks first exchange.
WEFT_API Tensor all_gather_ragged(const Tensor& x, const Group& group = world(), int dim = 0, Location where = {});

/// This rank's shard along `dim` of the result of all_reduce. Rank r's shard has size shard_size(n, ranks, r), or
/// sizes[r]; raises ShapeError unless the sizes add up to n. The gradient for sum is all_gather.
WEFT_API Tensor reduce_scatter(const Tensor& x, const Group& group = world(), ReduceOp op = ReduceOp::sum, int dim = 0,
                               Location where = {});
WEFT_API Tensor reduce_scatter(const Tensor& x, std::span<const int64_t> sizes, const Group& group = world(),
                               ReduceOp op = ReduceOp::sum, int dim = 0, Location where = {});

struct AllToAllOptions {
  /// x is split along split_dim; the received tensors are concatenated along join_dim.
  int split_dim = 0, join_dim = 0;
  /// Sizes sent to and received from each rank r along these dimensions. If empty, x is split by shard_size, and every
  /// rank's x has the same shape.
  std::vector<int64_t> send_sizes = {}, receive_sizes = {};
};
/// Sends the r-th piece of x to rank r. Backward sends the gradients back. Raises ShapeError unless the sizes fit x.
WEFT_API Tensor all_to_all(const Tensor& x, const Group& group = world(), const AllToAllOptions& options = {},
                           Location where = {});
struct RaggedExchange {
  Tensor values;
  /// Rows received from each rank, along dimension 0.
  std::vector<int64_t> receive_sizes;
};
/// all_to_all along dimension 0, with receive sizes that the ranks first exchange.
WEFT_API RaggedExchange all_to_all_ragged(const Tensor& x, std::span<const int64_t> send_sizes,
                                          const Group& group = world(), Location where = {});

/// Returns after every rank has called it.
WEFT_API void barrier(const Group& group = world(), Location where = {});

// ---- point to point ----
/// Sends x to rank `to` and returns when its memory may be written again. Raises DistributedError if a rank was lost or
/// the time limit passed.
WEFT_API void send(const Tensor& x, int to, const Group& group = world(), int tag = 0, Location where = {});
/// The next tensor from rank `from` with this tag, with the sender's shape and dtype, on the CPU.
WEFT_API Tensor receive(int from, const Group& group = world(), int tag = 0, Location where = {});
/// receive into x; returns x. Raises DistributedError if the sender's shape or dtype differs.
WEFT_API const Tensor& receive_(const Tensor& x, int from, const Group& group = world(), int tag = 0,
                                Location where = {});
WEFT_API Work send_async(const Tensor& x, int to, const Group& group = world(), int tag = 0, Location where = {});
WEFT_API Work receive_async_(const Tensor& x, int from, const Group& group = world(), int tag = 0, Location where = {});

// ---- point to point with gradients, which are sent back: both ranks record or neither does; both run backward() ----
/// As send; returns a 0-d tensor whose backward receives the gradient of x. Call backward on it, or add it to the loss.
WEFT_API Tensor send_with_gradient(const Tensor& x, int to, const Group& group = world(), int tag = 0,
                                   Location where = {});
/// The tensor that send_with_gradient sent; backward sends its gradient to that rank. grad() does not run this
/// backward, since the result has no inputs in this rank's graph.
WEFT_API Tensor receive_with_gradient(int from, const Group& group = world(), int tag = 0, Location where = {});

// ---- asynchronous: return at once; Work::wait returns the result, with its gradient ----
/// As the functions without `_async`, which document shapes and errors; errors of the exchange are raised by `wait`. x
/// must not be written before.
WEFT_API Work all_reduce_async(const Tensor& x, const Group& group = world(), ReduceOp op = ReduceOp::sum,
                               Location where = {});
WEFT_API Work all_reduce_async_(const Tensor& x, const Group& group = world(), ReduceOp op = ReduceOp::sum,
                                Location where = {});
WEFT_API Work broadcast_async_(const Tensor& x, int root, const Group& group = world(), Location where = {});
WEFT_API Work all_gather_async(const Tensor& x, const Group& group = world(), int dim = 0, Location where = {});
WEFT_API Work reduce_scatter_async(const Tensor& x, const Group& group = world(), ReduceOp op = ReduceOp::sum,
                                   int dim = 0, Location where = {});
WEFT_API Work all_to_all_async(const Tensor& x, const Group& group = world(), const AllToAllOptions& options = {},
                               Location where = {});
WEFT_API Work barrier_async(const Group& group = world(), Location where = {});

/// Size of rank r's shard of n elements on k ranks. Shards have ⌈n / k⌉ elements; the last ones may be shorter or
/// empty. Example: 10 elements on 4 ranks give sizes [3, 3, 3, 1].
constexpr int64_t shard_size(int64_t n, int k, int r) {
  const int64_t chunk = (n + k - 1) / k, left = n - r * chunk;
  return left < 0 ? 0 : left < chunk ? left : chunk;
}
/// First element of rank r's shard; n if the shard is empty.
constexpr int64_t shard_begin(int64_t n, int k, int r) {
  const int64_t begin = (n + k - 1) / k * r;
  return begin < n ? begin : n;
}
WEFT_API std::vector<int64_t> shard_sizes(int64_t n, int k);

}  // namespace weft::distributed
