// How a tensor lies on a mesh: one placement for each dimension of the mesh. Values and pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "../tensor/dims.hpp"
#include "../tensor/location.hpp"
#include "reduce_op.hpp"

namespace weft::distributed {

/// What the ranks along one dimension of a mesh have of a tensor: all of it, a shard along an axis, or something that
/// has to be combined to become it.
struct Placement {
  enum class Kind : uint8_t { replicate, shard, partial };
  Kind kind = Kind::replicate;
  /// Of a shard.
  int axis = 0;
  /// Of a partial value.
  ReduceOp op = ReduceOp::sum;

  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_partial() const { return kind == Kind::partial; }
  /// Axes matter for shards alone, and ops for partial values.
  bool operator==(const Placement& other) const {
    return kind == other.kind && (!is_shard() || axis == other.axis) && (!is_partial() || op == other.op);
  }
  /// "Replicate", "Shard(1)", "Partial(sum)"
  WEFT_API std::string text() const;
};

constexpr Placement Replicate() { return {}; }
constexpr Placement Shard(int axis) { return {.kind = Placement::Kind::shard, .axis = axis}; }
constexpr Placement Partial(ReduceOp op = ReduceOp::sum) { return {.kind = Placement::Kind::partial, .op = op}; }

using Placements = std::vector<Placement>;

/// For each axis of a tensor the dimensions of the mesh that shard it, in ascending order: the first cuts first.
using AxisMapping = std::vector<std::vector<int>>;
/// Of a tensor of `rank` axes; axes may count from the end. ValueError for one that is out of range.
WEFT_API AxisMapping axis_mapping(std::span<const Placement> placements, int rank, Location where = {});

/// The shape that the rank at `coordinate` of a mesh of shape `mesh` holds of a tensor of shape `global`: chunks as by
/// shard_size, of chunks where several dimensions of the mesh shard an axis. ValueError unless there is a placement and
/// a coordinate for each dimension of the mesh.
WEFT_API Dims local_shape(const Dims& global, const Dims& mesh, std::span<const Placement> placements,
                          const Dims& coordinate, Location where = {});
/// Where its first element lies in the whole, by axis.
WEFT_API Dims local_offset(const Dims& global, const Dims& mesh, std::span<const Placement> placements,
                           const Dims& coordinate, Location where = {});

}  // namespace weft::distributed
