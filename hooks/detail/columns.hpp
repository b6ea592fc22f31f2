// A history, merged into as many columns as a page can show. Not public.
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "../history.hpp"

namespace weft::detail {

/// A tensor's value or gradient over the steps of a column. `rms`, `zeros`, `ratio` and `bad` (non-finite elements) are
/// maxima over the steps, `least` is the minimum rms, and `low` and `high` are the extremes of all elements. `mean` and
/// `deviation` belong to the step with the maximum rms. NaN if unknown.
struct Cell {
  double rms = NAN, least = NAN, mean = NAN, deviation = NAN, low = NAN, high = NAN, zeros = NAN, ratio = NAN;
  int64_t bad = 0;
};

struct LossColumn {
  /// The last loss, or the first one that is not finite.
  std::optional<double> last = {};
  double low = INFINITY, high = -INFINITY;
};

class Columns {
 public:
  /// One column per step, at most 240, and fewer for many tensors.
  explicit Columns(const History& history);

  size_t size() const { return ends_.size(); }
  /// Whether any column covers several steps.
  bool merged() const { return merged_; }
  /// The last step of a column; `first_step` is its first.
  int64_t step(size_t column) const { return ends_[column]; }
  int64_t first_step(size_t column) const { return begins_[column]; }
  const LossColumn& loss(size_t column) const { return losses_[column]; }
  std::span<const Cell> values(size_t index) const { return row(values_, index); }
  std::span<const Cell> gradients(size_t index) const { return row(gradients_, index); }
  /// Elements of the tensor in the last step that has it.
  int64_t count(size_t index) const { return counts_[index]; }

 private:
  std::span<const Cell> row(const std::vector<Cell>& cells, size_t index) const {
    return std::span(cells).subspan(index * size(), size());
  }
  void add(const HistoryStep& step, size_t column);

  bool merged_ = false;
  std::vector<int64_t> begins_, ends_, counts_;
  std::vector<LossColumn> losses_;
  std::vector<Cell> values_, gradients_;
};

}  // namespace weft::detail
