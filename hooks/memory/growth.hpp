// Whether what a line keeps grows from step to step. Not public.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace weft::detail {

/// What the tensors of one line take at the end of each step.
class KeptByLine {
 public:
  void add(size_t bytes, size_t tensors);
  size_t bytes() const { return kept_.empty() ? 0 : kept_.back().bytes; }
  size_t tensors() const { return kept_.empty() ? 0 : kept_.back().tensors; }

  struct Growth {
    int64_t steps = 0;
    double bytes_each_step = 0;
  };
  /// Nothing where it does not grow, or only fills again what it had filled before.
  std::optional<Growth> growth() const;

 private:
  struct Kept {
    size_t bytes, tensors;
  };
  std::optional<Growth> in_a_row() const;
  std::optional<Growth> by_trend() const;

  /// Since it fell to less than half, of the last steps.
  std::deque<Kept> kept_;
  /// The most that it had before it fell.
  size_t before_fall_ = 0;
};

}  // namespace weft::detail
