// Elementary functions of one float or double without branches or tables, so that compilers vectorise loops over them
// in any file: exp, expm1, log, log1p, tanh, sqrt and floor, f32 within 2 ulp. For map/dual.hpp.
#pragma once

#include <bit>
#include <cmath>

#include "../backends/functors/number_format.hpp"
#include "../tensor/number.hpp"

// No fused multiply-add, so that all processors give the same bits; for GCC the loop's attribute says so.
#if defined(__clang__)
#pragma float_control(push)
#pragma clang fp contract(off)
#endif

namespace weft::detail {

/// mask ? a : b, by bits: a branch would keep a loop from being vectorised, since arithmetic may trap.
template <class T>
WEFT_FN T choose(bool mask, T a, T b) {
  using Bits = typename NumberFormat<T>::Bits;
  const Bits all = Bits{0} - Bits{mask};
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & all) | (std::bit_cast<Bits>(b) & ~all));
}
/// c0 + c1 x + c2 x² + …, by Horner's rule.
template <class T>
WEFT_FN T polynomial(T, T last) {
  return last;
}
template <class T, class... C>
WEFT_FN T polynomial(T x, T first, C... rest) {
  return first + x * polynomial(x, T(rest)...);
}

/// 2 to the power n, for a whole n within the range of normal numbers.
template <class T>
WEFT_FN T power_of_two(T n) {
  using Format = NumberFormat<T>;
  return std::bit_cast<T>(std::bit_cast<typename Format::Bits>(n + T(Format::shifter + Format::bias))
                          << Format::mantissa);
}
/// x = n ln 2 + r with |r| <= ln 2 / 2; `low` is the rounding error of r.
template <class T>
struct ReducedExp {
  T n, r, low;
};
template <class T>
WEFT_FN ReducedExp<T> reduce_exp(T x) {
  using Format = NumberFormat<T>;
  const T n = (x * Format::log2_e + Format::shifter) - Format::shifter;
  const T high = x - n * Format::ln2_high, r = high - n * Format::ln2_low;
  return {n, r, (high - r) - n * Format::ln2_low};
}
/// (exp(r) - 1 - r) / r² for |r| <= ln 2 / 2
WEFT_FN float exp_tail(float r) {
  constexpr auto& c = NumberFormat<float>::exp_tail;
  return polynomial(r, c[0], c[1], c[2], c[3], c[4], c[5]);
}
WEFT_FN double exp_tail(double r) {
  constexpr auto& c = NumberFormat<double>::exp_tail;
  return polynomial(r, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10]);
}
/// x limited to [low, high]; NaN stays NaN.
template <class T>
WEFT_FN T bounded(T x, T low, T high) {
  const T below = choose(x > high, high, x);
  return choose(below < low, low, below);
}

template <class T>
WEFT_FN T fast_exp(T x) {
  using Format = NumberFormat<T>;
  const auto [n, r, low] = reduce_exp(bounded(x, Format::exp_low, Format::exp_high));
  const T half = (n * T(0.5) + Format::shifter) - Format::shifter;
  return (T(1) + (r + r * r * exp_tail(r))) * power_of_two(half) * power_of_two(n - half);
}
template <class T>
WEFT_FN T fast_expm1(T x) {
  const auto [n, r, low] = reduce_exp(bounded(x, T(-80), NumberFormat<T>::exp_high));
  const T p = r + (r * r * exp_tail(r) + low), half_scale = power_of_two(n - T(1));  // 2^n alone could overflow
  const T y = half_scale * p + (half_scale - T(0.5));
  return choose(std::fabs(x) < 4 * NumberFormat<T>::smallest_normal, x, y + y);  // whose halves have fewer bits
}
template <class T>
WEFT_FN T fast_tanh(T x) {
  const T magnitude = choose(std::fabs(x) > T(20), T(20), std::fabs(x));
  const auto [n, r, low] = reduce_exp(magnitude + magnitude);
  const T power = power_of_two(n), e = power * (r + (r * r * exp_tail(r) + low)) + (power - T(1));  // exp(2 |x|) - 1
  const T d = e + T(2), lost = e - (d - T(2)), q = e / d;
  const T better = q - q * lost * (T(0.5) - q * T(0.5));  // 1 / d = (1 - q) / 2
  return std::copysign(choose(q < T(0.75), better, q), x);
}

