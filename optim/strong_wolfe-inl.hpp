// Line search for the strong Wolfe conditions (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6),
// with cubic interpolation. Internal to optim/.
#pragma once

#include <algorithm>
#include <cmath>

#include "../tensor/index.hpp"

namespace weft::optim {

/// A position on the line with the loss there, its gradient, and its slope along the line.
struct LinePoint {
  double at, value;
  Tensor gradient;
  double slope;
};
struct LineResult {
  LinePoint point;
  int64_t evaluations;
};

/// The minimum of the cubic through both points with their slopes, within [low, high]; the middle if there is none.
inline double cubic_minimum(const LinePoint& p, const LinePoint& q, double low, double high) {
  const LinePoint &a = p.at <= q.at ? p : q, &b = p.at <= q.at ? q : p;
  const double d = a.slope + b.slope - 3 * (a.value - b.value) / (a.at - b.at), square = d * d - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double root = std::sqrt(square);
  const double lowest = b.at - (b.at - a.at) * ((b.slope + root - d) / (b.slope - a.slope + 2 * root));
  return std::min(std::max(lowest, low), high);
}
inline double cubic_minimum(const LinePoint& p, const LinePoint& q) {
  return cubic_minimum(p, q, std::min(p.at, q.at), std::max(p.at, q.at));
}

/// `evaluate(at)` returns a point. `start` is the point at 0, `length` the first trial, `extent` the largest absolute
/// element of the direction.
template <class Evaluate>
LineResult strong_wolfe(Evaluate&& evaluate, LinePoint start, double length, double extent, double tolerance_change,
                        int64_t max_tries) {
  constexpr double enough = 1e-4, flat = 0.9;
  start.at = 0;
  const auto too_high = [&](const LinePoint& p) { return p.value > start.value + enough * p.at * start.slope; };
  const auto is_flat = [&](const LinePoint& p) { return std::abs(p.slope) <= -flat * start.slope; };

  // Bracketing phase: until two points have a minimum between them.
  LinePoint before = start, now = evaluate(length), low = start, high = start;
  int64_t evaluations = 1, tries = 0;
  bool is_between = false;
  for (; tries < max_tries; ++tries) {
    if (too_high(now) || (tries > 1 && now.value >= before.value) || (now.slope >= 0 && !is_flat(now))) {
      low = before, high = now, is_between = true;
      break;
    }
    if (is_flat(now)) return {now, evaluations};
    const double next = cubic_minimum(before, now, now.at + 0.01 * (now.at - before.at), now.at * 10);
    before = now;
    now = evaluate(next);
    ++evaluations;
  }
  if (!is_between) low = start, high = now;
  if (low.value > high.value) std::swap(low, high);

  // Zoom phase: `low` is the lower end.
  bool stalls = false;
  for (; tries < max_tries; ++tries) {
    if (std::abs(high.at - low.at) * extent < tolerance_change) break;
    const double left = std::min(low.at, high.at), right = std::max(low.at, high.at), margin = 0.1 * (right - left);
    double next = cubic_minimum(low, high);
    const bool is_near_an_end = std::min(right - next, next - left) < margin;
    if (is_near_an_end && (stalls || next >= right || next <= left)) {
      next = std::abs(next - right) < std::abs(next - left) ? right - margin : left + margin;
      stalls = false;
    } else {
      stalls = is_near_an_end;
    }
    now = evaluate(next);
    ++evaluations;
    if (too_high(now) || now.value >= low.value) {
      high = now;
      if (low.value > high.value) std::swap(low, high);
      continue;
    }
    const bool is_done = is_flat(now);
    if (!is_done && now.slope * (high.at - low.at) >= 0) high = low;
    low = now;
    if (is_done) {
      ++tries;
      break;
    }
  }
  return {low, evaluations};
}

}  // namespace weft::optim
