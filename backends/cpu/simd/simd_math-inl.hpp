// Elementary functions of Vec: f32 within 2 ulp (atan 2.2, atanh 3, erfc 4) by polynomials; f64 by polynomials or,
// lane by lane, by C's library. A function of the list in backends/functors/math.hpp that has no overload here goes
// lane by lane. Included by simd-inl.hpp alone.
#include <cmath>

#include "simd_tables.hpp"
#include "../../functors/number_format.hpp"

#if defined(WEFT_SIMD_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_SIMD_MATH_INL
#undef WEFT_SIMD_MATH_INL
#else
#define WEFT_SIMD_MATH_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <class T>
using Format = weft::detail::NumberFormat<T>;
template <class T>
using BitsTag = hn::ScalableTag<typename Format<T>::Bits>;
template <class T>
HWY_INLINE hn::Vec<BitsTag<T>> bits(Vec<T> x) {
  return hn::BitCast(BitsTag<T>(), x.raw);
}
template <class T>
HWY_INLINE hn::Vec<BitsTag<T>> bits_constant(typename Format<T>::Bits value) {
  return hn::Set(BitsTag<T>(), value);
}
template <class T>
HWY_INLINE Vec<T> infinity() {
  return Vec<T>(static_cast<double>(__builtin_inff()));
}
template <class T>
HWY_INLINE Vec<T> not_a_number() {
  return Vec<T>(static_cast<double>(__builtin_nanf("")));
}

/// c[0] + c[1] x + c[2] x² + …, by Horner's rule.
template <class T, class C, int N>
HWY_INLINE Vec<T> polynomial(Vec<T> x, const C (&c)[N]) {
  Vec<T> sum(c[N - 1]);
#pragma GCC unroll 16
  for (int i = N - 2; i >= 0; --i) sum = fma(sum, x, Vec<T>(c[i]));
  return sum;
}

/// Calls `f` on each lane.
template <class T, class F>
HWY_INLINE Vec<T> by_lane(F f, Vec<T> a) {
  HWY_ALIGN T x[HWY_LANES(T)];
  hn::Store(a.raw, Tag<T>(), x);
  for (T& lane : x) lane = f(lane);
  return hn::Load(Tag<T>(), x);
}
template <class T, class F>
HWY_INLINE Vec<T> by_lane(F f, Vec<T> a, Vec<T> b) {
  HWY_ALIGN T x[HWY_LANES(T)], y[HWY_LANES(T)];
  hn::Store(a.raw, Tag<T>(), x);
  hn::Store(b.raw, Tag<T>(), y);
  for (size_t i = 0; i < HWY_LANES(T); ++i) x[i] = f(x[i], y[i]);
  return hn::Load(Tag<T>(), x);
}

using F32 = Vec<float>;
using F64 = Vec<double>;
#if HWY_TARGET == HWY_SCALAR
struct Doubles {
  F64 low;
};
HWY_INLINE Doubles widen(F32 x) { return {hn::PromoteTo(Tag<double>(), x.raw)}; }
HWY_INLINE F32 narrow(Doubles x) { return Raw<float>(static_cast<float>(x.low.raw.raw)); }  // DemoteTo loses infinity
template <class F>
HWY_INLINE Doubles on_doubles(F f, Doubles a) {
  return {f(a.low)};
}
template <class F>
HWY_INLINE Doubles on_doubles(F f, Doubles a, Doubles b) {
  return {f(a.low, b.low)};
}
#else
/// One register of floats as two of doubles.
struct Doubles {
  F64 low, high;
};
HWY_INLINE Doubles widen(F32 x) {
  const hn::Half<Tag<float>> half;
  return {hn::PromoteTo(Tag<double>(), hn::LowerHalf(half, x.raw)),
          hn::PromoteTo(Tag<double>(), hn::UpperHalf(half, x.raw))};
}
HWY_INLINE F32 narrow(Doubles x) {
  const hn::Half<Tag<float>> half;
  return hn::Combine(Tag<float>(), hn::DemoteTo(half, x.high.raw), hn::DemoteTo(half, x.low.raw));
}
template <class F>
HWY_INLINE Doubles on_doubles(F f, Doubles a) {
  return {f(a.low), f(a.high)};
}
template <class F>
HWY_INLINE Doubles on_doubles(F f, Doubles a, Doubles b) {
  return {f(a.low, b.low), f(a.high, b.high)};
}
#endif

