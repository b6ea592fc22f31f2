// Collectives as operations that start in the caller and finish on the waiting thread. Synchronous and asynchronous
// functions share them.
#pragma once

#include "../collectives.hpp"
#include "member.hpp"

namespace weft::distributed::detail {

/// A checked operation on a group.
struct Begun {
  Shared<Member> member;
  Operation operation;
  /// The device on which the ranks exchange its tensors.
  Device device;

  Tensor now() { return member->perform(operation, member); }
  Work later() { return Work(member->start(std::move(operation), member)); }
};

/// x in contiguous host memory, without its history. Shares x's memory if it is contiguous on the host.
Tensor on_host(const Tensor& x);

/// Each runs in the CallScope of the public function.
Begun begin_all_reduce(const Tensor& x, const Group& group, ReduceOp op);
Begun begin_all_reduce_into(const Tensor& x, const Group& group, ReduceOp op);
Begun begin_reduce(const Tensor& x, int root, const Group& group, ReduceOp op);
Begun begin_broadcast(const Tensor& x, int root, const Group& group);
Begun begin_broadcast_into(const Tensor& x, int root, const Group& group);
Begun begin_all_gather(const Tensor& x, std::span<const int64_t> sizes, const Group& group, int dim);
Begun begin_reduce_scatter(const Tensor& x, std::span<const int64_t> sizes, const Group& group, ReduceOp op, int dim);
Begun begin_all_to_all(const Tensor& x, const Group& group, const AllToAllOptions& options);
Begun begin_barrier(const Group& group);

}  // namespace weft::distributed::detail
