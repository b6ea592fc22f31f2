// What reshard and the functions on DTensor share. Not public.
#pragma once

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

}  // namespace weft::distributed::detail