/// 2 to the power n, for a whole n within the range of normal numbers.
template <class T>
HWY_INLINE Vec<T> power_of_two(Vec<T> n) {
  const Vec<T> biased = n + Vec<T>(Format<T>::shifter + Format<T>::bias);
  return hn::BitCast(Tag<T>(), hn::ShiftLeft<Format<T>::mantissa>(bits(biased)));
}
/// x times 2 to the power n, rounded once, for any result.
template <class T>
HWY_INLINE Vec<T> scale(Vec<T> x, Vec<T> n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4) return Raw<T>{_mm512_scalef_ps(x.raw.raw, n.raw.raw)};
  else return Raw<T>{_mm512_scalef_pd(x.raw.raw, n.raw.raw)};
#else
  const Vec<T> shifter(Format<T>::shifter);
  const Vec<T> half = fma(n, Vec<T>(0.5), shifter) - shifter;
  return x * power_of_two(half) * power_of_two(n - half);
#endif
}

/// x = n ln 2 + r with |r| <= ln 2 / 2; `low` is the rounding error of r.
template <class T>
struct Reduced {
  Vec<T> n, r, low;
};
template <class T>
HWY_INLINE Reduced<T> reduce_exp(Vec<T> x) {
  const Vec<T> shifter(Format<T>::shifter);
  const Vec<T> n = fma(x, Vec<T>(Format<T>::log2_e), shifter) - shifter;
  const Vec<T> high = fnma(n, Vec<T>(Format<T>::ln2_high), x);
  const Vec<T> r = fnma(n, Vec<T>(Format<T>::ln2_low), high);
  return {n, r, fnma(n, Vec<T>(Format<T>::ln2_low), high - r)};
}
/// (exp(r) - 1 - r) / r² for |r| <= ln 2 / 2
template <class T>
HWY_INLINE Vec<T> exp_tail(Vec<T> r) {
  return polynomial(r, Format<T>::exp_tail);
}
/// min(x, high); NaN stays NaN.
template <class T>
HWY_INLINE Vec<T> capped(Vec<T> x, double high) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return select(x > Vec<T>(high), Vec<T>(high), x);
#else
  return hn::Min(Vec<T>(high).raw, x.raw);  // x86 gives the second where either is NaN
#endif
}
/// max(low, x); NaN stays NaN.
template <class T>
HWY_INLINE Vec<T> raised(double low, Vec<T> x) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return select(x < Vec<T>(low), Vec<T>(low), x);
#else
  return hn::Max(Vec<T>(low).raw, x.raw);
#endif
}
template <class T>
HWY_INLINE Vec<T> bounded(Vec<T> x, double low, double high) {
  return raised(low, capped(x, high));
}

