// Lines of 8-bit floats to and from lines of f32, on registers of any width.
#if defined(WEFT_CPU_FP8_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_CPU_FP8_INL_HPP
#undef WEFT_CPU_FP8_INL_HPP
#else
#define WEFT_CPU_FP8_INL_HPP
#endif

#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "../../../tensor/dtype.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {
namespace fp8 {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Words = hn::RebindToUnsigned<Floats>;
using Codes = hn::Rebind<uint8_t, Floats>;
using Halves = hn::Rebind<uint16_t, Floats>;
using FloatVec = hn::Vec<Floats>;
using WordVec = hn::Vec<Words>;
constexpr int64_t width = static_cast<int64_t>(hn::MaxLanes(Floats()));

/// As to_float8_e4m3fn and to_float8_e5m2; tensor/number.hpp documents the formats.
struct E4m3 {
  static constexpr int shift = 20, missing = 120;
  static constexpr uint32_t largest = 0x43e00000, smallest_normal = 0x3c800000, rebias = 0xc407ffff, magic = 0x46800000;
  static constexpr uint32_t least_nan = 0x7f, nan_bits = 0x7fc00000;
  static constexpr float least = 0.001953125f;
};
struct E5m2 {
  static constexpr int shift = 21, missing = 112;
  static constexpr uint32_t largest = 0x47600000, smallest_normal = 0x38800000, rebias = 0xc80fffff, magic = 0x43000000;
  static constexpr uint32_t least_nan = 0x7d, nan_bits = 0x7fc00000;
  static constexpr float least = 1.52587890625e-05f;
};

HWY_INLINE WordVec magnitude(FloatVec x) { return hn::And(hn::BitCast(Words(), x), hn::Set(Words(), 0x7fffffffu)); }

/// The codes of x, each in 32 bits; beyond the range the largest of the sign, infinities too. With `fits` no number is
/// beyond the range by more than rounding, and none is NaN.
template <class F, bool fits>
HWY_INLINE WordVec encoded(FloatVec x) {
  const Words d;
  const WordVec bits = hn::BitCast(d, x), size = magnitude(x);
  const WordVec u = fits ? size : hn::Min(size, hn::Set(d, F::largest));
  const WordVec odd = hn::And(hn::ShiftRight<F::shift>(u), hn::Set(d, 1u));
  const WordVec normal = hn::ShiftRight<F::shift>(hn::Add(hn::Add(u, hn::Set(d, F::rebias)), odd));
  const FloatVec shifted = hn::Add(hn::BitCast(Floats(), u), hn::BitCast(Floats(), hn::Set(d, F::magic)));
  const WordVec subnormal = hn::Sub(hn::BitCast(d, shifted), hn::Set(d, F::magic));
  WordVec code = hn::IfThenElse(hn::Lt(u, hn::Set(d, F::smallest_normal)), subnormal, normal);
  if constexpr (!fits) code = hn::IfThenElse(hn::Gt(size, hn::Set(d, 0x7f800000u)), hn::Set(d, 0x7fu), code);
  return hn::Or(code, hn::And(hn::ShiftRight<24>(bits), hn::Set(d, 0x80u)));
}

template <class F>
HWY_INLINE FloatVec decoded(WordVec code) {
  const Words d;
  const WordVec size = hn::And(code, hn::Set(d, 0x7fu));
  const WordVec sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(d, 0x80u)));
  constexpr uint32_t first_normal = 1u << (23 - F::shift), bias = static_cast<uint32_t>(F::missing) << 23;
  const WordVec normal = hn::Add(hn::ShiftLeft<F::shift>(size), hn::Set(d, bias));
  const FloatVec small =
      hn::Mul(hn::ConvertTo(Floats(), hn::BitCast(hn::RebindToSigned<Floats>(), size)), hn::Set(Floats(), F::least));
  WordVec u = hn::IfThenElse(hn::Lt(size, hn::Set(d, first_normal)), hn::BitCast(d, small), normal);
  if constexpr (F::shift == 21) u = hn::IfThenElse(hn::Eq(size, hn::Set(d, 0x7cu)), hn::Set(d, 0x7f800000u), u);
  u = hn::IfThenElse(hn::Gt(size, hn::Set(d, F::least_nan - 1)), hn::Set(d, F::nan_bits), u);
  return hn::BitCast(Floats(), hn::Or(u, sign));
}

