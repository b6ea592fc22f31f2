#include "../collectives.hpp"

#include <cmath>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/create.hpp"
#include "../detail/begin.hpp"
#include "../detail/gradients.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace {

using detail::is_linear;

Tensor at_least_one_dim(const Tensor& x) { return checked(x).dim() == 0 ? x.reshape({1}) : x; }

detail::Begun gather_equal(const Tensor& x, const Group& group, int dim) {
  const Tensor t = at_least_one_dim(x);
  const int d = wrap_dim(dim, t.dim());
  return detail::begin_all_gather(t, std::vector<int64_t>(static_cast<size_t>(group.size()), t.size(d)), group, d);
}

detail::Begun scatter_shards(const Tensor& x, const Group& group, ReduceOp op, int dim) {
  const Tensor t = at_least_one_dim(x);
  const int d = wrap_dim(dim, t.dim());
  return detail::begin_reduce_scatter(t, shard_sizes(t.size(d), group.size()), group, op, d);
}

/// This rank's shard of a tensor that all ranks have.
Tensor own_part(const Tensor& x, std::span<const int64_t> sizes, const Group& group, int dim) {
  int64_t first = 0;
  for (int r = 0; r < group.rank(); ++r) first += sizes[static_cast<size_t>(r)];
  return x.narrow(dim, first, sizes[static_cast<size_t>(group.rank())]).contiguous();
}

/// MinMax and products are differentiable through all_reduce only.
bool goes_through_all_reduce(const Tensor& x, ReduceOp op) { return !is_linear(op) && should_record(x); }

}  // namespace

Tensor all_reduce(const Tensor& x, const Group& group, ReduceOp op, Location where) {
  const CallScope call("all_reduce", where);
  return detail::begin_all_reduce(x, group, op).now();
}
Work all_reduce_async(const Tensor& x, const Group& group, ReduceOp op, Location where) {
  const CallScope call("all_reduce", where);
  return detail::begin_all_reduce(x, group, op).later();
}
const Tensor& all_reduce_(const Tensor& x, const Group& group, ReduceOp op, Location where) {
  const CallScope call("all_reduce_", where);
  detail::begin_all_reduce_into(x, group, op).now();
  return x;
}
double mean_weight(double own, const Group& group, Location where) {
  const CallScope call("mean_weight", where);
  if (!(own >= 0 && std::isfinite(own))) {
    raise_value("weight", "a finite number of at least 0", own);
  }
  if (group.size() == 1) return own;
  const NoGradGuard unrecorded;
  return all_reduce(tensor(own, DType::f64), group, ReduceOp::avg).item<double>();
}

Work all_reduce_async_(const Tensor& x, const Group& group, ReduceOp op, Location where) {
  const CallScope call("all_reduce_", where);
  return detail::begin_all_reduce_into(x, group, op).later();
}

Tensor reduce(const Tensor& x, int root, const Group& group, ReduceOp op, Location where) {
  const CallScope call("reduce", where);
  if (!goes_through_all_reduce(checked(x), op)) return detail::begin_reduce(x, root, group, op).now();
  group.member().check_rank(root);
  const Tensor all = all_reduce(x, group, op);
  return group.rank() == root ? all : all.masked_fill(ones_like(all, {.dtype = boolean}), 0);
}

Tensor broadcast(const Tensor& x, int root, const Group& group, Location where) {
  const CallScope call("broadcast", where);
  return detail::begin_broadcast(x, root, group).now();
}
const Tensor& broadcast_(const Tensor& x, int root, const Group& group, Location where) {
  const CallScope call("broadcast_", where);
  detail::begin_broadcast_into(x, root, group).now();
  return x;
}
Work broadcast_async_(const Tensor& x, int root, const Group& group, Location where) {
  const CallScope call("broadcast_", where);
  return detail::begin_broadcast_into(x, root, group).later();
}