template <class T>
HWY_INLINE Vec<T> exp(Vec<T> x) {
  const Reduced<T> reduced = reduce_exp(bounded(x, Format<T>::exp_low, Format<T>::exp_high));
  const Vec<T> r = reduced.r;
  return scale(fma(r * r, exp_tail(r), r) + Vec<T>(1), reduced.n);
}
/// 2 to the power x where that is finite, within 1 ulp.
template <class T>
HWY_INLINE Vec<T> exp2_of_nonpositive(Vec<T> x) {
  const Vec<T> shifter(Format<T>::shifter), within = raised(Format<T>::exp2_low, x);
  const Vec<T> n = (within + shifter) - shifter, r = within - n;
  return scale(fma(r, polynomial(r, Format<T>::exp2_tail), Vec<T>(1)), n);
}
/// exp(x) - 1 for -80 <= x <= exp_high, without expm1's correction for tiny x.
template <class T>
HWY_INLINE Vec<T> expm1_within(Vec<T> x) {
  const Reduced<T> reduced = reduce_exp(x);
  const Vec<T> r = reduced.r, p = r + fma(r * r, exp_tail(r), reduced.low);
  const Vec<T> half_scale = power_of_two(reduced.n - Vec<T>(1));  // 2^n alone could overflow
  const Vec<T> y = fma(half_scale, p, half_scale - Vec<T>(0.5));
  return y + y;
}
template <class T>
HWY_INLINE Vec<T> expm1(Vec<T> x) {
  const Mask<T> tiny = abs(x) < Vec<T>(4 * Format<T>::smallest_normal);  // whose halves have fewer bits
  return select(tiny, x, expm1_within(bounded(x, -80.0, Format<T>::exp_high)));
}
#if HWY_TARGET == HWY_AVX3
HWY_INLINE F32 look_up(const float (&table)[16], hn::Vec<BitsTag<float>> index) {
  return Raw<float>{_mm512_permutexvar_ps(index.raw, _mm512_load_ps(table))};
}
HWY_INLINE F32 look_up(const float (&table)[8], hn::Vec<BitsTag<float>> index) {
  return Raw<float>{_mm512_permutexvar_ps(index.raw, _mm512_broadcast_f32x8(_mm256_load_ps(table)))};
}
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE F32 look_up(const float (&table)[16], hn::Vec<BitsTag<float>> index) {
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), index.raw);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), index.raw);
  return Raw<float>{_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index.raw, 28)))};
}
HWY_INLINE F32 look_up(const float (&table)[8], hn::Vec<BitsTag<float>> index) {
  return Raw<float>{_mm256_permutevar8x32_ps(_mm256_load_ps(table), index.raw)};
}
#else
template <int pieces>
HWY_INLINE F32 look_up(const float (&table)[pieces], hn::Vec<BitsTag<float>> index) {
  HWY_ALIGN uint32_t at[HWY_LANES(float)];
  HWY_ALIGN float x[HWY_LANES(float)];
  hn::Store(index, BitsTag<float>(), at);
  for (size_t i = 0; i < HWY_LANES(float); ++i) x[i] = table[at[i] % pieces];
  return hn::Load(Tag<float>(), x);
}
#endif

/// Where |x|, at most as far as the last of 8 or 16 pieces goes, falls: the nearest multiple of the width, by its last
/// bits, and the rest.
struct Piece {
  hn::Vec<BitsTag<float>> index;
  F32 t;
  Mask<float> first;
};
template <int pieces>
HWY_INLINE Piece piece_of(F32 x, double width) {
  const F32 shifter(Format<float>::shifter), magnitude = capped(abs(x), (pieces - 0.51) * width);
  const F32 shifted = fma(magnitude, F32(1 / width), shifter);
  return {bits(shifted), fnma(shifted - shifter, F32(width), magnitude), shifted == shifter};
}
/// c[from] + c[from + 1] t + … with the coefficients of each lane's piece.
template <int from, int N, int pieces>
HWY_INLINE F32 piecewise(const Piece& at, const float (&c)[N][pieces]) {
  F32 sum = look_up(c[N - 1], at.index);
#pragma GCC unroll 16
  for (int i = N - 2; i >= from; --i) sum = fma(sum, at.t, look_up(c[i], at.index));
  return sum;
}

HWY_INLINE F32 tanh(F32 x) { return copy_sign(piecewise<0>(piece_of<16>(x, tanh_width), tanh_parts), x); }
HWY_INLINE F64 tanh(F64 x) {
  const F64 two(2), magnitude = capped(abs(x), 20.0);
  const Reduced<double> reduced = reduce_exp(magnitude + magnitude);
  const F64 power = power_of_two(reduced.n), r = reduced.r;
  const F64 p = r + fma(r * r, exp_tail(r), reduced.low);
  const F64 e = fma(power, p, power - F64(1));  // exp(2 |x|) - 1
  const F64 d = e + two, lost = e - (d - two), q = e / d;
  const F64 better = fnma(q * lost, fnma(q, F64(0.5), F64(0.5)), q);  // 1 / d = (1 - q) / 2
  return copy_sign(select(q < F64(0.75), better, q), x);
}

