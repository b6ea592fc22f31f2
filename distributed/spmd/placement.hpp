// Where the parts of a tensor are: one placement for each dimension of a mesh.
#pragma once

#include <string>
#include <vector>

#include "../../tensor/dims.hpp"
#include "../../tensor/location.hpp"
#include "../reduce_op.hpp"

namespace weft::distributed {

/// What the ranks along one dimension of a mesh hold: all the same tensor, a part of it along `axis` each, or tensors
/// that `op` makes into it.
struct Placement {
  enum class Kind : uint8_t { replicate, shard, partial };
  Kind kind = Kind::replicate;
  int axis = -1;                ///< of shard
  ReduceOp op = ReduceOp::sum;  ///< of partial

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
/// "[Shard(0), Partial(sum)]"
WEFT_API std::string text(const Placements& placements);

/// Of a tensor with `rank` dimensions those of the mesh that cut each, the outer ones first: the mapping of dimensions.
WEFT_API std::vector<Dims> dims_mapping(const Placements& placements, int rank);

/// What the rank at `coordinate` holds of a tensor of this shape. An axis of n is cut by k ranks into chunks of ⌈n /
/// k⌉, so that the last ones may be shorter or empty; where several dimensions of the mesh cut one axis, the outer ones
/// cut first. ValueError unless there is a placement for each dimension of the mesh; IndexError for an axis that the
/// shape lacks.
WEFT_API Part part_of(const Dims& shape, const Placements& placements, const Dims& mesh, const Dims& coordinate,
                      Location where = {});

}  // namespace weft::distributed
