// How ops work on parts of tensors. A record says it by a rule, and ranks that hold a part of each tensor
// (<weft/distributed/spmd/dtensor.hpp>) follow it.
//
//   Partition rule(const WholeCall& call) {             // of "mm(a, b)"
//     return {.letters = "mk,kn->mn", .linearity = Linearity::each};
//   }
//
// A rule receives tensors without elements, so shapes of results come from the op itself. Every record has a rule;
// one without does not compile.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../tensor/callback.hpp"
#include "record.hpp"

namespace weft {

/// How elements of several ranks become one. Ranks are combined in ascending order, in the dtype's compute type, and
/// rounded once: f16, bf16 and the 8-bit floats in f32, other floats in their own type; integers wrap. Every run gives
/// the same bits. `sum` and `prod` take every dtype but bool, `avg` the floating ones, `max` and `min` all (NaN wins).
/// `any` and `all` give bool: whether elements are not 0.
enum class ReduceOp : uint8_t { sum, avg, max, min, prod, any, all };
/// Returns "sum", "avg", …
WEFT_API const char* name(ReduceOp op);

/// In which tensors an op is linear, so that partial sums may stay such. Partial averages pass as sums do.
enum class Linearity : uint8_t {
  none,      ///< partial ones are summed first
  together,  ///< in all at once, as a sum of tensors: they pass where all are partial alike
  each,      ///< in each where the others stay, as a product: one may be partial where the others are replicated
  first      ///< in the first alone, as a quotient
};

/// A part of a tensor: its first element and its sizes.
struct Part {
  Dims begin, sizes;
};

/// A call of an op as its rule sees it: whole tensors without elements.
class WEFT_API WholeCall {
 public:
  /// Arguments that are left out, at the end or as monostate, get their defaults; tensors are taken on the device
  /// `meta`. BadArgument where a required one is missing.
  WholeCall(const OpRecord& record, std::span<const Value> arguments);

  const OpRecord& record() const { return record_; }
  const Values& arguments() const { return arguments_; }
  /// By name; monostate where it has no value.
  const Value& operator[](std::string_view argument) const;
  /// Undefined where it was not given.
  Tensor tensor(std::string_view argument) const;
  bool flag(std::string_view argument) const;
  /// Tensors among the arguments, in order, those of lists too; undefined ones are left out.
  const std::vector<Tensor>& inputs() const { return inputs_; }
  /// The results of the op, found by running it. Raises the op's errors, and NotImplementedError if shapes depend on
  /// values.
  const std::vector<Tensor>& results() const;

 private:
  const OpRecord& record_;
  Values arguments_;
  std::vector<Tensor> inputs_;
  mutable std::vector<Tensor> results_;
  mutable bool has_results_ = false;
};

/// The call of one rank.
struct PartCall {
  const OpRecord& record;
  /// Those of the whole call, with this rank's parts for tensors.
  Values arguments;
  /// The shards of the tensors in order, and of the results.
  std::span<const Part> inputs, results;
  /// Adds up, over all ranks that cut an axis with one of these letters; all of them call it.
  const Callback<Tensor(const Tensor&, std::string_view letters)>& sum;

  WEFT_API Value& operator[](std::string_view argument);
  WEFT_API Tensor tensor(std::string_view argument) const;
  /// The op of these arguments.
  Value run() const { return record.call(arguments); }
};

/// The result of a partition rule.
struct Partition {
  /// One word for each given tensor (lists in order) and, after "->", for each result. A word has one letter per axis,
  /// or '1' for an axis that is never sharded. Axes with the same letter are sharded alike. If a sharded letter is
  /// missing in a result, each rank has a partial result.
  std::string letters;
  ReduceOp reduction = ReduceOp::sum;
  Linearity linearity = Linearity::none;
  /// The number of equal units of letters whose axes differ in size or can be split only between groups. Such a letter
  /// can be sharded if the number of shards divides it.
  std::vector<std::pair<char, int64_t>> units = {};
  /// The computation of one rank; empty for the op itself.
  Callback<Value(PartCall&)> on_parts = {};
  /// Tensors are made whole first, and results are. Their shapes may follow from values.
  bool whole = false;
  /// The call is one of each element of its lists, of lists of one.
  bool each = false;
};

/// The rule's answer, or a whole one where the record has no rule or shapes follow from values.
WEFT_API Partition partition_of(const WholeCall& call);

/// "1b,abc->abc" of operands of these shapes that broadcast: axes that are stretched are '1'.
WEFT_API std::string broadcast_notation(std::span<const Dims> shapes);
/// "amk,akn->amn" for a matrix product with broadcast batch axes. Raises ShapeError for an operand of rank 0 or 1.
WEFT_API std::string matmul_notation(const Dims& a, const Dims& b, bool transpose_a = false, bool transpose_b = false,
                                     Location where = {});

}  // namespace weft
