// Row-sparse gradients of leaves: a lookup in a table contributes the used rows instead of a table of zeros around
// them. Only the leaf stores rows; reading its gradient makes it dense. Not public.
//
// An embedding's backward passes ids and rows to the accumulation node only if nothing but the leaf sees the
// gradient. In every other case the gradient is dense. So hooks, recorders and graphs of gradients need no sparse
// case.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "accumulation.hpp"

namespace weft::detail {

/// Leaves that got rows in a backward pass of this thread; null in one that must have dense gradients, since it is
/// recorded, captured or watched.
struct RowPass {
  std::vector<const AccumulationNode*> leaves;
};
extern constinit thread_local RowPass* row_pass;

/// Sets it for the pass that this thread runs, until the end of the scope.
class RowPassScope {
 public:
  explicit RowPassScope(RowPass* pass) : outer_(std::exchange(row_pass, pass)) {}
  ~RowPassScope() { row_pass = outer_; }
  RowPassScope(const RowPassScope&) = delete;

 private:
  RowPass* outer_;
};

/// Whether the backward of `self`, which runs, may give the gradient along this edge as rows: it leads to a leaf that
/// is to accumulate it and still has this shape, and nobody sees it on its way.
bool takes_rows(const Node& self, int edge, std::span<const int64_t> shape);
/// Gives it: values [n, …] at ids [n], i64, in [0, rows of the leaf). The ids must be nobody else's memory.
void give_rows(Node& self, int edge, const Tensor& ids, Tensor&& values);

/// Whether grad() would have to make rows dense first.
bool has_rows(const Tensor& x);

/// The leaf's gradient where it has come in rows alone: added up, in ascending order. The values are the gradient's
/// memory, and may be written. AutogradError from within a sum of this gradient.
std::optional<GradientRows> gradient_rows(AccumulationNode& node);

/// A substitute for grad() if only nonzero elements matter: the values of the rows of a leaf that stores rows, in the
/// gradient's own memory. Undefined without a gradient.
Tensor gradient_values(const Tensor& leaf);

/// Makes all rows part of the dense gradient; nothing where there are none, or this thread is adding already.
void settle_rows(AccumulationNode& node);
/// The same for the thread that adds.
void settle_rows_adding(AccumulationNode& node);

/// Merges the lists in order and sums rows with equal ids, which are in [0, rows). Defined in ops/.
GradientRows added_up(std::span<const GradientRows> pieces, int64_t rows);

}  // namespace weft::detail
