// A history, merged into as many columns as a page can show. Not public.
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "../history.hpp"

namespace weft::detail {

/// The steps of a column for a tensor's value or gradient: the maximum of rms, zeros and ratio, the minimum rms
/// (`least`), the extremes of the elements, the largest count of non-finite elements, and mean and deviation of the
/// step with the maximum rms. NaN if unknown.
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
  std::span<const Cell> values(size_t which) const { return row(values_, which); }
  std::span<const Cell> gradients(size_t which) const { return row(gradients_, which); }
  /// Elements of the tensor in the last step that has it.
  int64_t count(size_t which) const { return counts_[which]; }

 private:
  std::span<const Cell> row(const std::vector<Cell>& cells, size_t which) const {
    return std::span(cells).subspan(which * size(), size());
  }
  void add(const RecordedStep& step, size_t column);

  bool merged_ = false;
  std::vector<int64_t> begins_, ends_, counts_;
  std::vector<LossColumn> losses_;
  std::vector<Cell> values_, gradients_;
};

}  // namespace weft::detail
