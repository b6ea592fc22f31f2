// Process groups: ranks that compute together. A rank is a process started by `mpirun`, or a thread of a LocalWorld.
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

/// One rank's handle of a group. A value: copies are the same group. Every rank of a group calls its collectives in the
/// same order, from one thread at a time.
class WEFT_API Group {
 public:
  /// This rank's index in the group; -1 if it does not belong to the group.
  int rank() const;
  int size() const;
  /// The world ranks of the group: rank i of the group is world rank ranks()[i].
  std::span<const int> ranks() const;
  bool contains_me() const { return rank() >= 0; }

  /// Group of these ranks of this group, in this order. All of them must call it, equally often. A rank that calls it
  /// without being in the list gets a group that it does not belong to, without waiting. Raises ValueError if `ranks`
  /// is empty, names a rank twice, or names a rank that this group lacks.
  Group subgroup(std::span<const int> ranks, Location where = {}) const;
  Group subgroup(std::initializer_list<int> ranks, Location where = {}) const;
  /// One group for each `color`, of the ranks that passed it, in their order here. Called by all ranks.
  Group split(int color, Location where = {}) const;

  /// Seconds that a collective waits for the other ranks: 600, or WEFT_DISTRIBUTED_TIMEOUT. Subgroups inherit it.
  double timeout() const;
  /// Raises ValueError unless seconds > 0.
  void set_timeout(double seconds, Location where = {}) const;

  /// "MPI", or "threads" in a LocalWorld and in a process that runs alone.
  const char* wire() const;
  /// Bytes of tensors that this rank has sent to other ranks so far, through all groups of its world; 0 if it does not
  /// belong to the group.
  int64_t sent_bytes() const;
  bool operator==(const Group& other) const { return member_ == other.member_; }

  // ---- for implementations of collectives ----
  explicit Group(Shared<detail::Member> member) : member_(std::move(member)) {}
  detail::Member& member() const { return *member_; }
  const Shared<detail::Member>& shared_member() const { return member_; }

 private:
  Shared<detail::Member> member_;
};

/// The group of all ranks: those of the LocalWorld on a thread of it; else the processes of the `mpirun` that started
/// this one, where the first call initialises MPI; else this process alone. Raises DistributedError if `mpirun` started
/// several processes and Weft was built without MPI or cannot find its library.
WEFT_API Group world(Location where = {});

/// Rank and size of world().
WEFT_API int rank(Location where = {});
WEFT_API int world_size(Location where = {});

}  // namespace weft::distributed
