// How the tensors of one model become those of another, written as a list of statements, one a line:
//
//   model.embed.weight -> embedding.weight                        # another name
//   layers.$LAYER.gate, layers.$LAYER.up -> layers.$LAYER.gate_up, axis=0       # joined, for every layer that is there
//   attn.c_attn -> q, k, v, axis=1, permute=[1,0]                 # split evenly, each part then transposed
//   norm.weight -> norm.weight, dtype="float32"                   # converted
//   rotary.inv_freq -> _                                          # dropped
//   _ -> head.adapter                                             # stays as the model initialised it
//
// Statements are taken in their order, and read what the ones before them made. A name that one has read is free for
// another tensor; it may be read again until then. What no statement reads keeps its name. A name that holds blanks or
// one of , # = $ " or is a single _ stands in double quotes, where \ comes before " and \.
//
// Attributes apply from left to right, as often as they are written: `axis` joins several tensors, or splits one into
// as many as the destinations are; `permute` orders the dimensions as Tensor::permute, `[]` reverses them; `dtype` is
// by its name. $NAME, or ${NAME}, stands for digits: a statement with variables is taken once for all the numbers that
// names have there.
#pragma once

#include <string_view>

#include "tensor_store.hpp"

namespace weft::io {

class WEFT_API Mapping {
 public:
  /// Without statements: every tensor keeps its name.
  Mapping() = default;
  /// FormatError, with line and column, for a text that is no list of statements.
  static Mapping parse(std::string_view text, Location where = {});
  /// The statements of a text file. IoError where it cannot be read.
  static Mapping read(const Path& path, Location where = {});

  /// The mapped tensors; their dtypes and shapes come from those of `source`, and elements are read when they are asked
  /// for, those alone that the answer needs. Errors name line and column: KeyError for a name that is not there,
  /// ShapeError for an uneven split, shapes that do not fit together, and an axis or a permutation that a shape has
  /// not, DTypeError where tensors of several dtypes are joined, ValueError for a name that two tensors would have.
  TensorStore apply(const TensorStore& source, Location where = {}) const;

  /// The same for what an optimizer keeps of the weights under their names and another word, "layers.0.weight.exp_avg"
  /// (optimizer.safetensors of a training state): tensors follow their weights' statements but keep their dtypes,
  /// scalars are renamed only, options of a group ("group.0.lr") stay, and how many parameters it has, which may
  /// change, is left out. Statements about weights of which nothing is kept are passed over. Errors as apply;
  /// ValueError also where weights are joined whose scalars differ, which are read.
  TensorStore apply_to_optimizer(const TensorStore& state, Location where = {}) const;

  /// Whether a statement `_ -> name` says that this tensor is not loaded.
  bool leaves(const std::string& name) const;

 private:
  struct Contents;
  Shared<const Contents> contents_;
};

/// load_into with the mapped tensors of `source`, but for the destinations that the mapping leaves as they are.
WEFT_API void load_into(const TensorMap& destinations, const TensorStore& source, const Mapping& mapping,
                        bool strict = true, Location where = {});

}  // namespace weft::io
