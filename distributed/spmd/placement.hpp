// How a tensor is distributed: one placement for each dimension of a mesh.
#pragma once

#include <string>
#include <vector>

#include "../../tensor/dims.hpp"
#include "../../tensor/location.hpp"
#include "../reduce_op.hpp"

namespace weft::distributed {

/// Contents of the ranks along one dimension of a mesh: the same tensor, shards of it along `axis`, or tensors that
/// `op` reduces to it.
struct Placement {
  enum class Kind : uint8_t { replicate, shard, partial };
  Kind kind = Kind::replicate;
  int axis = -1;                // for shard
  ReduceOp op = ReduceOp::sum;  // for partial

  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_shard(int of_axis) const { return is_shard() && axis == of_axis; }
  bool is_partial() const { return kind == Kind::partial; }
  bool operator==(const Placement& other) const = default;
};
constexpr Placement Replicate() { return {}; }
constexpr Placement Shard(int axis) { return {Placement::Kind::shard, axis}; }
constexpr Placement Partial(ReduceOp op = ReduceOp::sum) { return {Placement::Kind::partial, -1, op}; }

/// One for each dimension of a mesh.
using Placements = std::vector<Placement>;
/// Example: "[Shard(0), Partial(sum)]".
WEFT_API std::string text(const Placements& placements);

/// For each of the tensor's `rank` axes, the dimensions of the mesh that shard it, the outer ones first.
WEFT_API std::vector<Dims> dims_mapping(const Placements& placements, int rank);

/// The shard of the rank at `coordinate` of a tensor with this shape. An axis of n elements is cut by k ranks into
/// chunks of ⌈n / k⌉; the last ones may be shorter or empty. If several dimensions of the mesh cut one axis, the outer
/// ones cut first. Raises ValueError unless there is a placement for each dimension of the mesh, and IndexError for an
/// axis that the shape lacks.
WEFT_API Part part_of(const Dims& shape, const Placements& placements, const Dims& mesh, const Dims& coordinate,
                      Location where = {});

}  // namespace weft::distributed