/// log(1 + f) + e ln 2 for 1 + f between sqrt(1/2) and sqrt(2).
HWY_INLINE F32 log_core(F32 f, F32 e) {
  const F32 p = polynomial(f, Format<float>::log_tail);
  const F32 square = f * f;
  F32 tail = fma(square * f, p, e * F32(Format<float>::ln2_low));
  tail = fnma(F32(0.5), square, tail);
  return fma(e, F32(Format<float>::ln2_high), f + tail);
}
HWY_INLINE F64 log_core(F64 f, F64 e) {
  const F64 s = f / (F64(2) + f), z = s * s, half_square = F64(0.5) * f * f;
  const F64 r = z * polynomial(z, Format<double>::log_tail);
  const F64 low = fma(s, half_square + r, e * F64(Format<double>::ln2_low));
  return fma(e, F64(Format<double>::ln2_high), f - (half_square - low));
}
/// x = m 2^e with m between sqrt(1/2) and sqrt(2), for a normal x.
template <class T>
struct Split {
  Vec<T> m, e;
};
template <class T>
HWY_INLINE Split<T> split(Vec<T> x) {
  using Fmt = Format<T>;
  const BitsTag<T> d;
  const auto shifted = bits(x) + bits_constant<T>(Fmt::one - Fmt::root_half);
  const auto exponent = hn::ShiftRight<Fmt::mantissa>(shifted);  // still biased
  const auto fraction = shifted & bits_constant<T>((typename Fmt::Bits{1} << Fmt::mantissa) - 1);
  const Vec<T> m = hn::BitCast(Tag<T>(), fraction + bits_constant<T>(Fmt::root_half));
  const Vec<T> e = hn::BitCast(Tag<T>(), exponent | hn::Set(d, Fmt::whole_pattern));
  return {m, e - Vec<T>(Fmt::whole + Fmt::bias)};
}
/// The logarithm of 0, negative numbers, infinity and NaN.
template <class T>
HWY_INLINE Vec<T> log_edges(Vec<T> x, Vec<T> result) {
  result = select(x == infinity<T>(), x, result);
  result = select(x == zero_like(x), -infinity<T>(), result);
  return select(x < zero_like(x), not_a_number<T>(), select(is_nan(x), x, result));
}
template <class T>
HWY_INLINE Vec<T> log(Vec<T> x) {
  using Fmt = Format<T>;
  const Mask<T> tiny = x < Vec<T>(Fmt::smallest_normal);
  const Split<T> parts = split(select(tiny, x * Vec<T>(Fmt::to_normal), x));
  const Vec<T> e = parts.e - select(tiny, Vec<T>(Fmt::to_normal_log2), zero_like(x));
  return log_edges(x, log_core(parts.m - Vec<T>(1), e));
}
template <class T>
HWY_INLINE Vec<T> log1p(Vec<T> x) {
  const Vec<T> one(1), u = x + one, back = u - one;
  const Vec<T> lost = (one - (u - back)) + (x - back);  // x + 1 = u + lost, exactly
  const Split<T> parts = split(u);
  // The exponent of a large u has no normal inverse, and its lost part is negligible.
  const Vec<T> scaled = select(parts.e > Vec<T>(100), zero_like(x), lost * power_of_two(-parts.e));
  const Vec<T> f = (parts.m - one) + scaled;
  return select(x == zero_like(x), x, log_edges(u, log_core(f, parts.e)));
}

HWY_INLINE F32 erf(F32 x) {
  const Piece at = piece_of<8>(x, erf_width);
  const F32 start = select(at.first, at.t, look_up(erf_parts[0], at.index));  // piece 0 is of erf(t) - t
  return copy_sign(fma(piecewise<1>(at, erf_parts), at.t, start), x);
}

