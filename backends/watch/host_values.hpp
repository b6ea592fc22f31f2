// Checks and statistics of values in host memory, each in one pass: for tools that watch values.
#pragma once

#include <array>
#include <cstdint>

#include "../../tensor/view.hpp"

namespace weft::cpu {

/// NaN and infinities.
struct NonFinite {
  bool nan = false;
  bool inf = false;
  bool any() const { return nan || inf; }
};

/// Whether a view in host memory, of any layout, holds NaN or infinities; integers and 8-bit floats count as finite.
NonFinite find_non_finite(const View& view);

/// Moments and extremes are those of the finite elements.
struct ElementStatistics {
  int64_t count = 0, zeros = 0, non_finite = 0;
  double mean = 0;
  double squares = 0;  ///< sum of squared deviations from the mean
  double low = 0, high = 0;

  int64_t finite() const { return count - non_finite; }
  void add(const ElementStatistics& more);
};

/// `x` is contiguous, of any dtype but the 8-bit floats.
ElementStatistics element_statistics(const View& x);

/// counts[bits >> 23]: how many elements have this sign and binary exponent as a float; every `stride`-th of x, which
/// is contiguous and f32.
void count_exponents(const View& x, int64_t stride, std::array<uint32_t, 512>& counts);

/// Sum of (now - before)², then before = now; both contiguous, f32 and of one size.
double replace_and_difference(const View& before, const View& now);

}  // namespace weft::cpu
