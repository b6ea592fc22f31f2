// Shared helpers of reshard and the functions on DTensor. Not public.
#pragma once

#include <span>
#include <vector>

#include "dtensor.hpp"

namespace weft::distributed::detail {

/// Replaces partial placements by replicated ones.
Placements without_partial(Placements placements);

/// Raises ShapeError unless `local` has the shape of this rank's shard; for ranks of the mesh.
void check_part(const char* op, const Tensor& local, const Dims& shape, const Placements& placements, const Mesh& mesh,
                Location where);

/// reshard with an explicit placement of the operand's gradient, which may be partial where `to` is replicated.
Tensor reshard(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to,
               const Placements& gradient, const Mesh& mesh, Location where);

/// The inputs of one function, moved to the placements of its rule. One graph node handles all their gradients, with
/// zeros for those that this rank's ops do not produce. So backward runs the same collectives in the same order on all
/// ranks, even on ranks with empty shards that record nothing.
class MovedInputs {
 public:
  /// For ranks of the mesh. `gradients` is, for each input, the `gradient` of reshard.
  MovedInputs(std::span<const DTensor> inputs, const SpmdInfo& info, std::span<const Placements> gradients,
              Location where);

  const std::vector<Tensor>& parts() const { return parts_; }
  /// Connects this rank's results, computed from the shards, to the graph. If inputs need gradients, every floating
  /// result has one on all ranks, and backward from it reaches all inputs and `sums`, the results of collectives in
  /// between.
  std::vector<Tensor> joined(std::vector<Tensor> results, std::span<const Tensor> sums = {}) const;
  /// x, assembled from the shards, with a gradient if it is floating and they have one.
  Tensor recorded(const Tensor& x) const;

 private:
  std::vector<Tensor> parts_;
  /// Extra result of the node; every backward passes through it. Undefined if nothing is recorded.
  Tensor token_;
};

}  // namespace weft::distributed::detail
