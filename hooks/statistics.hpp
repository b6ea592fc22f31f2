// Statistics of a tensor's elements in one pass, cheap enough for every step of a training run.
#pragma once

#include <array>
#include <cstdint>

#include "../tensor/index.hpp"

namespace weft {

/// Mean, deviation, norm and extremes of the finite elements; 0 if there are none.
struct Statistics {
  int64_t count = 0, zeros = 0, non_finite = 0;
  double mean = 0;
  double deviation = 0;  ///< standard deviation, divisor n
  double norm = 0;       ///< square root of the sum of squares
  double low = 0, high = 0;

  /// norm / √count: the typical magnitude of an element, independent of the size of the tensor.
  double rms() const;
  /// Fraction of elements that are exactly 0, in [0, 1].
  double zero_share() const;
  /// Merges the statistics, as if the elements of both had been measured together.
  Statistics& operator+=(const Statistics& more);
};

/// Returns the statistics of a tensor of any dtype, layout and device; device elements are copied to the host. Sums are
/// computed in chunks, without overflow or underflow of squares; the result does not depend on the number of threads.
/// Raises ValueError for an undefined tensor, and DeviceError for one on meta.
WEFT_API Statistics statistics(const Tensor& x, Location where = {});

/// Counts of elements by magnitude: bin i of `positive` and `negative` counts 2^(i + lowest) <= |v| < 2^(i + lowest +
/// 1). The outermost bins include all elements beyond them.
struct Histogram {
  static constexpr int lowest = -48;
  static constexpr int bins = 72;
  std::array<uint32_t, bins> negative{}, positive{};
  uint32_t zeros = 0, non_finite = 0;

  uint64_t count() const;
};

/// Counts at most `samples` elements at equal distances. Errors as `statistics`.
WEFT_API Histogram magnitude_histogram(const Tensor& x, int64_t samples = 65536, Location where = {});

}  // namespace weft
