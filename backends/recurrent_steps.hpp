// The row ranges of a recurrent layer's steps, for kernels.
#pragma once

#include "dispatch.hpp"

namespace weft {

/// Rows of a weight per hidden unit: 4 for LSTM, 3 for GRU, 1 for a plain cell.
inline int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

/// One step: the first `count` rows of the batch, stored from row `first`. Their previous values are stored from row
/// `before`, except rows from `known` on, which begin here.
struct RecurrentStep {
  int64_t first, count, before, known;
};

/// Calls f(step) in the order in which the steps follow one another, or with `backwards` in the opposite one.
template <class F>
void each_recurrent_step(const RecurrentSteps& steps, int64_t batch, bool backwards, F&& f) {
  const auto rows = [&](int64_t t) {
    if (t < 0 || t >= steps.count) return int64_t{0};
    return steps.rows.empty() ? batch : steps.rows[static_cast<size_t>(t)];
  };
  const bool falling = steps.reverse != backwards;
  int64_t first = 0;
  if (falling) {
    for (int64_t t = 0; t < steps.count; ++t) first += rows(t);
  }
  for (int64_t i = 0; i < steps.count; ++i) {
    const int64_t t = falling ? steps.count - 1 - i : i, count = rows(t);
    if (falling) first -= count;
    const int64_t earlier = steps.reverse ? t + 1 : t - 1, known = rows(earlier);
    f(RecurrentStep{first, count, steps.reverse ? first + count : first - known, known < count ? known : count});
    if (!falling) first += count;
  }
}

}  // namespace weft
