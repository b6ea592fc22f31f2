// A history in as many columns as a page can show. Not public.
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "../history.hpp"

namespace weft::detail {

/// What the steps of a column have of a tensor's value or gradient: of rms, zeros and ratio the greatest, of rms the
/// least too, the lowest and the highest element, the most that are not finite; mean and deviation where rms is
/// greatest. NaN where nothing is known.
struct Cell {
  double rms = NAN, least = NAN, mean = NAN, deviation = NAN, low = NAN, high = NAN, zeros = NAN, ratio = NAN;
  int64_t bad = 0;
};

struct LossColumn {
  /// The last one, unless one is not finite.
  std::optional<double> last = {};
  double low = INFINITY, high = -INFINITY;
};

class Columns {
 public:
  /// As many as there are steps, at most 240, and fewer of many tensors.
  explicit Columns(const History& history);

  size_t size() const { return ends_.size(); }
  /// Whether any stands for several steps.
  bool merged() const { return merged_; }
  /// A column's last step, and its first.
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
