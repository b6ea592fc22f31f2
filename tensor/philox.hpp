// The counter-based generator Philox4x32-10 (Salmon et al. 2011), and the conversion of its words to numbers. Element i
// of a draw depends only on the seed and i. All arithmetic is multiplications, additions, bit operations and one f64
// division, never fused, so that the CPU, CUDA and HPU give the same bits. Includes no standard headers, for devices.
//
// Each counter gives four words, in order. An element of up to 4 bytes uses one word, an 8-byte element two (the low
// one first). bernoulli uses one word for every dtype, so that a mask does not depend on the dtype. `normal` computes
// elements in pairs (2k, 2k + 1) by the Box-Muller transform; the second of the last pair is dropped if the count is
// odd.
#pragma once

#include "view.hpp"

#if defined(__OPENCL_CPP_VERSION__)
#pragma OPENCL FP_CONTRACT OFF
#endif

namespace weft {

struct PhiloxWords {
  uint32_t word[4];
};

/// The four words at counter {offset, subsequence}, least significant word first.
WEFT_FN PhiloxWords philox4x32_10(uint64_t key, uint64_t subsequence, uint64_t offset) {
  uint32_t c0 = (uint32_t)offset, c1 = (uint32_t)(offset >> 32);
  uint32_t c2 = (uint32_t)subsequence, c3 = (uint32_t)(subsequence >> 32);
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  PhiloxWords r;
  r.word[0] = c0;
  r.word[1] = c1;
  r.word[2] = c2;
  r.word[3] = c3;
  return r;
}

/// Words of 32 bits that one element takes.
constexpr int philox_words_per_element(DType dtype, bool bernoulli) {
  return !bernoulli && (dtype == DType::i64 || dtype == DType::u64 || dtype == DType::f64) ? 2 : 1;
}

/// Number of counters that a draw of `numel` elements uses; the next draw starts after them.
template <class D>
constexpr int64_t philox_blocks(int64_t numel, DType dtype, D distribution) {
  const int words = philox_words_per_element(dtype, distribution == D::bernoulli);
  return numel / 4 * words + (numel % 4 * words + 3) / 4;
}

// ---- uniform ----

/// [low, low + span), never above `last`: the largest value of the element type below the upper bound.
template <class T>
struct UniformRange {
  T low, span, last;
};

/// Uniform values in [0, 1) with the precision of f32, f64, f16 and bf16.
WEFT_FN float unit_f32(uint32_t word) { return (float)(int32_t)(word >> 8) * 5.9604644775390625e-8f; }
WEFT_FN double unit_f64(uint64_t words) { return (double)(int64_t)(words >> 11) * 1.1102230246251565404e-16; }
WEFT_FN float unit_f16(uint32_t word) { return (float)(int32_t)(word >> 21) * 4.8828125e-4f; }
WEFT_FN float unit_bf16(uint32_t word) { return (float)(int32_t)(word >> 24) * 3.90625e-3f; }

/// `unit` in [0, 1) moved into the range, at most its last value.
template <class T>
WEFT_FN T place(T unit, UniformRange<T> range) {
  const T x = range.low + unit * range.span;
  return x > range.last ? range.last : x;
}

// ---- bernoulli and integers ----

/// A word below this threshold is a success.
WEFT_FN uint64_t bernoulli_threshold(double probability) {
  if (!(probability > 0)) return 0;
  return probability >= 1 ? (uint64_t)1 << 32 : (uint64_t)(probability * 4294967296.0);
}
WEFT_FN bool bernoulli(uint32_t word, uint64_t threshold) { return word < threshold; }

/// low + words mod range; range 0 means the full range.
WEFT_FN int64_t integer_below(uint64_t words, int64_t low, uint64_t range) {
  const uint64_t x = range == 0                       ? words
                     : (words | range) <= 0xffffffffu ? (uint32_t)words % (uint32_t)range
                                                      : words % range;
  return (int64_t)((uint64_t)low + x);
}

// ---- normal ----

template <class T>
struct NormalPair {
  T first, second;
};

/// log(x) of a positive normal number, within 1 ulp (the Cephes polynomial).
WEFT_FN float portable_log(float x) {
  const uint32_t bits = float_bits(x);
  const int32_t exponent = (int32_t)(bits - 0x3f3504f3u) >> 23;
  const float e = (float)exponent;
  const float f = float_from_bits(bits - ((uint32_t)exponent << 23)) - 1.0f;
  const float z = f * f;
  float p = 7.0376836292e-2f * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const float tail = (p * f * z - 2.12194440e-4f * e) - 0.5f * z;
  return (f + tail) + 0.693359375f * e;
}

/// sqrt of 0 or a normal number by Newton's iteration, because the devices' own sqrt round differently.
WEFT_FN float portable_sqrt(float x) {
  float y = float_from_bits(0x5f375a86u - (float_bits(x) >> 1));
  const float halved = 0.5f * x;
  y = y * (1.5f - halved * y * y);
  y = y * (1.5f - halved * y * y);
  y = y * (1.5f - halved * y * y);
  const float r = x * y;
  return r + 0.5f * y * (x - r * r);
}

/// Two independent standard normal numbers from two words.
WEFT_FN NormalPair<float> normal_pair(uint32_t word0, uint32_t word1) {
  const float u = (float)(int32_t)((word0 >> 8) + 1) * 5.9604644775390625e-8f;  // (0, 1]
  const float radius = portable_sqrt(-2.0f * portable_log(u));
  const uint32_t angle = word1 >> 8;  // in units of 2^-24 turns
  const uint32_t quarter = (angle + (1u << 21)) >> 22;
  const float a = (float)(int32_t)(angle - (quarter << 22)) * 3.7450702829238e-7f;  // 2 pi 2^-24
  const float z = a * a;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * a + a;
  const float c =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  const bool swap = (quarter & 1u) != 0;
  const uint32_t cos_sign = ((quarter + 1u) & 2u) << 30, sin_sign = (quarter & 2u) << 30;
  const float cosine = float_from_bits(float_bits(swap ? s : c) ^ cos_sign);
  const float sine = float_from_bits(float_bits(swap ? c : s) ^ sin_sign);
  NormalPair<float> r;
  r.first = radius * cosine;
  r.second = radius * sine;
  return r;
}

/// The bits of a double.
WEFT_FN uint64_t double_bits(double value) {
#if defined(__OPENCL_CPP_VERSION__)
  return as_ulong(value);
#elif defined(__CUDACC__)
  union {
    double f;
    uint64_t u;
  } pun;
  pun.f = value;
  return pun.u;
#else
  return __builtin_bit_cast(uint64_t, value);
#endif
}
/// The double of these bits.
WEFT_FN double double_from_bits(uint64_t bits) {
#if defined(__OPENCL_CPP_VERSION__)
  return as_double(bits);
#elif defined(__CUDACC__)
  union {
    double f;
    uint64_t u;
  } pun;
  pun.u = bits;
  return pun.f;
#else
  return __builtin_bit_cast(double, bits);
#endif
}

/// log(x) of a positive normal number, within 1 ulp (fdlibm's polynomial).
WEFT_FN double portable_log(double x) {
  const uint64_t bits = double_bits(x);
  const int64_t exponent = (int64_t)(bits - (uint64_t)0x3fe6a09e667f3bcd) >> 52;
  const double e = (double)exponent;
  const double f = double_from_bits(bits - ((uint64_t)exponent << 52)) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = 1.479819860511658591e-1 * z + 1.531383769920937332e-1;
  p = p * z + 1.818357216161805012e-1;
  p = p * z + 2.222219843214978396e-1;
  p = p * z + 2.857142874366239149e-1;
  p = p * z + 3.999999999940941908e-1;
  p = p * z + 6.666666666666735130e-1;
  const double halved = 0.5 * f * f;
  const double tail = s * (halved + p * z) + e * 1.90821492927058770002e-10;
  return e * 6.93147180369123816490e-1 - ((halved - tail) - f);
}

WEFT_FN double portable_sqrt(double x) {
  double y = double_from_bits((uint64_t)0x5fe6eb50c7b537a9 - (double_bits(x) >> 1));
  const double halved = 0.5 * x;
  y = y * (1.5 - halved * y * y);
  y = y * (1.5 - halved * y * y);
  y = y * (1.5 - halved * y * y);
  y = y * (1.5 - halved * y * y);
  const double r = x * y;
  return r + 0.5 * y * (x - r * r);
}

WEFT_FN NormalPair<double> normal_pair(uint64_t words0, uint64_t words1) {
  const double u = (double)(int64_t)((words0 >> 11) + 1) * 1.1102230246251565404e-16;  // (0, 1]
  const double radius = portable_sqrt(-2.0 * portable_log(u));
  const uint64_t angle = words1 >> 11;  // in units of 2^-53 turns
  const uint64_t quarter = (angle + ((uint64_t)1 << 50)) >> 51;
  const double a = (double)(int64_t)(angle - (quarter << 51)) * 6.9757369960172635e-16;  // 2 pi 2^-53
  const double z = a * a;
  double s = 1.58969099521155010221e-10 * z - 2.50507602534068634195e-8;
  s = s * z + 2.75573137070700676789e-6;
  s = s * z - 1.98412698298579493134e-4;
  s = s * z + 8.33333333332248946124e-3;
  s = s * z - 1.66666666666666324348e-1;
  s = s * z * a + a;
  double c = -1.13596475577881948265e-11 * z + 2.08757232129817482790e-9;
  c = c * z - 2.75573143513906633035e-7;
  c = c * z + 2.48015872894767294178e-5;
  c = c * z - 1.38888888888741095749e-3;
  c = c * z + 4.16666666666666019037e-2;
  c = c * z * z - 0.5 * z + 1.0;
  const bool swap = (quarter & 1u) != 0;
  const uint64_t cos_sign = ((quarter + 1u) & 2u) << 62, sin_sign = (quarter & 2u) << 62;
  const double cosine = double_from_bits(double_bits(swap ? s : c) ^ cos_sign);
  const double sine = double_from_bits(double_bits(swap ? c : s) ^ sin_sign);
  NormalPair<double> r;
  r.first = radius * cosine;
  r.second = radius * sine;
  return r;
}

// ---- the range of a uniform draw, computed on the host ----

/// The largest number below x.
WEFT_FN float next_below(float x) {
  const uint32_t bits = float_bits(x);
  if (x == 0) return float_from_bits(0x80000001u);
  return float_from_bits(x > 0 ? bits - 1 : bits + 1);
}
WEFT_FN double next_below(double x) {
  const uint64_t bits = double_bits(x);
  if (x == 0) return double_from_bits((uint64_t)0x8000000000000001);
  return double_from_bits(x > 0 ? bits - 1 : bits + 1);
}

/// The bits of the next lower 16-bit float.
WEFT_FN uint32_t below_bits(uint32_t bits) {
  if ((bits & 0x7fffu) == 0) return 0x8001u;
  return (bits & 0x8000u) ? bits + 1 : bits - 1;
}

/// For f64. Other floats use the f32 version; f16 and bf16 have their own `last`.
WEFT_FN UniformRange<double> uniform_range_f64(double low, double high) {
  UniformRange<double> r;
  r.low = low;
  r.span = high - low;
  r.last = high > low ? next_below(high) : low;
  return r;
}
WEFT_FN UniformRange<float> uniform_range(DType dtype, double low, double high) {
  UniformRange<float> r;
  r.low = (float)low;
  r.span = (float)(high - low);
  r.last = (float)high;
  if ((double)r.last >= high) r.last = next_below(r.last);
  if (dtype == DType::f16) {
    float16 h = to_float16(r.last);
    if (to_float(h) > r.last) h.bits = (uint16_t)below_bits(h.bits);
    r.last = to_float(h);
  }
  if (dtype == DType::bf16) {
    bfloat16 h = to_bfloat16(r.last);
    if (to_float(h) > r.last) h.bits = (uint16_t)below_bits(h.bits);
    r.last = to_float(h);
  }
  if (!(r.last > r.low)) r.last = r.low;
  return r;
}

}  // namespace weft