Tensor all_gather(const Tensor& x, const Group& group, int dim, Location where) {
  const CallScope call("all_gather", where);
  return gather_equal(x, group, dim).now();
}
Work all_gather_async(const Tensor& x, const Group& group, int dim, Location where) {
  const CallScope call("all_gather", where);
  return gather_equal(x, group, dim).later();
}
Tensor all_gather(const Tensor& x, std::span<const int64_t> sizes, const Group& group, int dim, Location where) {
  const CallScope call("all_gather", where);
  const Tensor t = at_least_one_dim(x);
  return detail::begin_all_gather(t, sizes, group, wrap_dim(dim, t.dim())).now();
}
Tensor all_gather_ragged(const Tensor& x, const Group& group, int dim, Location where) {
  const CallScope call("all_gather_ragged", where);
  const Tensor t = at_least_one_dim(x);
  const int d = wrap_dim(dim, t.dim());
  const int64_t own[] = {t.size(d)};
  return detail::begin_all_gather(t, detail::tell_all(group.shared_member(), own), group, d).now();
}

Tensor reduce_scatter(const Tensor& x, const Group& group, ReduceOp op, int dim, Location where) {
  const CallScope call("reduce_scatter", where);
  const Tensor t = at_least_one_dim(x);
  const int d = wrap_dim(dim, t.dim());
  return reduce_scatter(t, shard_sizes(t.size(d), group.size()), group, op, d);
}
Tensor reduce_scatter(const Tensor& x, std::span<const int64_t> sizes, const Group& group, ReduceOp op, int dim,
                      Location where) {
  const CallScope call("reduce_scatter", where);
  const Tensor t = at_least_one_dim(x);
  const int d = wrap_dim(dim, t.dim());
  detail::Begun begun = detail::begin_reduce_scatter(t, sizes, group, op, d);
  if (!goes_through_all_reduce(t, op)) return begun.now();
  return own_part(all_reduce(t, group, op), sizes, group, d);
}
Work reduce_scatter_async(const Tensor& x, const Group& group, ReduceOp op, int dim, Location where) {
  const CallScope call("reduce_scatter", where);
  if (goes_through_all_reduce(checked(x), op)) {
    raise<AutogradError>({.problem = fmt::format("reduce_scatter by {} has no gradient asynchronously", name(op)),
                          .remedy = "call reduce_scatter, or pass x.detach()"});
  }
  return scatter_shards(x, group, op, dim).later();
}

Tensor all_to_all(const Tensor& x, const Group& group, const AllToAllOptions& options, Location where) {
  const CallScope call("all_to_all", where);
  return detail::begin_all_to_all(at_least_one_dim(x), group, options).now();
}
Work all_to_all_async(const Tensor& x, const Group& group, const AllToAllOptions& options, Location where) {
  const CallScope call("all_to_all", where);
  return detail::begin_all_to_all(at_least_one_dim(x), group, options).later();
}
RaggedExchange all_to_all_ragged(const Tensor& x, std::span<const int64_t> send_sizes, const Group& group,
                                 Location where) {
  const CallScope call("all_to_all_ragged", where);
  const Tensor t = at_least_one_dim(x);
  if (static_cast<int>(send_sizes.size()) != group.size()) {
    raise<ShapeError>(
        {.problem = fmt::format("{} send_sizes for a group of {} ranks", send_sizes.size(), group.size())});
  }
  AllToAllOptions options;
  options.send_sizes.assign(send_sizes.begin(), send_sizes.end());
  options.receive_sizes = detail::tell_all(group.shared_member(), send_sizes);
  RaggedExchange result;
  result.receive_sizes = options.receive_sizes;
  result.values = detail::begin_all_to_all(t, group, options).now();
  return result;
}

void barrier(const Group& group, Location where) {
  const CallScope call("barrier", where);
  detail::begin_barrier(group).now();
}
Work barrier_async(const Group& group, Location where) {
  const CallScope call("barrier", where);
  return detail::begin_barrier(group).later();
}

std::vector<int64_t> shard_sizes(int64_t n, int k) {
  std::vector<int64_t> sizes;
  for (int r = 0; r < k; ++r) sizes.push_back(shard_size(n, k, r));
  return sizes;
}

}  // namespace weft::distributed