/// The exact rounding error of `square`, a² rounded.
HWY_INLINE F32 lost_of_square(F32 a, F32 square) {
#if HWY_NATIVE_FMA
  return fma(a, a, -square);
#else  // by halves of 12 bits (Veltkamp, Dekker 1971)
  const F32 wide = F32(4097) * a, high = wide - (wide - a), low = a - high;
  return ((high * high - square) + F32(2) * high * low) + low * low;
#endif
}
/// exp(-a²) erfcx(a) for a = |x|; near 0, 1 - erf(x). erfcx(a) (1 + 2 a) is a polynomial of (a - 2) / (a + 2) (Shepherd
/// and Laframboise 1981), and the rounding error of the square is compensated. Within 4 ulp.
HWY_INLINE F32 erfc(F32 x) {
  const F32 one(1), a = capped(abs(x), 11), square = a * a, lost = lost_of_square(a, square);
  const F32 p =
      polynomial((a - F32(2)) / (a + F32(2)),
                 {1.27697839397, -0.0927639850052, -0.16603146106, 0.164055425333, -0.054203882955, -0.00806014205422,
                  0.00863009433405, 0.00131330736112, -0.001227999204, -0.000399446960958});
  const F32 rounded = exp(-square) * (p / fma(F32(2), a, one)), tail = fnma(rounded, lost, rounded);
  const F32 near = fnma(
      x, polynomial(x * x, {1.1283791656, -0.376126088742, 0.112828268959, -0.0267573237896, 0.00471802805126}), one);
  return select(a < F32(0.5), near, select(x < zero_like(x), F32(2) - tail, tail));
}

/// The nearest whole number of quarter turns.
HWY_INLINE F64 quarter_turns(F64 x) {
  const F64 shifter(Format<double>::shifter);
  return fma(x, F64(0.63661977236758134), shifter) - shifter;
}
/// x - n pi / 2, exact enough up to 2^28.
HWY_INLINE F64 quarter_rest(F64 x, F64 n) {
  return fnma(n, F64(1.58932547735281966916e-08), fnma(n, F64(1.57079631090164184570), x));
}
/// x minus its nearest whole number of quarter turns, and that number modulo 4.
struct Quarter {
  F32 r, turns;
};
HWY_INLINE Quarter quarter(F32 x) {
  const Doubles wide = widen(x);
  const Doubles n = on_doubles([](F64 w) HWY_ATTR { return quarter_turns(w); }, wide);
  const Doubles rest = on_doubles([](F64 w, F64 k) HWY_ATTR { return quarter_rest(w, k); }, wide, n);
  const Doubles turns = on_doubles([](F64 k) HWY_ATTR { return k - F64(4) * floor(k * F64(0.25)); }, n);
  return {narrow(rest), narrow(turns)};
}
HWY_INLINE Mask<float> is_odd(F32 turns) { return (turns == F32(1)) | (turns == F32(3)); }
/// For |r| <= pi / 4.
HWY_INLINE F32 sin_near(F32 r) {
  const F32 z = r * r;
  return fma(
      r * z,
      polynomial(z, {-0.166666666409055055, 0.00833332932356249136, -0.000198393186036434052, 2.71818005309399077e-6}),
      r);
}
HWY_INLINE F32 cos_near(F32 r) {
  const F32 z = r * r;
  return fma(
      z * z,
      polynomial(z, {0.0416666666209681554, -0.00138888836201834771, 0.000024799489745684461, -2.72080321171759754e-7}),
      fma(F32(-0.5), z, F32(1)));
}
/// In double precision, since near the poles the angle's last place matters; with 9 digits.
HWY_INLINE F64 tan_wide(F64 x) {
  const F64 n = quarter_turns(x), r = quarter_rest(x, n), z = r * r;
  const F64 value = fma(r * z,
                        polynomial(z, {0.333333498, 0.133326609, 0.0540602064, 0.0212806445, 0.0108399276,
                                       8.41790562e-05, 0.00437898488}),
                        r);
  const F64 half = n * F64(0.5);
  return select(floor(half) == half, value, F64(-1) / value);
}
/// `near` where |x| is at most 1e8, the C library in the other lanes; no lane's result depends on the others.
template <class F>
HWY_INLINE F32 with_large_arguments(F32 x, F32 near, F far_away) {
  const auto far = abs(x) > F32(1e8);
  return any(far) ? select(far, by_lane(far_away, x), near) : near;
}
HWY_INLINE F32 sin(F32 x) {
  const auto [r, turns] = quarter(x);
  const F32 value = select(is_odd(turns), cos_near(r), sin_near(r));
  const F32 near = select(x == zero_like(x), x, select(turns >= F32(2), -value, value));
  return with_large_arguments(x, near, [](float lane) { return ::sinf(lane); });
}
HWY_INLINE F32 cos(F32 x) {
  const auto [r, turns] = quarter(x);
  const F32 value = select(is_odd(turns), sin_near(r), cos_near(r));
  const F32 near = select((turns == F32(1)) | (turns == F32(2)), -value, value);
  return with_large_arguments(x, near, [](float lane) { return ::cosf(lane); });
}
HWY_INLINE F32 tan(F32 x) {
  const F32 value = narrow(on_doubles([](F64 w) HWY_ATTR { return tan_wide(w); }, widen(x)));
  return with_large_arguments(x, select(x == zero_like(x), x, value), [](float lane) { return ::tanf(lane); });
}

