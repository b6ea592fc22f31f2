// What collectives do backwards. Each records `out` as the result of the running op on x.
#pragma once

#include <memory>

#include "../collectives.hpp"

namespace weft::distributed::detail {

/// A place in the order of collectives, one kept by the backward of each. Numbers begin anew once none of a thread's is
/// left: a node has 32 bits for them, and a training may be long.
class InOrder {
 public:
  InOrder();

 private:
  friend void order_behind_last(const Tensor& out);
  std::shared_ptr<uint32_t> last_;
};

/// For what was recorded just now, with an InOrder: backward runs collectives in the reverse of the order in which they
/// were recorded, the same on every rank, however long the graphs of its own ops are in between.
void order_behind_last(const Tensor& out);

void record_all_reduce(const Tensor& out, const Tensor& x, const Group& group, ReduceOp op);
/// Of sum and avg alone, as reduce_scatter.
void record_reduce(const Tensor& out, const Tensor& x, int root, const Group& group, ReduceOp op);
void record_broadcast(const Tensor& out, const Tensor& x, int root, const Group& group);
void record_all_gather(const Tensor& out, const Tensor& x, std::vector<int64_t> sizes, const Group& group, int dim);
void record_reduce_scatter(const Tensor& out, const Tensor& x, std::vector<int64_t> sizes, const Group& group,
                           ReduceOp op, int dim);
/// The sizes of `options` are those that were used, none left out.
void record_all_to_all(const Tensor& out, const Tensor& x, const Group& group, const AllToAllOptions& options);

/// Whether there is a formula for the gradient of a reduction that leaves ranks with different results.
inline bool is_linear(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::avg; }

}  // namespace weft::distributed::detail
