// Backward runs collectives in the reverse order of forward on every rank: the depth of each collective's node is
// above that of the previous one.
#include "../detail/gradients.hpp"

#include <algorithm>

#include "../../autograd/node.hpp"
#include "../../ops/join.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../../ops/special.hpp"

namespace weft::distributed::detail {

namespace {

const std::shared_ptr<uint32_t>& last_of_thread() {
  static thread_local const std::shared_ptr<uint32_t> last = std::make_shared<uint32_t>(0);
  return last;
}

}  // namespace

InOrder::InOrder() : last_(last_of_thread()) {}

void order_behind_last(const Tensor& out) {
  const std::shared_ptr<uint32_t>& last = last_of_thread();
  constexpr int own_and_threads = 2;
  if (last.use_count() <= own_and_threads) *last = 0;
  Node* const node = out.impl()->node;
  *last = node->order = std::max(node->order, *last + 1);
}

namespace {

/// This rank's share of the gradient of the extreme y: 1 / (number of ranks that have it), or 0. NaN equals itself.
Tensor share_in(const Tensor& y, const Tensor& x, DType dtype, const Group& group) {
  const NoGradGuard unrecorded;
  const Tensor has_it = logical_or(x == y, logical_and(x != x, y != y)).to(dtype);
  return has_it / all_reduce(has_it, group);
}

/// The product of the other ranks' x; exact also where elements are 0.
Tensor product_of_others(const Tensor& x, const Group& group) {
  const Tensor rows = all_gather(x.unsqueeze(0), group);
  const int rank = group.rank();
  return cat({rows.narrow(0, 0, rank), rows.narrow(0, rank + 1, group.size() - rank - 1)}).prod(Dims{0}).to(x.dtype());
}

struct AllReduceBackward {
  Group group;
  ReduceOp op;
  Saved x;
  SavedOutput y;
  InOrder order = {};
  Tensor operator()(Node& self, Tensor&& g) {
    if (is_linear(op)) return all_reduce(g, group, op);
    const Tensor all = all_reduce(g, group);
    if (op == ReduceOp::prod) return all * product_of_others(x.get(self), group);
    return all * share_in(y.get(self), x.get(self), all.dtype(), group);
  }
};

struct ReduceBackward {
  Group group;
  ReduceOp op;
  int root;
  InOrder order = {};
  Tensor operator()(Tensor&& g) {
    const Tensor all = broadcast(g, root, group);
    return op == ReduceOp::avg ? all / group.size() : all;
  }
};

struct BroadcastBackward {
  Group group;
  int root;
  InOrder order = {};
  Tensor operator()(Tensor&& g) { return reduce(g, root, group); }
};

struct AllGatherBackward {
  Group group;
  std::vector<int64_t> sizes;
  int dim;
  InOrder order = {};
  Tensor operator()(Tensor&& g) { return reduce_scatter(g, sizes, group, ReduceOp::sum, dim); }
};

struct ReduceScatterBackward {
  Group group;
  std::vector<int64_t> sizes;
  ReduceOp op;
  int dim;
  InOrder order = {};
  Tensor operator()(Tensor&& g) {
    const Tensor all = all_gather(g, sizes, group, dim);
    return op == ReduceOp::avg ? all / group.size() : all;
  }
};

struct AllToAllBackward {
  Group group;
  AllToAllOptions options;
  InOrder order = {};
  Tensor operator()(Tensor&& g) {
    return all_to_all(g, group,
                      {.split_dim = options.join_dim,
                       .join_dim = options.split_dim,
                       .send_sizes = options.receive_sizes,
                       .receive_sizes = options.send_sizes});
  }
};

template <class Backward>
void record_in_order(const Tensor& out, Backward backward, const Tensor& x) {
  record(out, std::move(backward), x);
  order_behind_last(out);
}

}  // namespace

void record_all_reduce(const Tensor& out, const Tensor& x, const Group& group, ReduceOp op) {
  if (is_linear(op)) return record_in_order(out, AllReduceBackward{group, op, {}, {}}, x);
  if (op == ReduceOp::prod) return record_in_order(out, AllReduceBackward{group, op, Saved(x), {}}, x);
  record_in_order(out, AllReduceBackward{group, op, Saved(x), SavedOutput(out)}, x);
}
void record_reduce(const Tensor& out, const Tensor& x, int root, const Group& group, ReduceOp op) {
  record_in_order(out, ReduceBackward{group, op, root}, x);
}
void record_broadcast(const Tensor& out, const Tensor& x, int root, const Group& group) {
  record_in_order(out, BroadcastBackward{group, root}, x);
}
void record_all_gather(const Tensor& out, const Tensor& x, std::vector<int64_t> sizes, const Group& group, int dim) {
  record_in_order(out, AllGatherBackward{group, std::move(sizes), dim}, x);
}
void record_reduce_scatter(const Tensor& out, const Tensor& x, std::vector<int64_t> sizes, const Group& group,
                           ReduceOp op, int dim) {
  record_in_order(out, ReduceScatterBackward{group, std::move(sizes), op, dim}, x);
}
void record_all_to_all(const Tensor& out, const Tensor& x, const Group& group, const AllToAllOptions& options) {
  record_in_order(out, AllToAllBackward{group, options}, x);
}

}  // namespace weft::distributed::detail
