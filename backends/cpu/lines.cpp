// Conversion of lines between element types and compute types.
#include "simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/lines.cpp"
#include <hwy/foreach_target.h>
#include "simd/small_baseline-inl.hpp"

#include <new>

#include "lines.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// Any byte but 0 is true.
template <class S>
HWY_INLINE S loaded(const S* from) {
  if constexpr (std::is_same_v<S, bool>) return *reinterpret_cast<const uint8_t*>(from) != 0;
  else return *from;
}
template <class A, class S>
HWY_INLINE A number(S x) {
  return static_cast<A>(x);
}
template <class A>
HWY_INLINE A number(float16 x) {
  return static_cast<A>(to_float(x));
}
template <class A>
HWY_INLINE A number(bfloat16 x) {
  return static_cast<A>(to_float(x));
}
/// The float that 16 bits are rounded from.
HWY_INLINE float before_rounding(float x) { return x; }
HWY_INLINE float before_rounding(double x) { return odd_float(x); }
HWY_INLINE float before_rounding(int64_t x) { return odd_float(x); }
HWY_INLINE float before_rounding(uint64_t x) { return odd_float(x); }
HWY_INLINE float before_rounding(int32_t x) { return odd_float(static_cast<double>(x)); }
template <class S, class A>
HWY_INLINE S element(A x) {
  if constexpr (dtype_of<S>() == DType::f16) return to_float16(before_rounding(x));
  else if constexpr (dtype_of<S>() == DType::bf16) return to_bfloat16(before_rounding(x));
  else if constexpr (dtype_of<S>() == DType::boolean) return x != A(0);
  else return static_cast<S>(x);
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr bool has_half_conversion = true;
#else
constexpr bool has_half_conversion = false;
#endif

template <class A, class S>
HWY_NOINLINE void load_contiguous(A* HWY_RESTRICT to, const S* HWY_RESTRICT from, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (dtype_of<A>() == DType::f32 && dtype_of<S>() == DType::f16) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> half;
    const int64_t step = static_cast<int64_t>(hn::Lanes(d));
    for (; i + step <= n; i += step) {
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from + i))), d, to + i);
    }
  }
#endif
  for (; i < n; ++i) to[i] = number<A>(loaded(from + i));
}

template <class A, class S>
HWY_NOINLINE void store_contiguous(S* HWY_RESTRICT to, const A* HWY_RESTRICT from, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (dtype_of<A>() == DType::f32 && dtype_of<S>() == DType::f16) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> half;
    const int64_t step = static_cast<int64_t>(hn::Lanes(d));
    for (; i + step <= n; i += step) {
      hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + i)), half, reinterpret_cast<hwy::float16_t*>(to + i));
    }
  }
#endif
  for (; i < n; ++i) to[i] = element<S>(from[i]);
}

template <class A, class S>
void load_typed(A* to, const char* from, int64_t stride, int64_t n) {
  if (stride == (int64_t)sizeof(S)) {
    load_contiguous(to, reinterpret_cast<const S*>(from), n);
    return;
  }
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<A, S> && std::is_floating_point_v<A>) {  // parts of complex numbers
    const hn::ScalableTag<A> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    // Not the last number: behind it the memory may end.
    for (; stride == 2 * (int64_t)sizeof(A) && i + lanes < n; i += lanes) {
      const A* const at = reinterpret_cast<const A*>(from) + 2 * i;
      hn::StoreU(hn::ConcatEven(d, hn::LoadU(d, at + lanes), hn::LoadU(d, at)), d, to + i);
    }
  }
#endif
  for (; i < n; ++i) to[i] = number<A>(loaded(reinterpret_cast<const S*>(from + i * stride)));
}

template <class A, class S>
void store_typed(char* to, int64_t stride, const A* from, int64_t n) {
  if (stride == (int64_t)sizeof(S)) {
    store_contiguous(reinterpret_cast<S*>(to), from, n);
  } else {
    for (int64_t i = 0; i < n; ++i) *reinterpret_cast<S*>(to + i * stride) = element<S>(from[i]);
  }
}

#define WEFT_EACH_TYPE(do_it) \
  switch (dtype) {            \
    case DType::boolean:      \
      do_it(bool);            \
    case DType::u8:           \
      do_it(uint8_t);         \
    case DType::i8:           \
      do_it(int8_t);          \
    case DType::u16:          \
      do_it(uint16_t);        \
    case DType::i16:          \
      do_it(int16_t);         \
    case DType::u32:          \
      do_it(uint32_t);        \
    case DType::i32:          \
      do_it(int32_t);         \
    case DType::u64:          \
      do_it(uint64_t);        \
    case DType::i64:          \
      do_it(int64_t);         \
    case DType::f16:          \
      do_it(float16);         \
    case DType::bf16:         \
      do_it(bfloat16);        \
    case DType::f32:          \
      do_it(float);           \
    default:                  \
      do_it(double);          \
  }

template <class A>
HWY_INLINE void load_any(A* to, const char* from, int64_t stride, int64_t n, DType dtype) {
#define WEFT_LOAD(S) return load_typed<A, S>(to, from, stride, n)
  WEFT_EACH_TYPE(WEFT_LOAD)
#undef WEFT_LOAD
}

