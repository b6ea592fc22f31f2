// The collectives as operations that begin now and end on whatever thread waits: synchronous and asynchronous functions
// are made of the same.
#pragma once

#include "../collectives.hpp"
#include "member.hpp"

namespace weft::distributed::detail {

/// An operation on a group, made and checked.
struct Begun {
  Shared<Member> member;
  Operation operation;
  /// Where the ranks exchange its tensors.
  Device device;

  Tensor now() { return member->perform(operation, member); }
  Work later() { return Work(member->start(std::move(operation), member)); }
};

/// x's elements in contiguous memory of the host: x's own where they lie there, without its history.
Tensor on_host(const Tensor& x);

/// Each runs in the scope of the call that it belongs to.
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