/// 2^(y log2(x)) for x above 0, exact enough for a float.
HWY_INLINE F64 pow_wide(F64 x, F64 y) {
  const Split<double> parts = split(x);
  const F64 s = (parts.m - F64(1)) / (parts.m + F64(1)), z = s * s, shifter(Format<double>::shifter);
  const F64 log2 = fma(s,
                       polynomial(z, {2.8853900817900802, 0.96179667335015773, 0.57708358323985942, 0.41167282907537539,
                                      0.34072796321200327}),
                       parts.e);
  const F64 product = raised(-200, capped(y * log2, 200)), n = (product + shifter) - shifter, r = product - n;
  const F64 rest =
      polynomial(r, {0.99999999996168865, 0.69314718072869652, 0.24022651198113948, 0.055504103526330915,
                     0.009618027258351064, 0.0013333923223275736, 0.00015469289887671673, 1.5201769578620725e-05});
  return rest * power_of_two(n);
}
/// With the special values of C's pow.
HWY_INLINE F32 pow(F32 a, F32 b) {
  const F32 one(1), magnitude = abs(a), inf = infinity<float>(), zero = zero_like(a);
  F32 result = narrow(on_doubles([](F64 x, F64 y) HWY_ATTR { return pow_wide(x, y); }, widen(magnitude), widen(b)));
  const F32 at_zero = select(b < zero, inf, zero), at_infinity = select(b < zero, zero, inf);
  result = select(magnitude == zero, at_zero, select(magnitude == inf, at_infinity, result));
  result = select(is_nan(a) | is_nan(b), a + b, result);
  const Mask<float> whole = (floor(b) == b) & (abs(b) < inf);
  const F32 half = b * F32(0.5);
  const Mask<float> odd = whole & (floor(half) != half);
  result = select(odd, copy_sign(result, a), result);
  const Mask<float> negative = (a < zero_like(a)) & (magnitude < inf);
  result = select(negative & (abs(b) < inf) & !whole, not_a_number<float>(), result);
  result = select((magnitude == one) & (abs(b) == inf), one, result);
  return select((b == zero_like(b)) | (a == one), one, result);
}

/// fmod of numbers that are not negative, of which x is less than 2^52 times y.
HWY_INLINE F64 fmod_near(F64 x, F64 y) {
  const F64 whole = trunc(x / y), rest = fnma(whole, y, x);  // both exact, but x / y may round up to a whole number
  return select(whole == F64(0), x, select(rest < F64(0), rest + y, rest));
}
HWY_INLINE F32 fmod(F32 a, F32 b) {
  const F32 x = abs(a), y = abs(b);
  if (any(x >= y * F32(0x1p29))) return by_lane([](float p, float q) { return ::fmodf(p, q); }, a, b);
  return copy_sign(narrow(on_doubles([](F64 p, F64 q) HWY_ATTR { return fmod_near(p, q); }, widen(x), widen(y))), a);
}
HWY_INLINE F64 fmod(F64 a, F64 b) {
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128  // these round the product
  const F64 x = abs(a), y = abs(b);
  if (!any(x >= y * F64(0x1p52))) return copy_sign(fmod_near(x, y), a);
#endif
  return by_lane([](double p, double q) { return ::fmod(p, q); }, a, b);
}

