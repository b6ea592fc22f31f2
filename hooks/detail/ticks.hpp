// Axis ticks at round numbers. Not public.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace weft::detail {

/// Returns the smallest of 1, 2 and 5 times a power of ten that fits into `length` at most `max_ticks` times. Both are
/// positive.
inline double round_step(double length, double max_ticks) {
  const double rough = length / max_ticks, power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// Returns the multiples of a round step in [low, high], at most `max_ticks` + 1 of them. The step is at least
/// `least_step`, which is 1 for an axis of integers. Empty if the range is empty, not finite, or finer than the
/// precision of double.
inline std::vector<double> round_ticks(double low, double high, int max_ticks, double least_step = 0) {
  if (!(high > low) || !std::isfinite(high - low)) {
    return low == high && std::isfinite(low) ? std::vector<double>{low} : std::vector<double>{};
  }
  const double step = std::max(round_step(high - low, max_ticks), least_step);
  const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
  if (!(step > 0) || !(std::abs(first) < 0x1p52 && std::abs(last) < 0x1p52)) return {};
  std::vector<double> out;
  // Dividing by 10 rounds once, unlike multiplying by 0.1.
  const double inverse = std::round(1 / step);
  const bool fine = step < 1 && std::isfinite(inverse);
  for (double i = first + 0.0; i <= last; ++i) out.push_back(fine ? i / inverse : i * step);
  return out;
}

}  // namespace weft::detail
