// How ops work on parts of tensors, by letters: "mk,kn->mn" is a product of matrices. An axis has a letter, or '1'
// where it is never cut. Axes of one letter are cut alike, and a letter that is cut and missing from an output leaves
// sums of it on each rank. Pure functions: every rank comes to the same result.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "placement.hpp"

namespace weft::distributed {

/// What is known of a tensor before it is there.
struct SpmdMeta {
  Dims shape;
  Placements placements;
  int64_t itemsize = 4;
};

/// What an op needs of its inputs, and what its outputs are then.
struct SpmdInfo {
  std::vector<Placements> inputs, outputs;
};

struct NotationOptions {
  /// What an op does with letters that its outputs lack.
  ReduceOp reduction = ReduceOp::sum;
  Linearity linearity = Linearity::none;
  /// As Partition::units.
  std::vector<std::pair<char, int64_t>> units = {};
};

class WEFT_API Notation {
 public:
  /// "ab,b->ab": letters of inputs and of outputs, an empty word for no axes. ValueError for any other text, for a
  /// letter twice in a word, and for a letter of an output that no input has.
  explicit Notation(std::string_view text, NotationOptions options = {}, Location where = {});

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }

  /// What stands for the inputs as they are. Where two inputs cut a letter differently, the way is taken that moves
  /// fewer bytes, then that of lower dimensions of the mesh; where two letters want one dimension of the mesh, the
  /// earlier one has it. Axes of size 1 beside longer ones of their letter are replicated. ValueError where the inputs
  /// do not fit the words; ShapeError where sizes of a letter differ.
  SpmdInfo infer(std::span<const SpmdMeta> inputs, const Dims& mesh, Location where = {}) const;
  /// What the inputs are where the outputs are to be like that. Partial outputs count as replicated.
  SpmdInfo infer_reverse(std::span<const SpmdMeta> inputs, std::span<const Placements> outputs, const Dims& mesh,
                         Location where = {}) const;
  /// The gradients of the inputs, where those of the outputs are as the outputs but replicated where these are partial:
  /// like the inputs, and partial sums along dimensions of the mesh that cut what an input lacks. None is partial where
  /// its input is.
  std::vector<Placements> infer_gradients(std::span<const SpmdMeta> inputs, const SpmdInfo& info) const;
  /// The sizes of output number `number` as a whole: those of its letters; axes named '1' are as in `local`, of which
  /// any part will do.
  Dims output_shape(std::span<const SpmdMeta> inputs, const Dims& local, size_t number = 0) const;

 private:
  std::vector<std::string> inputs_, outputs_;
  NotationOptions options_;
};

}  // namespace weft::distributed
