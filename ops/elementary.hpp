// Elementary functions of one float or double without a branch or a table, so that a loop over them becomes SIMD code
// in whatever file it stands: exp, expm1, log, log1p and tanh, f32 within 2 ulp; what ops/dual.hpp computes with.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace weft::detail {

/// The layout of an IEEE number: the bits of the mantissa, the bias of the exponent, and what reductions need.
template <class T>
struct NumberFormat;
template <>
struct NumberFormat<float> {
  using Bits = uint32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr Bits root_half = 0x3f3504f3u, one = 0x3f800000u, whole_pattern = 0x4b000000u;
  static constexpr float shifter = 12582912.0f, whole = 8388608.0f;
  static constexpr float smallest_normal = 0x1p-126f, to_normal = 0x1p25f, to_normal_log2 = 25;
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f, low = -104, high = 89;
};
template <>
struct NumberFormat<double> {
  using Bits = uint64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr Bits root_half = 0x3fe6a09e667f3bcdull, one = 0x3ff0000000000000ull;
  static constexpr Bits whole_pattern = 0x4330000000000000ull;
  static constexpr double shifter = 6755399441055744.0, whole = 4503599627370496.0;
  static constexpr double smallest_normal = 0x1p-1022, to_normal = 0x1p54, to_normal_log2 = 54;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  static constexpr double low = -746, high = 710;
};

/// mask ? a : b, by bits: as a branch it would keep a loop from becoming SIMD code, since arithmetic may trap.
template <class T>
inline T choose(bool mask, T a, T b) {
  using Bits = typename NumberFormat<T>::Bits;
  const Bits all = Bits{0} - Bits{mask};
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & all) | (std::bit_cast<Bits>(b) & ~all));
}
/// c0 + c1 x + c2 x² + …, by Horner's rule.
template <class T>
inline T polynomial(T, T last) {
  return last;
}
template <class T, class... C>
inline T polynomial(T x, T first, C... rest) {
  return first + x * polynomial(x, T(rest)...);
}

/// 2 to the power n, for a whole n within the range of normal numbers.
template <class T>
inline T power_of_two(T n) {
  using Format = NumberFormat<T>;
  return std::bit_cast<T>(std::bit_cast<typename Format::Bits>(n + T(Format::shifter + Format::bias))
                          << Format::mantissa);
}
/// x = n ln 2 + r with |r| <= ln 2 / 2; `low` is what r lost to rounding.
template <class T>
struct ReducedExp {
  T n, r, low;
};
template <class T>
inline ReducedExp<T> reduce_exp(T x) {
  using Format = NumberFormat<T>;
  const T n = (x * T(1.4426950408889634) + Format::shifter) - Format::shifter;
  const T high = x - n * Format::ln2_high, r = high - n * Format::ln2_low;
  return {n, r, (high - r) - n * Format::ln2_low};
}
/// (exp(r) - 1 - r) / r² for |r| <= ln 2 / 2
inline float exp_tail(float r) {
  return polynomial(r, 0.500000008104993246f, 0.166666667904450395f, 0.0416662623274035042f, 0.00833328040235857424f,
                    0.00139465042407909697f, 0.000199097148580294721f);
}
inline double exp_tail(double r) {
  return polynomial(r, 0.5, 0.166666666666666846, 0.041666666666666714, 0.00833333333331626057, 0.00138888888888635635,
                    0.000198412698980622146, 0.0000248015873639910276, 2.75572333580418894e-6, 2.75572413845585959e-7,
                    2.51125147400622008e-8, 2.09245482304247042e-9);
}
/// x held between low and high; NaN stays NaN.
template <class T>
inline T bounded(T x, T low, T high) {
  const T below = choose(x > high, high, x);
  return choose(below < low, low, below);
}

