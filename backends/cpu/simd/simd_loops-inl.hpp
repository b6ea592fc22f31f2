// The loop that applies a formula to arrays and repeated elements, a register at a time.
#include "simd-inl.hpp"

#if defined(WEFT_SIMD_LOOPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_SIMD_LOOPS_INL
#undef WEFT_SIMD_LOOPS_INL
#else
#define WEFT_SIMD_LOOPS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

/// An operand with an element for each of the output's.
template <class T>
struct Array {
  using Element = T;
  const T* data;
  HWY_INLINE explicit Array(const void* p) : data(static_cast<const T*>(p)) {}
  HWY_INLINE Vec<T> load(int64_t i) const { return hn::LoadU(Tag<T>(), data + i); }
  HWY_INLINE Vec<T> load(int64_t i, hn::Mask<Tag<T>> mask) const { return hn::MaskedLoad(mask, Tag<T>(), data + i); }
};
/// An operand of one element.
template <class T>
struct Repeated {
  using Element = T;
  Vec<T> value;
  HWY_INLINE explicit Repeated(const void* p) : value(hn::Set(Tag<T>(), *static_cast<const T*>(p))) {}
  HWY_INLINE Vec<T> load(int64_t) const { return value; }
  HWY_INLINE Vec<T> load(int64_t, hn::Mask<Tag<T>>) const { return value; }
};

/// out[i] = f(in[i]...). The remainder uses the same registers, so that a result never depends on its position.
template <class T, class F, class... In>
HWY_INLINE void for_vectors(T* out, int64_t n, F f, In... in) {
  const Tag<T> d;
  constexpr int64_t lanes = HWY_LANES(T);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(in.load(i)...).raw, d, out + i);
  if (i < n) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
    hn::BlendedStore(f(in.load(i, mask)...).raw, mask, d, out + i);
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