HWY_INLINE F64 atan2_wide(F64 a, F64 b) {
  const F64 y = abs(a), x = abs(b);
  const Mask<double> steep = y > x;
  const F64 high = select(steep, y, x), low = select(steep, x, y);
  F64 t = low / high;
  t = select(high == F64(0), F64(0), select(low == infinity<double>(), F64(1), t));
  F64 r =
      t * polynomial(t * t, {0.999999999998446456, -0.333333332706839972, 0.199999957891126506, -0.142856020716234415,
                             0.111095370923245465, -0.0907752738033457838, 0.076173882607422059, -0.0637516083051667991,
                             0.0506351149986406082, -0.0355119111522122042, 0.0201617918129674144,
                             -0.00837493409495064612, 0.00220875520789401718, -0.000273629264667848676});
  r = select(steep, F64(1.5707963267948966) - r, r);
  r = select(copy_sign(F64(1), b) < F64(0), F64(3.1415926535897931) - r, r);
  return select(is_nan(a) | is_nan(b), a + b, copy_sign(r, a));
}
HWY_INLINE F32 atan2(F32 a, F32 b) {
  return narrow(on_doubles([](F64 x, F64 y) HWY_ATTR { return atan2_wide(x, y); }, widen(a), widen(b)));
}

template <class T>
HWY_INLINE Vec<T> exp2(Vec<T> x) {
  return exp2_of_nonpositive(capped(x, sizeof(T) == 4 ? 130 : 1030));  // beyond, both are infinity
}
/// x = (1 + f) 2^e, as `log` has it.
struct Logarithm {
  F32 f, e;
};
HWY_INLINE Logarithm logarithm(F32 x) {
  using Fmt = Format<float>;
  const Mask<float> tiny = x < F32(Fmt::smallest_normal);
  const Split<float> parts = split(select(tiny, x * F32(Fmt::to_normal), x));
  return {parts.m - F32(1), parts.e - select(tiny, F32(Fmt::to_normal_log2), zero_like(x))};
}
HWY_INLINE F32 log2(F32 x) {
  const auto [f, e] = logarithm(x);
  return log_edges(x, fma(log_core(f, zero_like(x)), F32(1.4426950408889634), e));
}
HWY_INLINE F32 log10(F32 x) {
  const auto [f, e] = logarithm(x);
  const F32 low = fma(log_core(f, zero_like(x)), F32(0.43429448190325183), e * F32(4.60503898119e-6));
  return log_edges(x, fma(e, F32(0.301025390625), low));  // log10(2) in two parts
}

/// For |x| <= 1/2 (Moshier, Cephes).
HWY_INLINE F32 asin_near(F32 x) {
  const F32 z = x * x;
  return fma(x * z, polynomial(z, {0.16666752422, 0.074953002686, 0.045470025998, 0.024181311049, 0.042163199048}), x);
}
HWY_INLINE F32 asin(F32 x) {
  const F32 a = abs(x), half(0.5);
  const Mask<float> far = a > half;
  const F32 near = asin_near(select(far, sqrt(half * (F32(1) - a)), a));
  const F32 value = select(far, fnma(F32(2), near, F32(1.5707963267948966)) - F32(4.37113883e-8), near);
  return select(is_nan(value), value, copy_sign(value, x));
}
HWY_INLINE F32 acos(F32 x) {
  const F32 a = abs(x), half(0.5);
  const F32 far = F32(2) * asin_near(sqrt(half * (F32(1) - a)));
  const F32 back = (F32(3.1415926535897931) - far) - F32(8.74227766e-8);
  const F32 near = (F32(1.5707963267948966) - asin_near(x)) - F32(4.37113883e-8);
  return select(a <= half, near, select(x < zero_like(x), back, far));
}
/// From the nearest of 0, pi / 4 and pi / 2 (Moshier, Cephes).
HWY_INLINE F32 atan(F32 x) {
  const F32 a = abs(x), one(1);
  const Mask<float> steep = a > F32(2.4142135623730950), middle = a > F32(0.41421356237309503);
  const F32 t = select(steep, -one / a, select(middle, (a - one) / (a + one), a)), z = t * t;
  const F32 base = select(steep, F32(1.5707963267948966), select(middle, F32(0.78539816339744831), zero_like(x)));
  const F32 lost = select(steep, F32(4.37113883e-8), select(middle, F32(2.18556941e-8), zero_like(x)));
  const F32 series = fma(t * z, polynomial(z, {-0.333329491539, 0.199777106478, -0.138776856032, 0.0805374449538}), t);
  return copy_sign(base + (series - lost), x);
}

