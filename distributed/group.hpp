// Process groups: ranks that compute together. A rank is a process that `mpirun` started, or a thread of a LocalWorld.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "../tensor/location.hpp"
#include "../tensor/shared.hpp"

namespace weft::distributed {

namespace detail {
class Member;
}

/// One rank's part in a group. A value: copies are the same group. Every rank of a group calls its collectives in the
/// same order, from one thread at a time.
class WEFT_API Group {
 public:
  /// This rank's number in the group, from 0 on; -1 where it does not belong to it.
  int rank() const;
  int size() const;
  /// The numbers that the group's ranks have in the world; rank i of the group is ranks()[i].
  std::span<const int> ranks() const;
  bool contains_me() const { return rank() >= 0; }

  /// The group of these ranks of this group, in this order. Called by those ranks at least, each as often as the
  /// others; a rank outside of it gets a group that it does not belong to, without waiting. ValueError for no ranks,
  /// for one that this group lacks, and for one named twice.
  Group subgroup(std::span<const int> ranks, Location where = {}) const;
  Group subgroup(std::initializer_list<int> ranks, Location where = {}) const;
  /// One group for each `color`, of the ranks that gave it, in their order here. Called by all ranks.
  Group split(int color, Location where = {}) const;

  /// How long a collective waits for the other ranks: 600 seconds, or WEFT_DISTRIBUTED_TIMEOUT. Subgroups inherit it.
  double timeout() const;
  /// ValueError unless seconds > 0.
  void set_timeout(double seconds, Location where = {}) const;

  /// "MPI", or "threads" in a LocalWorld and in a process that is alone.
  const char* wire() const;
  /// Bytes of tensors that this rank has sent to other ranks so far, through all groups of its world; 0 where it does
  /// not belong to the group.
  int64_t sent_bytes() const;
  bool operator==(const Group& other) const { return member_ == other.member_; }

  // ---- for what stands on groups ----
  explicit Group(Shared<detail::Member> member) : member_(std::move(member)) {}
  detail::Member& member() const { return *member_; }
  const Shared<detail::Member>& shared_member() const { return member_; }

 private:
  Shared<detail::Member> member_;
};

/// All ranks: those of the LocalWorld whose rank this thread is; else the processes of the `mpirun` that started this
/// one, which initialises MPI at the first call; else this process alone. DistributedError where `mpirun` started
/// several processes, and Weft was built without MPI or does not find its library.
WEFT_API Group world(Location where = {});

/// world()'s rank and size.
WEFT_API int rank(Location where = {});
WEFT_API int world_size(Location where = {});

}  // namespace weft::distributed
