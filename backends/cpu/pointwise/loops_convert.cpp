// Loops of casts, fills and transposes.
#include "loops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/pointwise/loops_convert.cpp"
#include "../simd/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"
#include "../simd/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

/// Rounds toward zero; values out of range give the lowest number, as on x86.
template <class Whole, class Real>
WEFT_FN Whole whole(Real x) {
  constexpr Real limit = static_cast<Real>(uint64_t{1} << (sizeof(Whole) * 8 - 1));
  const bool fits = (x >= -limit) & (x < limit);
  const Whole result = static_cast<Whole>(fits ? x : Real(0));
  return fits ? result : static_cast<Whole>(uint64_t{1} << (sizeof(Whole) * 8 - 1));
}
template <class To, class From>
WEFT_FN To cast(From x) {
  if constexpr (!std::is_floating_point_v<From> || std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_same_v<To, uint64_t>) {
    const From half = static_cast<From>(9223372036854775808.0);
    const bool large = (x >= half) & (x < half + half);
    const uint64_t low = static_cast<uint64_t>(whole<int64_t>(large ? x - half : x));
    return large ? low | (uint64_t{1} << 63) : low;
  } else if constexpr (sizeof(To) == 8 || std::is_same_v<To, uint32_t>) {
    return static_cast<To>(whole<int64_t>(x));
  } else {
    return static_cast<To>(whole<int32_t>(x));
  }
}

template <class To, class From>
void convert_loop(void* out, const void* a, int64_t n) {
  if constexpr (std::is_same_v<To, bool>) {
    auto* o = static_cast<uint8_t*>(out);
    auto* x = static_cast<const From*>(a);
    for (int64_t i = 0; i < n; ++i) o[i] = x[i] != From(0);
  } else if constexpr (std::is_same_v<From, bool>) {
    auto* o = static_cast<To*>(out);
    auto* x = static_cast<const uint8_t*>(a);
    for (int64_t i = 0; i < n; ++i) o[i] = static_cast<To>(x[i] != 0);
  } else {
    auto* o = static_cast<To*>(out);
    auto* x = static_cast<const From*>(a);
    for (int64_t i = 0; i < n; ++i) o[i] = cast<To>(x[i]);
  }
}

template <class Small>
void widen_loop(void* out, const void* a, int64_t n) {
  auto* o = static_cast<float*>(out);
  auto* x = static_cast<const Small*>(a);
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<Small, float16>) {
    const Tag<float> d;
    const hn::Rebind<hwy::float16_t, Tag<float>> half;
    constexpr int64_t lanes = HWY_LANES(float);
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(x + i))), d, o + i);
    }
  }
#endif
  for (; i < n; ++i) o[i] = to_float(x[i]);
}

WEFT_FN void narrow(float x, float16& out) { out = to_float16(x); }
WEFT_FN void narrow(float x, float8_e4m3fn& out) { out = to_float8_e4m3fn(x); }
WEFT_FN void narrow(float x, float8_e5m2& out) { out = to_float8_e5m2(x); }
WEFT_FN void narrow(float x, float8_e4m3fnuz& out) { out = to_float8_e4m3fnuz(x); }
WEFT_FN void narrow(float x, float8_e5m2fnuz& out) { out = to_float8_e5m2fnuz(x); }
WEFT_FN void narrow(float x, float8_e8m0fnu& out) { out = to_float8_e8m0fnu(x); }
WEFT_FN void narrow(float x, bfloat16& out) {  // without a branch, to vectorise
  const uint32_t u = float_bits(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
  out.bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
#if HWY_TARGET == HWY_AVX2
// As narrow: eight bfloat16s, each in 32 bits.
WEFT_FN __m256i bfloat16_bits(const float* x) {
  const __m256 value = _mm256_loadu_ps(x);
  const __m256i u = _mm256_castps_si256(value), high = _mm256_srli_epi32(u, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), quiet, _mm256_castps_si256(nan));
}
#endif

template <class Small>
void narrow_loop(void* out, const void* a, int64_t n) {
  auto* o = static_cast<Small*>(out);
  auto* x = static_cast<const float*>(a);
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<Small, float16>) {
    const Tag<float> d;
    const hn::Rebind<hwy::float16_t, Tag<float>> half;
    constexpr int64_t lanes = HWY_LANES(float);
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, x + i)), half, reinterpret_cast<hwy::float16_t*>(o + i));
    }
  }
