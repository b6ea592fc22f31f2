// Backward functions of collectives. Each records `out` as the result of the running op on x.
#pragma once

#include <memory>

#include "../collectives.hpp"

namespace weft::distributed::detail {

/// Sequence number of a collective; the backward of each keeps one alive. Numbering restarts when none of a thread is
/// left, since a node has only 32 bits for it.
class InOrder {
 public:
  InOrder();

 private:
  friend void order_behind_last(const Tensor& out);
  std::shared_ptr<uint32_t> last_;
};

/// Marks the node that was just recorded, which must hold an InOrder. Backward then runs collectives in the reverse
/// order of recording, the same on every rank, whatever other ops are in the graph.
void order_behind_last(const Tensor& out);

void record_all_reduce(const Tensor& out, const Tensor& x, const Group& group, ReduceOp op);
/// Only for sum and avg, as record_reduce_scatter.
void record_reduce(const Tensor& out, const Tensor& x, int root, const Group& group, ReduceOp op);
void record_broadcast(const Tensor& out, const Tensor& x, int root, const Group& group);
void record_all_gather(const Tensor& out, const Tensor& x, std::vector<int64_t> sizes, const Group& group, int dim);
void record_reduce_scatter(const Tensor& out, const Tensor& x, std::vector<int64_t> sizes, const Group& group,
                           ReduceOp op, int dim);
/// `options` must contain the actual sizes; none may be empty.
void record_all_to_all(const Tensor& out, const Tensor& x, const Group& group, const AllToAllOptions& options);

/// Whether the gradient is defined if the reduction gives ranks different results.
inline bool is_linear(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::avg; }

}  // namespace weft::distributed::detail
