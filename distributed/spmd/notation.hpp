// Sharding rules of ops, written as letters: "mk,kn->mn" is a matrix product. Each axis has a letter, or '1' if it is
// never sharded. Axes with the same letter are sharded alike. A sharded letter that is missing from an output makes
// this output partial. Pure functions: every rank computes the same result.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "placement.hpp"

namespace weft::distributed {

/// Description of a tensor, without its data.
struct SpmdMeta {
  Dims shape;
  Placements placements;
  int64_t itemsize = 4;
};

/// Placements that an op needs for its inputs, and the resulting placements of its outputs.
struct SpmdInfo {
  std::vector<Placements> inputs, outputs;
};

struct NotationOptions {
  /// Reduction over letters that are missing from the outputs.
  ReduceOp reduction = ReduceOp::sum;
  Linearity linearity = Linearity::none;
  /// See Partition::units.
  std::vector<std::pair<char, int64_t>> units = {};
};

class WEFT_API Notation {
 public:
  /// Parses "ab,b->ab": the letters of inputs and outputs; an empty word has no axes. Raises ValueError for any other
  /// text, for a letter repeated in a word, and for a letter of an output that no input has.
  explicit Notation(std::string_view text, NotationOptions options = {}, Location where = {});

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }

  /// Infers input and output placements from the inputs' current ones. If two inputs shard a letter differently, takes
  /// the alternative that moves fewer bytes, then the one with lower mesh dimensions; if two letters need one mesh
  /// dimension, the earlier one gets it. Axes of size 1 that broadcast along their letter are replicated. Raises
  /// ValueError if the inputs do not fit the words, and ShapeError if the sizes of a letter differ.
  SpmdInfo infer(std::span<const SpmdMeta> inputs, const Dims& mesh, Location where = {}) const;
  /// Infers input placements from the wanted outputs. Partial outputs count as replicated.
  SpmdInfo infer_reverse(std::span<const SpmdMeta> inputs, std::span<const Placements> outputs, const Dims& mesh,
                         Location where = {}) const;
  /// Placements of the inputs' gradients, if the outputs' gradients are placed like the outputs, but replicated where
  /// these are partial: like the inputs, and partial along mesh dimensions that shard letters which an input lacks. No
  /// gradient is partial where its input is.
  std::vector<Placements> infer_gradients(std::span<const SpmdMeta> inputs, const SpmdInfo& info) const;
  /// Whole shape of output `number`, from the sizes of its letters. Axes '1' have the size that they have in `local`,
  /// any shard of the output.
  Dims output_shape(std::span<const SpmdMeta> inputs, const Dims& local, size_t number = 0) const;

 private:
  std::vector<std::string> inputs_, outputs_;
  NotationOptions options_;
};

}  // namespace weft::distributed