/// log(1 + f) + e ln 2 for 1 + f between sqrt(1/2) and sqrt(2).
WEFT_FN float log_core(float f, float e) {
  constexpr auto& c = NumberFormat<float>::log_tail;
  const float p = polynomial(f, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]);
  const float square = f * f, tail = (square * f * p + e * NumberFormat<float>::ln2_low) - 0.5f * square;
  return e * NumberFormat<float>::ln2_high + (f + tail);
}
WEFT_FN double log_core(double f, double e) {
  const double s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
  constexpr auto& c = NumberFormat<double>::log_tail;
  const double r = z * polynomial(z, c[0], c[1], c[2], c[3], c[4], c[5], c[6]);
  const double low = s * (half_square + r) + e * NumberFormat<double>::ln2_low;
  return e * NumberFormat<double>::ln2_high + (f - (half_square - low));
}
/// x = m 2^e with m between sqrt(1/2) and sqrt(2), for a normal x.
template <class T>
struct SplitNumber {
  T m, e;
};
template <class T>
WEFT_FN SplitNumber<T> split_number(T x) {
  using Format = NumberFormat<T>;
  using Bits = typename Format::Bits;
  const Bits shifted = std::bit_cast<Bits>(x) + (Format::one - Format::root_half);
  const Bits fraction = (shifted & ((Bits{1} << Format::mantissa) - 1)) + Format::root_half;
  const T e = std::bit_cast<T>((shifted >> Format::mantissa) | Format::whole_pattern);
  return {std::bit_cast<T>(fraction), e - (Format::whole + Format::bias)};
}
/// The logarithm of 0, negative numbers, infinity and NaN.
template <class T>
WEFT_FN T log_edges(T x, T result) {
  constexpr T infinity = static_cast<T>(__builtin_inff());
  result = choose(x == infinity, x, result);
  result = choose(x == T(0), -infinity, result);
  result = choose(x < T(0), static_cast<T>(__builtin_nanf("")), result);
  return choose(x != x, x, result);
}
template <class T>
WEFT_FN T fast_log(T x) {
  using Format = NumberFormat<T>;
  const bool tiny = x < Format::smallest_normal;
  const auto [m, e] = split_number(x * choose(tiny, Format::to_normal, T(1)));
  return log_edges(x, log_core(m - T(1), e - choose(tiny, Format::to_normal_log2, T(0))));
}
template <class T>
WEFT_FN T fast_log1p(T x) {
  const T u = x + T(1), back = u - T(1);
  const T lost = (T(1) - (u - back)) + (x - back);  // x + 1 = u + lost, exactly
  const auto [m, e] = split_number(u);
  // The exponent of a large u has no normal inverse, and its lost part is negligible.
  const T scaled = lost * power_of_two(choose(e > T(100), T(0), -e)) * choose(e > T(100), T(0), T(1));
  return choose(x == T(0), x, log_edges(u, log_core((m - T(1)) + scaled, e)));
}

template <class T>
struct RootFormat;
template <>
struct RootFormat<float> {
  static constexpr uint32_t inverse_root = 0x5f375a86u;
  static constexpr int steps = 3;
  static constexpr float small = 0x1p-60f, scale = 0x1p50f, splitter = 0x1p12f + 1;
};
template <>
struct RootFormat<double> {
  static constexpr uint64_t inverse_root = 0x5fe6eb50c7b537a9ull;
  static constexpr int steps = 4;
  static constexpr double small = 0x1p-500, scale = 0x1p300, splitter = 0x1p27 + 1;
};
/// The square root without the processor's instruction, which compilers put into a loop only with -fno-math-errno.
template <class T>
WEFT_FN T fast_sqrt(T x) {
#if defined(__NO_MATH_ERRNO__)
  return std::sqrt(x);
#else
  using Format = RootFormat<T>;
  const bool small = x < Format::small;
  const T a = x * choose(small, Format::scale * Format::scale, T(1));
  // 1 / sqrt(a) from its exponent (Lomont 2003), then by Newton's steps, each of which doubles the digits.
  T r = std::bit_cast<T>(Format::inverse_root - (std::bit_cast<typename NumberFormat<T>::Bits>(a) >> 1));
  for (int i = 0; i < Format::steps; ++i) r = r * (T(1.5) - (T(0.5) * a * r) * r);
  const T s = a * r, split = s * Format::splitter, high = split - (split - s), low = s - high;
  const T lost = ((a - high * high) - T(2) * high * low) - low * low;  // a - s², exactly
  const T root = (s + lost * (T(0.5) * r)) * choose(small, T(1) / Format::scale, T(1));
  constexpr T infinity = static_cast<T>(__builtin_inff());
  const T edge = choose(x == infinity, x, choose(x == T(0), x, static_cast<T>(__builtin_nanf(""))));
  return choose(x < infinity, choose(x > T(0), root, edge), edge);
#endif
}
/// The largest integer not above x; std::floor is a call without -fno-trapping-math.
template <class T>
WEFT_FN T fast_floor(T x) {
  using Format = NumberFormat<T>;
  const T magnitude = std::fabs(x), whole = std::copysign((magnitude + Format::whole) - Format::whole, x);
  const T below = choose(whole > x, whole - T(1), whole);
  return choose(magnitude < Format::whole, below, x);
}

}  // namespace weft::detail

#if defined(__clang__)
#pragma float_control(pop)
#endif