#endif
#if HWY_TARGET == HWY_AVX2
  if constexpr (std::is_same_v<Small, bfloat16>) {
    for (; i + 16 <= n; i += 16) {
      const __m256i packed = _mm256_packus_epi32(bfloat16_bits(x + i), bfloat16_bits(x + i + 8));  // in halves by turns
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(o + i), _mm256_permute4x64_epi64(packed, 0xd8));
    }
  }
#endif
  for (; i < n; ++i) narrow(x[i], o[i]);
}

template <class From>
void odd_loop(void* out, const void* a, int64_t n) {
  auto* o = static_cast<float*>(out);
  auto* x = static_cast<const From*>(a);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (sizeof(From) == 4) o[i] = odd_float(static_cast<double>(x[i]));
    else o[i] = odd_float(x[i]);
  }
}

/// Whether an integer has a sign matters only where it becomes wider, or a floating-point number.
template <class To, class From>
constexpr UnaryLoop convert = [] {
  constexpr bool from_integer = std::is_integral_v<From>, to_integer = std::is_integral_v<To>;
  using Written = std::conditional_t<from_integer || sizeof(To) < 4, Bits<To>, To>;
  using Read = std::conditional_t<to_integer && sizeof(To) <= sizeof(From), Bits<From>, From>;
  return convert_loop<Written, Read>;
}();

template <class To>
void fill_to(UnaryLoop (&row)[dtype_count]) {
  const auto set = [&row]<class From>() {
    if constexpr (!std::is_same_v<To, From>) row[static_cast<int>(dtype_of<From>())] = convert<To, From>;
  };
  set.template operator()<bool>();
  set.template operator()<uint8_t>();
  set.template operator()<int8_t>();
  set.template operator()<uint16_t>();
  set.template operator()<int16_t>();
  set.template operator()<uint32_t>();
  set.template operator()<int32_t>();
  set.template operator()<uint64_t>();
  set.template operator()<int64_t>();
  set.template operator()<float>();
  set.template operator()<double>();
}

template <class T>
void fill_loop(void* out, const void* value, int64_t n) {
  auto* o = static_cast<T*>(out);
  const T x = *static_cast<const T*>(value);
  for (int64_t i = 0; i < n; ++i) o[i] = x;
}

void copy_loop(void* out, const void* a, int64_t bytes) {
  int64_t i = 0;
  auto* o = static_cast<uint8_t*>(out);
  auto* x = static_cast<const uint8_t*>(a);
#if HWY_TARGET != HWY_SCALAR
  const Tag<uint8_t> d;
  constexpr int64_t lanes = HWY_LANES(uint8_t);
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    const auto v0 = hn::LoadU(d, x + i), v1 = hn::LoadU(d, x + i + lanes);
    const auto v2 = hn::LoadU(d, x + i + 2 * lanes), v3 = hn::LoadU(d, x + i + 3 * lanes);
    hn::StoreU(v0, d, o + i), hn::StoreU(v1, d, o + i + lanes);
    hn::StoreU(v2, d, o + i + 2 * lanes), hn::StoreU(v3, d, o + i + 3 * lanes);
  }
#endif
  __builtin_memcpy(o + i, x + i, static_cast<size_t>(bytes - i));
}

void stream_loop(void* out, const void* a, int64_t bytes) {
#if HWY_TARGET == HWY_SCALAR  // has no such stores
  __builtin_memcpy(out, a, static_cast<size_t>(bytes));
#else
  const Tag<uint8_t> d;
  auto* o = static_cast<uint8_t*>(out);
  auto* x = static_cast<const uint8_t*>(a);
  constexpr int64_t lanes = HWY_LANES(uint8_t);
  int64_t i = -reinterpret_cast<intptr_t>(out) & 63;
  if (i > bytes) i = bytes;
  if (i > 0) __builtin_memcpy(o, x, static_cast<size_t>(i));
  for (; i + lanes <= bytes; i += lanes) hn::Stream(hn::LoadU(d, x + i), d, o + i);
  if (i < bytes) __builtin_memcpy(o + i, x + i, static_cast<size_t>(bytes - i));
#endif
}

