// Detects whether the memory of a line grows from step to step. Not public.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace weft::detail {

/// Memory of one line's tensors at the end of each step.
class KeptByLine {
 public:
  void add(size_t bytes, size_t tensors);
  size_t bytes() const { return kept_.empty() ? 0 : kept_.back().bytes; }
  size_t tensors() const { return kept_.empty() ? 0 : kept_.back().tensors; }

  struct Growth {
    int64_t steps = 0;
    double bytes_each_step = 0;
  };
  /// Returns nothing if it does not grow, or only refills up to an earlier level.
  std::optional<Growth> growth() const;

 private:
  struct Kept {
    size_t bytes, tensors;
  };
  std::optional<Growth> in_a_row() const;
  std::optional<Growth> by_trend() const;

  /// The last steps since it fell to less than half.
  std::deque<Kept> kept_;
  /// The maximum before it fell.
  size_t before_fall_ = 0;
};

}  // namespace weft::detail