/// sinh of e = exp(|x|) - 1, with the sign of x.
HWY_INLINE F64 half_difference(F64 e, F64 x) { return copy_sign(F64(0.5) * (e + e / (e + F64(1))), x); }
HWY_INLINE F64 half_sum(F64 e) { return F64(0.5) * (e + F64(1) / e); }
/// asinh(a) is log1p of this, for a from 0.
HWY_INLINE F64 asinh_argument(F64 a) { return a + a * (a / (F64(1) + sqrt(a * a + F64(1)))); }

// In double precision, with errors below those of a float.
#define WEFT_WIDE(name, ...)                                                            \
  HWY_INLINE F64 name##_wide(F64 x) { return __VA_ARGS__; }                             \
  HWY_INLINE F32 name(F32 x) {                                                          \
    return narrow(on_doubles([](F64 w) HWY_ATTR { return name##_wide(w); }, widen(x))); \
  }
WEFT_WIDE(sinh, half_difference(expm1(capped(abs(x), 100)), x))
WEFT_WIDE(cosh, half_sum(exp(capped(abs(x), 100))))
WEFT_WIDE(asinh, select(abs(x) == infinity<double>(), x, copy_sign(log1p(asinh_argument(abs(x))), x)))
WEFT_WIDE(acosh, select(x < F64(1), not_a_number<double>(), log1p((x - F64(1)) + sqrt((x - F64(1)) * (x + F64(1))))))
#undef WEFT_WIDE
HWY_INLINE F32 atanh(F32 x) {
  const F32 a = abs(x);
  return copy_sign(F32(0.5) * log1p((a + a) / (F32(1) - a)), x);
}

HWY_INLINE F32 hypot(F32 a, F32 b) {
  const F32 value = narrow(on_doubles([](F64 x, F64 y) HWY_ATTR { return sqrt(x * x + y * y); }, widen(a), widen(b)));
  const F32 inf = infinity<float>();
  return select((abs(a) == inf) | (abs(b) == inf), inf, value);
}
HWY_INLINE F64 hypot(F64 a, F64 b) {
  const F64 x = maximum(abs(a), abs(b)), y = minimum(abs(a), abs(b));
  const F64 near = sqrt(fma(x, x, y * y));
  const auto far = !((x < F64(0x1p510)) & ((x > F64(0x1p-500)) | (x == zero_like(x))));
  if (!any(far)) return near;
  return select(far, by_lane([](double p, double q) { return ::hypot(p, q); }, a, b), near);
}
template <class T>
HWY_INLINE Vec<T> copysign(Vec<T> a, Vec<T> b) {
  return copy_sign(abs(a), b);
}

// The fallback: an overload declared above is the better match.
#define WEFT_BY_LANE(name)                                                       \
  template <class V>                                                             \
  HWY_INLINE V name(V x) requires std::is_same_v<V, Vec<typename V::Element>> {  \
    return by_lane([](typename V::Element lane) { return std::name(lane); }, x); \
  }
#define WEFT_BY_LANE_OF_TWO(name)                                                                       \
  template <class V>                                                                                    \
  HWY_INLINE V name(V a, V b) requires std::is_same_v<V, Vec<typename V::Element>> {                    \
    return by_lane([](typename V::Element x, typename V::Element y) { return std::name(x, y); }, a, b); \
  }
WEFT_ELEMENTARY_FUNCTIONS(WEFT_BY_LANE)
WEFT_ELEMENTARY_FUNCTIONS_OF_TWO(WEFT_BY_LANE_OF_TWO)
#undef WEFT_BY_LANE
#undef WEFT_BY_LANE_OF_TWO

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
