#include "placement.hpp"

#include <fmt/format.h>

#include "../tensor/error.hpp"
#include "collectives.hpp"

namespace weft::distributed {

namespace {

/// Sizes and offsets of what one rank holds.
struct Part {
  Dims sizes, offsets;
};

Part part_of(const Dims& global, const Dims& mesh, std::span<const Placement> placements, const Dims& coordinate) {
  if (static_cast<int>(placements.size()) != mesh.size() || coordinate.size() != mesh.size()) {
    raise<ValueError>({.problem = fmt::format("{} placements and {} coordinates for a mesh of {} dimensions",
                                              placements.size(), coordinate.size(), mesh.size())});
  }
  const AxisMapping mapping = axis_mapping(placements, global.size());
  Part part{global, Dims::filled(global.size(), 0)};
  for (int axis = 0; axis < global.size(); ++axis) {
    for (const int d : mapping[static_cast<size_t>(axis)]) {
      const int64_t n = part.sizes[axis], chunk = (n + mesh[d] - 1) / mesh[d], first = chunk * coordinate[d];
      part.sizes[axis] = shard_size(n, static_cast<int>(mesh[d]), static_cast<int>(coordinate[d]));
      part.offsets[axis] += first < n ? first : n;
    }
  }
  return part;
}

}  // namespace

std::string Placement::text() const {
  if (is_shard()) return fmt::format("Shard({})", axis);
  return is_partial() ? fmt::format("Partial({})", name(op)) : "Replicate";
}

AxisMapping axis_mapping(std::span<const Placement> placements, int rank, Location where) {
  const CallScope call("axis_mapping", where);
  AxisMapping mapping(static_cast<size_t>(rank));
  for (size_t d = 0; d < placements.size(); ++d) {
    if (!placements[d].is_shard()) continue;
    const int axis = placements[d].axis < 0 ? placements[d].axis + rank : placements[d].axis;
    if (axis < 0 || axis >= rank) {
      raise<ValueError>(
          {.problem = fmt::format("a tensor of rank {} has no axis {} to shard", rank, placements[d].axis)});
    }
    mapping[static_cast<size_t>(axis)].push_back(static_cast<int>(d));
  }
  return mapping;
}

Dims local_shape(const Dims& global, const Dims& mesh, std::span<const Placement> placements, const Dims& coordinate,
                 Location where) {
  const CallScope call("local_shape", where);
  return part_of(global, mesh, placements, coordinate).sizes;
}

Dims local_offset(const Dims& global, const Dims& mesh, std::span<const Placement> placements, const Dims& coordinate,
                  Location where) {
  const CallScope call("local_offset", where);
  return part_of(global, mesh, placements, coordinate).offsets;
}

}  // namespace weft::distributed
