// Maps the tensors of one model to those of another, by a list of statements, one per line:
//
//   model.embed.weight -> embedding.weight                        # rename
//   layers.$LAYER.gate, layers.$LAYER.up -> layers.$LAYER.gate_up, axis=0       # concatenate, for every layer
//   attn.c_attn -> q, k, v, axis=1, permute=[1,0]                 # split evenly, then transpose each result
//   norm.weight -> norm.weight, dtype="float32"                   # convert
//   rotary.inv_freq -> _                                          # drop
//   _ -> head.adapter                                             # keep the initial value of the model
//
// Statements are applied in order and read the results of earlier ones. A name that a statement has read can be reused
// for another tensor; until then other statements can read it again. Tensors that no statement reads keep their names.
// A name that contains blanks or one of , # = $ ", or that is a single _, is written in double quotes, where \ escapes
// " and \.
//
// Attributes are applied from left to right and may be repeated. `axis` concatenates several sources, or splits one
// source into as many tensors as there are destinations. `permute` orders the dimensions like Tensor::permute; `[]`
// reverses them. `dtype` is given by name. $NAME or ${NAME} matches digits: a statement with variables is applied once
// for each combination of digits in the existing names.
#pragma once

#include <string_view>

#include "tensor_store.hpp"

namespace weft::io {

class WEFT_API Mapping {
 public:
  /// Has no statements: every tensor keeps its name.
  Mapping() = default;
  /// Raises FormatError, with line and column, for a malformed text.
  static Mapping parse(std::string_view text, Location where = {});
  /// Parses a text file. Raises IoError if it cannot be read.
  static Mapping read(const Path& path, Location where = {});

  /// Returns the mapped tensors. Dtypes and shapes are computed at once from those of `source`; elements are read
  /// lazily, and only as many as a request needs.
  ///
  /// Errors name line and column. Raises KeyError for a missing name. Raises ShapeError for an uneven split,
  /// incompatible shapes, or an axis or permutation that does not fit the shape. Raises DTypeError if tensors of
  /// several dtypes are concatenated, and ValueError if two tensors would have the same name.
  TensorStore apply(const TensorStore& source, Location where = {}) const;

  /// Maps an optimizer's state (optimizer.safetensors of a training state). Its names are those of the weights and a
  /// suffix: "layers.0.weight.exp_avg". Tensors follow the statements of their weights but keep their dtypes. Scalars
  /// are only renamed. Options of a group ("group.0.lr") stay. The group's parameter count is dropped, since the
  /// mapping may change it. Statements about weights without state are skipped. Errors as apply; ValueError also if
  /// concatenated weights have different scalars, which are read for this check.
  TensorStore apply_to_optimizer(const TensorStore& state, Location where = {}) const;

  /// Returns whether a statement `_ -> name` excludes this tensor from loading.
  bool leaves(const std::string& name) const;

 private:
  struct Contents;
  Shared<const Contents> contents_;
};

/// Calls load_into with the mapped tensors of `source`, without the destinations that the mapping excludes.
WEFT_API void load_into(const TensorMap& destinations, const TensorStore& source, const Mapping& mapping,
                        bool strict = true, Location where = {});

}  // namespace weft::io
