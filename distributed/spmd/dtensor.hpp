// Distributed tensors: tensors sharded over a mesh, and functions on them.
//
//   const Mesh mesh({2, 2}, {"dp", "tp"});
//   const DTensor x = shard_tensor(whole_x, mesh, {Shard(0), Replicate()});
//   const DTensor w = shard_tensor(whole_w, mesh, {Replicate(), Shard(0)});
//   const DTensor y = apply(Notation("mk,kn->mn", {.linearity = Linearity::each}), {x, w},
//                           [](std::span<const Tensor> parts) { return matmul(parts[0], parts[1]); });
//   y.placements();    // [Shard(0), Partial(sum)]
//   y.full_tensor();   // whole_x · whole_w on every rank
//
// Every rank of the mesh calls the same functions in the same order. Gradients are those of one loss that all ranks
// compute: they are sharded like their tensor, and replicated where the tensor is partial.
#pragma once

#include "../../tensor/callback.hpp"
#include "../../tensor/tensor.hpp"
#include "../mesh.hpp"
#include "notation.hpp"

namespace weft::distributed {

/// Converts `local`, this rank's shard under `from` of a tensor with `shape`, to its shard under `to`; undefined on
/// ranks outside of the mesh. Uses all_gather, all_reduce, reduce_scatter and all_to_all along one mesh dimension after
/// the other; inner cuts are undone before outer ones. From replicated to partial: for a sum the first rank keeps the
/// value, for an average or extreme every rank does. Backward reshards the gradient back. Raises ShapeError unless
/// `local` has the size of its shard; ValueError if placements do not fit the mesh, and for a gradient through a
/// partial other than sum and avg.
WEFT_API Tensor reshard(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to,
                        const Mesh& mesh, Location where = {});

/// A distributed tensor. A value; copies share the shards.
class WEFT_API DTensor {
 public:
  /// `local` is this rank's shard. Raises the errors of reshard.
  DTensor(Tensor local, const Dims& shape, const Mesh& mesh, Placements placements, Location where = {});

  const Tensor& local() const { return local_; }
  /// Shape of the whole tensor.
  const Dims& shape() const { return shape_; }
  /// Only on ranks of the mesh.
  DType dtype() const { return local_.dtype(); }
  const Mesh& mesh() const { return mesh_; }
  const Placements& placements() const { return placements_; }

  DTensor reshard(const Placements& placements, Location where = {}) const;
  /// The whole tensor, on every rank.
  Tensor full_tensor(Location where = {}) const;

 private:
  Tensor local_;
  Dims shape_;
  Mesh mesh_;
  Placements placements_;
};

/// Shards a tensor that all ranks have; sends nothing. The gradient of `whole` is whole on every rank.
WEFT_API DTensor shard_tensor(const Tensor& whole, const Mesh& mesh, const Placements& placements, Location where = {});

/// Applies f to the shards that the rule asks for; the result is distributed as the rule says. f must compute on shards
/// what it computes on whole tensors: letters that may be sharded must be independent or summed. Raises ValueError if
/// inputs are on different meshes, and the errors of Notation::infer.
WEFT_API DTensor apply(const Notation& rule, const std::vector<DTensor>& inputs,
                       const Callback<Tensor(std::span<const Tensor>)>& f, Location where = {});

}  // namespace weft::distributed