template <class T>
void gather_loop(char* out, const char* in, int64_t in_stride, int64_t n) {
  int64_t i = 0;
  constexpr int64_t size = sizeof(T), lanes = size > 8 ? 1 : HWY_LANES(T);
  if constexpr (size == 4 || size == 8) {
    const Tag<T> d;
    for (; in_stride == -size && i + lanes <= n; i += lanes) {
      const T* const from = reinterpret_cast<const T*>(in) - (i + lanes - 1);
      hn::StoreU(hn::Reverse(d, hn::LoadU(d, from)), d, reinterpret_cast<T*>(out) + i);
    }
  }
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (size == 4 || size == 8) {
    const Tag<T> d;
    // Not the last element: behind it the memory may end.
    for (; in_stride == 2 * size && i + lanes < n; i += lanes) {
      const T* from = reinterpret_cast<const T*>(in) + 2 * i;
      const auto both = hn::ConcatEven(d, hn::LoadU(d, from + lanes), hn::LoadU(d, from));
      hn::StoreU(both, d, reinterpret_cast<T*>(out) + i);
    }
  }
#endif
#pragma GCC unroll 4
  for (; i < n; ++i) __builtin_memcpy(out + i * static_cast<int64_t>(sizeof(T)), in + i * in_stride, sizeof(T));
}

/// The largest block of `size` × `size` elements that is transposed at once, and the smaller one for the remainder.
template <class T>
constexpr int large_block = sizeof(T) == 16  ? 1
                            : sizeof(T) == 8 ? 4
                                             : 8;
template <class T>
constexpr int small_block = sizeof(T) < 4 ? 1 : 16 / sizeof(T);

