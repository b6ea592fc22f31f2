// Registers of complex numbers: the real parts in one, the imaginary ones in another. Formulas over them give the bits
// that the same formulas give of weft::Complex.
#include <complex>

#include "simd_loops-inl.hpp"

#if defined(WEFT_SIMD_COMPLEX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_SIMD_COMPLEX_INL
#undef WEFT_SIMD_COMPLEX_INL
#else
#define WEFT_SIMD_COMPLEX_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <class T>
struct Pairs {
  Vec<T> re, im;

  Pairs() = default;
  HWY_INLINE Pairs(Vec<T> re_, Vec<T> im_) : re(re_), im(im_) {}
  HWY_INLINE explicit Pairs(double constant) : re(constant), im(0.0) {}

  static HWY_INLINE Pairs load(const T* from) {
    Pairs r;
    hn::LoadInterleaved2(Tag<T>(), from, r.re.raw, r.im.raw);
    return r;
  }
  HWY_INLINE void store(T* to) const { hn::StoreInterleaved2(re.raw, im.raw, Tag<T>(), to); }
};

template <class T>
HWY_INLINE Pairs<T> operator+(Pairs<T> a, Pairs<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
HWY_INLINE Pairs<T> operator-(Pairs<T> a, Pairs<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
HWY_INLINE Pairs<T> operator-(Pairs<T> a) {
  return {-a.re, -a.im};
}
template <class T>
HWY_INLINE Pairs<T> operator*(Pairs<T> a, Pairs<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
HWY_INLINE Pairs<T> operator/(Pairs<T> a, Pairs<T> b) {
  const Vec<T> c = abs(b.re), d = abs(b.im), zero(0.0);
  const Mask<T> real_leads = c >= d;
  const Vec<T> large = select(real_leads, b.re, b.im), ratio = select(real_leads, b.im, b.re) / large;
  const Vec<T> divisor = large + select(real_leads, b.im, b.re) * ratio;
  const Vec<T> re = select(real_leads, a.re + a.im * ratio, a.re * ratio + a.im) / divisor;
  const Vec<T> im = select(real_leads, a.im - a.re * ratio, a.im * ratio - a.re) / divisor;
  const Mask<T> by_zero = (c == zero) & (d == zero);
  return {select(by_zero, a.re / c, re), select(by_zero, a.im / c, im)};
}
template <class T>
HWY_INLINE Pairs<T> conj(Pairs<T> z) {
  return {z.re, -z.im};
}

/// exp(re) (cos(im) + i sin(im)); by the C library where a factor leaves the range that the product may have.
HWY_INLINE Pairs<float> exp(Pairs<float> z) {
  const Vec<float> length = exp(z.re), zero(0.0);
  const Pairs<float> near(length * cos(z.im), select(z.im == zero, z.im, length * sin(z.im)));
  const Mask<float> far = !((abs(z.re) < Vec<float>(80)) & (abs(z.im) < infinity<float>()));
  if (!any(far)) return near;
  const auto lane = [](float re, float im) { return std::exp(std::complex<float>(re, im)); };
  const Vec<float> re = by_lane([&](float a, float b) { return lane(a, b).real(); }, z.re, z.im);
  const Vec<float> im = by_lane([&](float a, float b) { return lane(a, b).imag(); }, z.re, z.im);
  return {select(far, re, near.re), select(far, im, near.im)};
}

/// As Array and Repeated, for complex numbers.
template <class T>
struct PairArray {
  const T* data;
  HWY_INLINE explicit PairArray(const void* p) : data(static_cast<const T*>(p)) {}
  HWY_INLINE Pairs<T> load(int64_t i) const { return Pairs<T>::load(data + 2 * i); }
  HWY_INLINE Pairs<T> load(int64_t i, int64_t count) const {
    HWY_ALIGN T rest[2 * HWY_LANES(T)] = {};
    __builtin_memcpy(rest, data + 2 * i, static_cast<size_t>(2 * count) * sizeof(T));
    return Pairs<T>::load(rest);
  }
};
template <class T>
struct RepeatedPair {
  Pairs<T> value;
  HWY_INLINE explicit RepeatedPair(const void* p)
      : value(hn::Set(Tag<T>(), static_cast<const T*>(p)[0]), hn::Set(Tag<T>(), static_cast<const T*>(p)[1])) {}
  HWY_INLINE Pairs<T> load(int64_t) const { return value; }
  HWY_INLINE Pairs<T> load(int64_t, int64_t) const { return value; }
};

/// out[i] = f(in[i]...) over n complex numbers.
template <class T, class F, class... In>
HWY_INLINE void for_pairs(T* out, int64_t n, F f, In... in) {
  constexpr int64_t lanes = HWY_LANES(T);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(in.load(i)...).store(out + 2 * i);
  if (i < n) {
    HWY_ALIGN T rest[2 * lanes];
    f(in.load(i, n - i)...).store(rest);
    __builtin_memcpy(out + 2 * i, rest, static_cast<size_t>(2 * (n - i)) * sizeof(T));
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
