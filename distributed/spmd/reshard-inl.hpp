// What reshard and the functions on DTensor share. Not public.
#pragma once

#include <span>
#include <vector>

#include "dtensor.hpp"

namespace weft::distributed::detail {

/// Replicated where it was partial.
Placements without_partial(Placements placements);

/// ShapeError unless `local` is this rank's part, on ranks of the mesh.
void check_part(const char* op, const Tensor& local, const Dims& shape, const Placements& placements, const Mesh& mesh,
                Location where);

/// The public one for an operand whose gradient comes as `gradient` says, which may be partial where `to` is
/// replicated.
Tensor reshard(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to,
               const Placements& gradient, const Mesh& mesh, Location where);

/// The inputs of one function where its rule wants them. All their gradients go back by one node of the graph, those
/// that this rank's own ops do not give as zeros: what a rank records, which of parts without elements may be nothing,
/// changes neither which collectives its backward runs nor their order.
class MovedInputs {
 public:
  /// On ranks of the mesh. `gradients` is as `gradient` of reshard, for each input.
  MovedInputs(std::span<const DTensor> inputs, const SpmdInfo& info, std::span<const Placements> gradients,
              Location where);

  const std::vector<Tensor>& parts() const { return parts_; }
  /// What this rank computed with the parts. Where inputs need gradients every floating result has one, on all ranks,
  /// and backward from it reaches all inputs, and `sums`, results of collectives on the way.
  std::vector<Tensor> joined(std::vector<Tensor> results, std::span<const Tensor> sums = {}) const;
  /// x, which the parts have become, with a gradient if it is floating and they have one.
  Tensor recorded(const Tensor& x) const;

 private:
  std::vector<Tensor> parts_;
  /// Another result of the node, that leads every backward to it; undefined where nothing is recorded.
  Tensor token_;
};

}  // namespace weft::distributed::detail