template <class T>
inline T fast_exp(T x) {
  using Format = NumberFormat<T>;
  const auto [n, r, low] = reduce_exp(bounded(x, Format::low, Format::high));
  const T half = (n * T(0.5) + Format::shifter) - Format::shifter;
  return (T(1) + (r + r * r * exp_tail(r))) * power_of_two(half) * power_of_two(n - half);
}
template <class T>
inline T fast_expm1(T x) {
  const auto [n, r, low] = reduce_exp(bounded(x, T(-80), NumberFormat<T>::high));
  const T p = r + (r * r * exp_tail(r) + low), half_scale = power_of_two(n - T(1));  // 2^n alone could overflow
  const T y = half_scale * p + (half_scale - T(0.5));
  return choose(x == T(0), x, y + y);
}
template <class T>
inline T fast_tanh(T x) {
  const T magnitude = choose(std::fabs(x) > T(20), T(20), std::fabs(x));
  const auto [n, r, low] = reduce_exp(magnitude + magnitude);
  const T power = power_of_two(n), e = power * (r + (r * r * exp_tail(r) + low)) + (power - T(1));  // exp(2 |x|) - 1
  const T d = e + T(2), lost = e - (d - T(2)), q = e / d;
  const T better = q - q * lost * (T(0.5) - q * T(0.5));  // 1 / d = (1 - q) / 2
  return std::copysign(choose(q < T(0.75), better, q), x);
}

/// log(1 + f) + e ln 2 for 1 + f between sqrt(1/2) and sqrt(2).
inline float log_core(float f, float e) {
  const float p = polynomial(f, 0.33333310898963846f, -0.250000162790580403f, 0.200022041836097843f,
                             -0.166676437161100898f, 0.14217891534678843f, -0.124112686867607378f,
                             0.119047121285221418f, -0.116464344164938319f, 0.0667527189197764733f);
  const float square = f * f, tail = (square * f * p + e * NumberFormat<float>::ln2_low) - 0.5f * square;
  return e * NumberFormat<float>::ln2_high + (f + tail);
}
inline double log_core(double f, double e) {
  const double s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
  const double r = z * polynomial(z, 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                  2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                  1.479819860511658591e-01);
  const double low = s * (half_square + r) + e * NumberFormat<double>::ln2_low;
  return e * NumberFormat<double>::ln2_high + (f - (half_square - low));
}
/// x = m 2^e with m between sqrt(1/2) and sqrt(2), for a normal x.
template <class T>
struct SplitNumber {
  T m, e;
};
template <class T>
inline SplitNumber<T> split_number(T x) {
  using Format = NumberFormat<T>;
  using Bits = typename Format::Bits;
  const Bits shifted = std::bit_cast<Bits>(x) + (Format::one - Format::root_half);
  const Bits fraction = (shifted & ((Bits{1} << Format::mantissa) - 1)) + Format::root_half;
  const T e = std::bit_cast<T>((shifted >> Format::mantissa) | Format::whole_pattern);
  return {std::bit_cast<T>(fraction), e - (Format::whole + Format::bias)};
}
/// The logarithm's values off the positive numbers.
template <class T>
inline T log_edges(T x, T result) {
  constexpr T infinity = static_cast<T>(__builtin_inff());
  result = choose(x == infinity, x, result);
  result = choose(x == T(0), -infinity, result);
  result = choose(x < T(0), static_cast<T>(__builtin_nanf("")), result);
  return choose(x != x, x, result);
}
template <class T>
inline T fast_log(T x) {
  using Format = NumberFormat<T>;
  const bool tiny = x < Format::smallest_normal;
  const auto [m, e] = split_number(x * choose(tiny, Format::to_normal, T(1)));
  return log_edges(x, log_core(m - T(1), e - choose(tiny, Format::to_normal_log2, T(0))));
}
template <class T>
inline T fast_log1p(T x) {
  const T u = x + T(1), back = u - T(1);
  const T lost = (T(1) - (u - back)) + (x - back);  // x + 1 = u + lost, exactly
  const auto [m, e] = split_number(u);
  // The exponent of a large u has no normal inverse, and what it lost does not count.
  const T scaled = lost * power_of_two(choose(e > T(100), T(0), -e)) * choose(e > T(100), T(0), T(1));
  return choose(x == T(0), x, log_edges(u, log_core((m - T(1)) + scaled, e)));
}

}  // namespace weft::detail