/// to[i] = the code of x[i] * by.
template <class F, bool fits = false>
HWY_INLINE void encode_line(uint8_t* to, const float* x, float by, int64_t n) {
  const FloatVec factor = hn::Set(Floats(), by);
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    hn::StoreU(hn::TruncateTo(Codes(), encoded<F, fits>(hn::Mul(hn::LoadU(Floats(), x + i), factor))), Codes(), to + i);
  }
  if (i == n) return;
  alignas(64) float last[16] = {};
  alignas(16) uint8_t codes[16];
  std::memcpy(last, x + i, static_cast<size_t>(n - i) % 16 * sizeof(float));
  hn::StoreU(hn::TruncateTo(Codes(), encoded<F, fits>(hn::Mul(hn::LoadU(Floats(), last), factor))), Codes(), codes);
  std::memcpy(to + i, codes, static_cast<size_t>(n - i) % 16);
}

/// to[i] = the number of codes[i], times `by`.
template <class F>
HWY_INLINE void decode_line(float* to, const uint8_t* codes, float by, int64_t n) {
  const FloatVec factor = hn::Set(Floats(), by);
  const auto numbers = [&](const uint8_t* from) HWY_ATTR {
    return hn::Mul(decoded<F>(hn::PromoteTo(Words(), hn::LoadU(Codes(), from))), factor);
  };
  int64_t i = 0;
  for (; i + width <= n; i += width) hn::StoreU(numbers(codes + i), Floats(), to + i);
  if (i == n) return;
  alignas(64) float last[16];
  alignas(16) uint8_t padded[16] = {};
  std::memcpy(padded, codes + i, static_cast<size_t>(n - i) % 16);
  hn::StoreU(numbers(padded), Floats(), last);
  std::memcpy(to + i, last, static_cast<size_t>(n - i) % 16 * sizeof(float));
}

/// Bits of the largest |x[i]|, at least `best`; those of NaN are above those of infinity.
HWY_INLINE uint32_t largest(const float* x, int64_t n, uint32_t best) {
  WordVec most = hn::Set(Words(), best);
  int64_t i = 0;
  for (; i + width <= n; i += width) most = hn::Max(most, magnitude(hn::LoadU(Floats(), x + i)));
  if (i < n) {
    alignas(64) float last[16] = {};
    std::memcpy(last, x + i, static_cast<size_t>(n - i) % 16 * sizeof(float));
    most = hn::Max(most, magnitude(hn::LoadU(Floats(), last)));
  }
  return hn::GetLane(hn::MaxOfLanes(Words(), most));
}
constexpr uint32_t infinite = 0x7f800000u;

/// Bits of the largest finite |x[i]|, at least `best`.
HWY_INLINE uint32_t largest_finite(const float* x, int64_t n, uint32_t best) {
  const Words d;
  const auto sizes = [&](const float* from) HWY_ATTR {
    const WordVec u = magnitude(hn::LoadU(Floats(), from));
    return hn::IfThenElseZero(hn::Lt(u, hn::Set(d, 0x7f800000u)), u);
  };
  WordVec most = hn::Set(d, best);
  int64_t i = 0;
  for (; i + width <= n; i += width) most = hn::Max(most, sizes(x + i));
  if (i < n) {
    alignas(64) float last[16] = {};
    std::memcpy(last, x + i, static_cast<size_t>(n - i) % 16 * sizeof(float));
    most = hn::Max(most, sizes(last));
  }
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

/// x[i] = x[i] * by[i], rounded to bf16.
HWY_INLINE void scale_to_bf16(float* x, const float* by, int64_t n) {
  const Words d;
  const auto rounded = [&](FloatVec v) HWY_ATTR {
    const WordVec u = hn::BitCast(d, v), odd = hn::And(hn::ShiftRight<16>(u), hn::Set(d, 1u));
    const WordVec nearest = hn::Add(u, hn::Add(odd, hn::Set(d, 0x7fffu)));
    const WordVec quiet = hn::Or(u, hn::Set(d, 0x400000u));
    const auto nan = hn::Gt(magnitude(v), hn::Set(d, 0x7f800000u));
    return hn::BitCast(Floats(), hn::And(hn::IfThenElse(nan, quiet, nearest), hn::Set(d, 0xffff0000u)));
  };
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    hn::StoreU(rounded(hn::Mul(hn::LoadU(Floats(), x + i), hn::LoadU(Floats(), by + i))), Floats(), x + i);
  }
  for (; i < n; ++i) {
    x[i] = to_float(to_bfloat16(x[i] * by[i]));
  }
}

}  // namespace fp8
}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
