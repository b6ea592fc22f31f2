// Collectives: functions that every rank of a group calls, in the same order, on its own tensor.
//
// Results are new contiguous tensors on the operand's device. Operands may have any strides and no elements. Tensors on
// devices pass through host memory. Functions without a trailing `_` are differentiable: the gradient is that of the
// sum of all ranks' losses. Their backward is a collective again, so all ranks require the gradient or none does, and
// all run backward.
//
// Errors, before anything is sent: ValueError where this rank does not belong to the group, DTypeError as ReduceOp
// says. DistributedError, on every rank, where a rank fails, ends, or does not arrive within group.timeout(), and then
// for every later call of the world. Calls of ranks that do not agree in function, dtype, shape or order are found in a
// LocalWorld always, and between processes in debug builds and with WEFT_CHECK_COLLECTIVES=1: DistributedError with the
// places of both.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "error.hpp"
#include "group.hpp"
#include "reduce_op.hpp"
#include "work.hpp"

namespace weft::distributed {

/// The elements of all ranks' x, one by one combined; every rank gets the result. Gradients: of sum and avg the sum and
/// the average of the ranks' gradients; of max and min their sum, to the extremes, equal ones sharing it; of prod exact
/// where elements are 0.
WEFT_API Tensor all_reduce(const Tensor& x, const Group& group = world(), ReduceOp op = ReduceOp::sum,
                           Location where = {});
/// The same into x, which it returns. DTypeError for any and all unless x is bool.
WEFT_API const Tensor& all_reduce_(const Tensor& x, const Group& group = world(), ReduceOp op = ReduceOp::sum,
                                   Location where = {});
/// The mean over ranks of `own`, the number of samples or tokens of which this rank's loss is the mean. Where gradients
/// are averaged over ranks, `(loss * (own / mean_weight(own))).backward()` makes them those of all samples together;
/// the factor is 1 where ranks have equally many. ValueError for one that is negative or not finite.
WEFT_API double mean_weight(double own, const Group& group = world(), Location where = {});
/// The same on rank `root`; zeros on the others. IndexError for a root that the group lacks, here and below.
WEFT_API Tensor reduce(const Tensor& x, int root, const Group& group = world(), ReduceOp op = ReduceOp::sum,
                       Location where = {});
/// Rank `root`'s x; the x of the others has its shape and dtype. The gradient goes to the root, summed.
WEFT_API Tensor broadcast(const Tensor& x, int root, const Group& group = world(), Location where = {});
/// The same into x, which it returns.
WEFT_API const Tensor& broadcast_(const Tensor& x, int root, const Group& group = world(), Location where = {});

/// All ranks' x along `dim`, in the order of ranks; all have one shape. The gradient is reduce_scatter's sum. 0-d
/// tensors count as [1].
WEFT_API Tensor all_gather(const Tensor& x, const Group& group = world(), int dim = 0, Location where = {});
/// The same where rank r has sizes[r] along `dim`; ShapeError unless this rank has.
WEFT_API Tensor all_gather(const Tensor& x, std::span<const int64_t> sizes, const Group& group = world(), int dim = 0,
                           Location where = {});
/// The same with sizes along `dim` that ranks tell each other first.
WEFT_API Tensor all_gather_ragged(const Tensor& x, const Group& group = world(), int dim = 0, Location where = {});

/// This rank's share along `dim` of what all_reduce gives. Rank r's is shard_size(n, ranks, r) long, or sizes[r], which
/// add up to n; ShapeError otherwise. The gradient of sum is all_gather.
WEFT_API Tensor reduce_scatter(const Tensor& x, const Group& group = world(), ReduceOp op = ReduceOp::sum, int dim = 0,
                               Location where = {});
WEFT_API Tensor reduce_scatter(const Tensor& x, std::span<const int64_t> sizes, const Group& group = world(),
                               ReduceOp op = ReduceOp::sum, int dim = 0, Location where = {});

struct AllToAllOptions {
  /// x is cut along split_dim, and what arrives is joined along join_dim.
  int split_dim = 0, join_dim = 0;
  /// What goes to rank r, and comes from it, along these. Left out, x is cut as by shard_size, and every rank's x has
  /// the same shape.
  std::vector<int64_t> send_sizes = {}, receive_sizes = {};
};
/// Part r of x goes to rank r. The gradient goes the way back. ShapeError unless the sizes fit x.
WEFT_API Tensor all_to_all(const Tensor& x, const Group& group = world(), const AllToAllOptions& options = {},
                           Location where = {});
struct RaggedExchange {
  Tensor values;
  /// How much came from each rank, along dimension 0.
  std::vector<int64_t> receive_sizes;
};
/// all_to_all along dimension 0, with sizes that ranks tell each other first.
WEFT_API RaggedExchange all_to_all_ragged(const Tensor& x, std::span<const int64_t> send_sizes,
                                          const Group& group = world(), Location where = {});

/// Returns when every rank has called it.
WEFT_API void barrier(const Group& group = world(), Location where = {});

// ---- from one rank to another ----
/// x to rank `to`; returns when x may be written again, which may be when the receiver has it. Between two ranks,
/// messages of one tag (0 to 4095) arrive in order. ValueError for another tag, and for this rank itself.
WEFT_API void send(const Tensor& x, int to, const Group& group = world(), int tag = 0, Location where = {});
/// The next tensor from rank `from` with this tag, with the sender's shape and dtype, on the CPU.
WEFT_API Tensor receive(int from, const Group& group = world(), int tag = 0, Location where = {});
/// The same into x, which it returns; DistributedError where the sender's shape or dtype is another.
WEFT_API const Tensor& receive_(const Tensor& x, int from, const Group& group = world(), int tag = 0,
                                Location where = {});
WEFT_API Work send_async(const Tensor& x, int to, const Group& group = world(), int tag = 0, Location where = {});
WEFT_API Work receive_async_(const Tensor& x, int from, const Group& group = world(), int tag = 0, Location where = {});

// ---- the same with gradients, which go the way back: both ranks record or none does, and both run backward() ----
/// Returns a 0-d zero of x's dtype, for this rank's loss: `(loss + sent).backward()`, or `sent.backward()` where there
/// is no other. Its backward receives x's gradient. DTypeError unless x is floating; a second backward raises
/// AutogradError.
WEFT_API Tensor send_with_gradient(const Tensor& x, int to, const Group& group = world(), int tag = 0,
                                   Location where = {});
/// What send_with_gradient sent; backward sends its gradient there. Not reached by grad(), which knows no input of it.
WEFT_API Tensor receive_with_gradient(int from, const Group& group = world(), int tag = 0, Location where = {});

// ---- the same, asynchronously: they return at once; Work::wait has the result, with its gradient ----
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

/// How much of n rank r of k gets: chunks of ⌈n / k⌉, so that the last ones may be shorter or empty. 10 / 4: 3, 3,
/// 3, 1.
constexpr int64_t shard_size(int64_t n, int k, int r) {
  const int64_t chunk = (n + k - 1) / k, left = n - r * chunk;
  return left < 0 ? 0 : left < chunk ? left : chunk;
}
/// Where that begins; n where it is empty.
constexpr int64_t shard_begin(int64_t n, int k, int r) {
  const int64_t begin = (n + k - 1) / k * r;
  return begin < n ? begin : n;
}
WEFT_API std::vector<int64_t> shard_sizes(int64_t n, int k);

}  // namespace weft::distributed