template <class A>
HWY_INLINE void store_any(char* to, int64_t stride, DType dtype, const A* from, int64_t n) {
#define WEFT_STORE(S) return store_typed<A, S>(to, stride, from, n)
  WEFT_EACH_TYPE(WEFT_STORE)
#undef WEFT_STORE
}

template <class S>
void truth_typed(int32_t* HWY_RESTRICT to, const char* from, int64_t stride, int64_t n) {
  const auto is_true = [](const char* p) HWY_ATTR -> int32_t {
    if constexpr (sizeof(S) == 2 && (dtype_of<S>() == DType::f16 || dtype_of<S>() == DType::bf16)) {
      return (reinterpret_cast<const S*>(p)->bits & 0x7fff) != 0;
    } else {
      return *reinterpret_cast<const S*>(p) != S(0);
    }
  };
  if (stride == (int64_t)sizeof(S)) {
    for (int64_t i = 0; i < n; ++i) to[i] = is_true(from + i * (int64_t)sizeof(S));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = is_true(from + i * stride);
  }
}

void load_float(float* to, const char* from, int64_t stride, int64_t n, DType t) { load_any(to, from, stride, n, t); }
void load_double(double* to, const char* from, int64_t stride, int64_t n, DType t) { load_any(to, from, stride, n, t); }
void load_int32(int32_t* to, const char* from, int64_t stride, int64_t n, DType t) { load_any(to, from, stride, n, t); }
void load_int64(int64_t* to, const char* from, int64_t stride, int64_t n, DType t) { load_any(to, from, stride, n, t); }
void store_float(char* to, int64_t stride, DType t, const float* from, int64_t n) { store_any(to, stride, t, from, n); }
void store_double(char* to, int64_t stride, DType t, const double* from, int64_t n) {
  store_any(to, stride, t, from, n);
}
void store_int32(char* to, int64_t stride, DType t, const int32_t* from, int64_t n) {
  store_any(to, stride, t, from, n);
}
void store_int64(char* to, int64_t stride, DType t, const int64_t* from, int64_t n) {
  store_any(to, stride, t, from, n);
}
void truth(int32_t* to, const char* from, int64_t stride, int64_t n, DType dtype) {
#define WEFT_TRUTH(S) return truth_typed<S>(to, from, stride, n)
  WEFT_EACH_TYPE(WEFT_TRUTH)
#undef WEFT_TRUTH
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

int column_dim(const Layout& layout, int dim) {
  const int64_t item = itemsize(layout.dtype);
  if (layout.strides[dim] == item || layout.sizes[dim] <= 1) return -1;
  for (int d = layout.rank - 1; d >= 0; --d) {
    if (d != dim && layout.strides[d] == item && layout.sizes[d] >= 4) return d;
  }
  return -1;
}

HWY_EXPORT(load_float);
HWY_EXPORT(load_double);
HWY_EXPORT(load_int32);
HWY_EXPORT(load_int64);
HWY_EXPORT(store_float);
HWY_EXPORT(store_double);
HWY_EXPORT(store_int32);
HWY_EXPORT(store_int64);
HWY_EXPORT(truth);

template <>
void load_line(float* to, const char* from, int64_t stride, int64_t n, DType dtype) {
  HWY_DYNAMIC_DISPATCH(load_float)(to, from, stride, n, dtype);
}
template <>
void load_line(double* to, const char* from, int64_t stride, int64_t n, DType dtype) {
  HWY_DYNAMIC_DISPATCH(load_double)(to, from, stride, n, dtype);
}
template <>
void load_line(int32_t* to, const char* from, int64_t stride, int64_t n, DType dtype) {
  HWY_DYNAMIC_DISPATCH(load_int32)(to, from, stride, n, dtype);
}
template <>
void load_line(int64_t* to, const char* from, int64_t stride, int64_t n, DType dtype) {
  HWY_DYNAMIC_DISPATCH(load_int64)(to, from, stride, n, dtype);
}
/// For integers only; their 64 bits do not depend on signedness.
template <>
void load_line(uint64_t* to, const char* from, int64_t stride, int64_t n, DType dtype) {
  load_line(reinterpret_cast<int64_t*>(to), from, stride, n, dtype);
}
template <>
void store_line(char* to, int64_t stride, DType dtype, const float* from, int64_t n) {
  HWY_DYNAMIC_DISPATCH(store_float)(to, stride, dtype, from, n);
}
template <>
void store_line(char* to, int64_t stride, DType dtype, const double* from, int64_t n) {
  HWY_DYNAMIC_DISPATCH(store_double)(to, stride, dtype, from, n);
}
template <>
void store_line(char* to, int64_t stride, DType dtype, const int32_t* from, int64_t n) {
  HWY_DYNAMIC_DISPATCH(store_int32)(to, stride, dtype, from, n);
}
template <>
void store_line(char* to, int64_t stride, DType dtype, const int64_t* from, int64_t n) {
  HWY_DYNAMIC_DISPATCH(store_int64)(to, stride, dtype, from, n);
}
template <>
void store_line(char* to, int64_t stride, DType dtype, const uint64_t* from, int64_t n) {
  store_line(to, stride, dtype, reinterpret_cast<const int64_t*>(from), n);
}
void load_truth(int32_t* to, const char* from, int64_t stride, int64_t n, DType dtype) {
  HWY_DYNAMIC_DISPATCH(truth)(to, from, stride, n, dtype);
}
}  // namespace weft::cpu
#endif
