// How an op's operands and result lie on a mesh, inferred from letters for their axes: "mk,kn->mn". A pure function, so
// that all ranks come to the same answer by themselves.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placement.hpp"

namespace weft::distributed {

/// What an operand is, without its elements.
struct TensorMeta {
  Dims shape;
  Placements placements;
  int64_t itemsize = 4;
};

/// Which partial values an op may be given as they are. Others are made whole first. Only sums and averages pass.
enum class PartialRule : uint8_t {
  none,  ///< the op is not linear
  one,   ///< linear in each operand: one of them alone may be partial on a dimension of the mesh, as in products
  all,   ///< linear in all together: they are all partial on it, in the same way, as in sums
};

struct NotationOptions {
  /// What combines a result where an axis that the result lacks was sharded.
  ReduceOp reduction = ReduceOp::sum;
  PartialRule partial = PartialRule::none;
};

/// How the operands must lie, and how the result then does.
struct Spmd {
  std::vector<Placements> inputs;
  Placements output;
};

/// One letter for each axis; equal letters are the same axis, and '1' is an axis that is never sharded. Axes whose
/// operands disagree go to the mapping that has fewer bytes moved, and to the lower dimension of the mesh where that is
/// equal; a dimension of the mesh that two letters claim stays with the earlier letter. ValueError where the text is no
/// notation or does not fit the operands.
WEFT_API Spmd infer_notation(std::string_view notation, std::span<const TensorMeta> inputs, int mesh_dims,
                             const NotationOptions& options = {}, Location where = {});

/// "b1,abc->abc" for operands of these ranks and shapes that broadcast; axes of size 1 that are stretched are '1'.
WEFT_API std::string broadcast_notation(std::span<const Dims> shapes, Location where = {});
/// "amk,akn->amn" for a matrix product whose batch axes broadcast. ShapeError for operands of rank 0 or 1.
WEFT_API std::string matmul_notation(const Dims& a, const Dims& b, bool transpose_a = false, bool transpose_b = false,
                                     Location where = {});

}  // namespace weft::distributed