template <class T, int size>
WEFT_FN void transpose_block(char* out, int64_t out_stride, const char* in, int64_t in_stride) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4 && size == 8) {
    __m256 r[8], s[8];
    for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(in + i * in_stride));
    for (int i = 0; i < 4; ++i) {
      s[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
      s[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; ++i) {
      r[4 * i] = _mm256_shuffle_ps(s[4 * i], s[4 * i + 2], 0x44);
      r[4 * i + 1] = _mm256_shuffle_ps(s[4 * i], s[4 * i + 2], 0xee);
      r[4 * i + 2] = _mm256_shuffle_ps(s[4 * i + 1], s[4 * i + 3], 0x44);
      r[4 * i + 3] = _mm256_shuffle_ps(s[4 * i + 1], s[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      _mm256_storeu_ps(reinterpret_cast<float*>(out + i * out_stride), _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
      _mm256_storeu_ps(reinterpret_cast<float*>(out + (i + 4) * out_stride),
                       _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
    return;
  } else if constexpr (sizeof(T) == 4 && size == 4) {
    __m128 r[4];
    for (int i = 0; i < 4; ++i) r[i] = _mm_loadu_ps(reinterpret_cast<const float*>(in + i * in_stride));
    _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
    for (int i = 0; i < 4; ++i) _mm_storeu_ps(reinterpret_cast<float*>(out + i * out_stride), r[i]);
    return;
  } else if constexpr (sizeof(T) == 8 && size == 4) {
    __m256d r[4];
    for (int i = 0; i < 4; ++i) r[i] = _mm256_loadu_pd(reinterpret_cast<const double*>(in + i * in_stride));
    const __m256d a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    const __m256d c = _mm256_unpacklo_pd(r[2], r[3]), e = _mm256_unpackhi_pd(r[2], r[3]);
    _mm256_storeu_pd(reinterpret_cast<double*>(out), _mm256_permute2f128_pd(a, c, 0x20));
    _mm256_storeu_pd(reinterpret_cast<double*>(out + out_stride), _mm256_permute2f128_pd(b, e, 0x20));
    _mm256_storeu_pd(reinterpret_cast<double*>(out + 2 * out_stride), _mm256_permute2f128_pd(a, c, 0x31));
    _mm256_storeu_pd(reinterpret_cast<double*>(out + 3 * out_stride), _mm256_permute2f128_pd(b, e, 0x31));
    return;
  } else if constexpr (sizeof(T) == 8 && size == 2) {
    const __m128d a = _mm_loadu_pd(reinterpret_cast<const double*>(in));
    const __m128d b = _mm_loadu_pd(reinterpret_cast<const double*>(in + in_stride));
    _mm_storeu_pd(reinterpret_cast<double*>(out), _mm_unpacklo_pd(a, b));
    _mm_storeu_pd(reinterpret_cast<double*>(out + out_stride), _mm_unpackhi_pd(a, b));
    return;
  }
#endif
  for (int r = 0; r < size; ++r) {
    auto* o = reinterpret_cast<T*>(out + r * out_stride);
    for (int c = 0; c < size; ++c) o[c] = reinterpret_cast<const T*>(in + c * in_stride)[r];
  }
}
/// In blocks of `size`; the remainder at the right and bottom in smaller ones.
template <class T, int size>
WEFT_FN void transpose_loop(char* out, int64_t out_stride, const char* in, int64_t in_stride, int64_t rows,
                            int64_t columns) {
  constexpr int64_t item = sizeof(T);
  const int64_t whole_rows = rows - rows % size, whole_columns = columns - columns % size;
  if (size > 1 && in_stride % 2048 != 0) {
    for (int64_t r = 0; r < whole_rows; r += size) {
      for (int64_t c = 0; c < whole_columns; c += size) {
        transpose_block<T, size>(out + r * out_stride + c * item, out_stride, in + c * in_stride + r * item, in_stride);
      }
    }
  } else {  // where input rows share cache sets and push each other out, what a block read of them is used up at once
    for (int64_t c = 0; c < whole_columns; c += size) {
      for (int64_t r = 0; r < whole_rows; r += size) {
        transpose_block<T, size>(out + r * out_stride + c * item, out_stride, in + c * in_stride + r * item, in_stride);
      }
    }
  }
  if constexpr (size > 1) {
    constexpr int next = size > small_block<T> ? small_block<T> : 1;
    if (whole_rows > 0 && whole_columns < columns) {
      transpose_loop<T, next>(out + whole_columns * item, out_stride, in + whole_columns * in_stride, in_stride,
                              whole_rows, columns - whole_columns);
    }
    if (whole_rows < rows) {
      transpose_loop<T, next>(out + whole_rows * out_stride, out_stride, in + whole_rows * item, in_stride,
                              rows - whole_rows, columns);
    }
  }
}

template <class T>
void fill_small(ConvertLoops& loops, DType t) {
  loops.loop[static_cast<int>(DType::f32)][static_cast<int>(t)] = widen_loop<T>;
  loops.loop[static_cast<int>(t)][static_cast<int>(DType::f32)] = narrow_loop<T>;
}
template <class T>
void fill_odd(ConvertLoops& loops) {
  loops.to_odd[static_cast<int>(dtype_of<T>())] = odd_loop<T>;
}
template <class T>
void fill_size(ConvertLoops& loops, int log2_size) {
  loops.fill[log2_size] = fill_loop<T>;
  loops.gather[log2_size] = gather_loop<T>;
  loops.transpose[log2_size] = transpose_loop<T, large_block<T>>;
}
void fill_convert(ConvertLoops& loops) {
  fill_to<bool>(loops.loop[static_cast<int>(DType::boolean)]);
  fill_to<uint8_t>(loops.loop[static_cast<int>(DType::u8)]);
  fill_to<int8_t>(loops.loop[static_cast<int>(DType::i8)]);
  fill_to<uint16_t>(loops.loop[static_cast<int>(DType::u16)]);
  fill_to<int16_t>(loops.loop[static_cast<int>(DType::i16)]);
  fill_to<uint32_t>(loops.loop[static_cast<int>(DType::u32)]);
  fill_to<int32_t>(loops.loop[static_cast<int>(DType::i32)]);
  fill_to<uint64_t>(loops.loop[static_cast<int>(DType::u64)]);
  fill_to<int64_t>(loops.loop[static_cast<int>(DType::i64)]);
  fill_to<float>(loops.loop[static_cast<int>(DType::f32)]);
  fill_to<double>(loops.loop[static_cast<int>(DType::f64)]);
  fill_small<float16>(loops, DType::f16);
  fill_small<bfloat16>(loops, DType::bf16);
  fill_small<float8_e4m3fn>(loops, DType::f8_e4m3fn);
  fill_small<float8_e5m2>(loops, DType::f8_e5m2);
  fill_small<float8_e4m3fnuz>(loops, DType::f8_e4m3fnuz);
  fill_small<float8_e5m2fnuz>(loops, DType::f8_e5m2fnuz);
  fill_small<float8_e8m0fnu>(loops, DType::f8_e8m0fnu);
  fill_odd<uint32_t>(loops);
  fill_odd<int32_t>(loops);
  fill_odd<uint64_t>(loops);
  fill_odd<int64_t>(loops);
  fill_odd<double>(loops);
  fill_size<uint8_t>(loops, 0);
  fill_size<uint16_t>(loops, 1);
  fill_size<uint32_t>(loops, 2);
  fill_size<uint64_t>(loops, 3);
  fill_size<complex128>(loops, 4);
  loops.copy = copy_loop;
  loops.stream = stream_loop;
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(fill_convert);
void choose_convert_loops() { HWY_DYNAMIC_DISPATCH(fill_convert)(convert_loops); }
}  // namespace weft::cpu
#endif
