// Tensors in parts on a mesh, and functions of tensors on them.
//
//   const Mesh mesh({2, 2}, {"dp", "tp"});
//   const DTensor x = shard_tensor(whole_x, mesh, {Shard(0), Replicate()});
//   const DTensor w = shard_tensor(whole_w, mesh, {Replicate(), Shard(0)});
//   const DTensor y = apply(Notation("mk,kn->mn", {.linearity = Linearity::each}), {x, w},
//                           [](std::span<const Tensor> parts) { return matmul(parts[0], parts[1]); });
//   y.placements();    // [Shard(0), Partial(sum)]
//   y.full_tensor();   // whole_x · whole_w on every rank
//
// Every rank of the mesh calls the same functions in the same order. A gradient is that of the loss that all ranks
// compute alike: it is in parts like its tensor, and replicated where that is partial.
#pragma once

#include "../../tensor/callback.hpp"
#include "../../tensor/tensor.hpp"
#include "../mesh.hpp"
#include "notation.hpp"

namespace weft::distributed {

/// This rank's part, as `to` says, of a tensor of `shape` of which it has `local`, as `from` says; undefined on ranks
/// that have no place in the mesh. Moves what it must: all_gather, all_reduce, reduce_scatter and all_to_all along one
/// dimension of the mesh after the other, inner cuts undone before outer ones. From replicated to partial, the first
/// rank keeps a sum, every rank an average and an extreme. The gradient goes the way back. ShapeError unless `local`
/// has the sizes of its part; ValueError where placements do not fit the mesh, and for a gradient through another
/// partial than sum and avg.
WEFT_API Tensor reshard(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to,
                        const Mesh& mesh, Location where = {});

/// A tensor in parts. A value; copies share the parts.
class WEFT_API DTensor {
 public:
  /// Of this rank's part. Errors as reshard.
  DTensor(Tensor local, const Dims& shape, const Mesh& mesh, Placements placements, Location where = {});

  const Tensor& local() const { return local_; }
  /// Of the whole.
  const Dims& shape() const { return shape_; }
  /// Of ranks that have a part.
  DType dtype() const { return local_.dtype(); }
  const Mesh& mesh() const { return mesh_; }
  const Placements& placements() const { return placements_; }

  DTensor reshard(const Placements& placements, Location where = {}) const;
  /// The whole, on every rank.
  Tensor full_tensor(Location where = {}) const;

 private:
  Tensor local_;
  Dims shape_;
  Mesh mesh_;
  Placements placements_;
};

/// Cuts a tensor that all ranks have: nothing is sent. The gradient of `whole` is whole on every rank.
WEFT_API DTensor shard_tensor(const Tensor& whole, const Mesh& mesh, const Placements& placements, Location where = {});

/// f of the parts that the rule asks for, whose result is in parts as the rule says. f computes on parts what it
/// computes on whole tensors: letters that the rule lets be cut are independent in it, or added up. ValueError where
/// inputs are on different meshes; errors as Notation::infer.
WEFT_API DTensor apply(const Notation& rule, const std::vector<DTensor>& inputs,
                       const Callback<Tensor(std::span<const Tensor>)>& f, Location where = {});

}  // namespace weft::distributed
