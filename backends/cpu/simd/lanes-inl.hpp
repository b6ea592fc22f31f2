// Sixteen numbers at once on registers of any width: the same operations in the same order, hence the same bits,
// whether they are one register of 16 or four of 4. No multiply is fused with an add.
#if defined(WEFT_CPU_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_CPU_LANES_INL_HPP
#undef WEFT_CPU_LANES_INL_HPP
#else
#define WEFT_CPU_LANES_INL_HPP
#endif

#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

constexpr int64_t lane_count = 16;
template <class A>
constexpr A infinity = static_cast<A>(__builtin_inf());
/// Sums run in lanes over this many numbers; the sums of such chunks are added in double.
constexpr int64_t chunk_size = 4096;

// Unrolled at once, so that the parts live in registers.
#define WEFT_EACH_PART(count) HWY_UNROLL(4) for (int k = 0; k < (count); ++k)

template <class T, int64_t n = lane_count>
struct Lanes {
  using D = hn::CappedTag<T, n>;
  using V = hn::Vec<D>;
  static constexpr int64_t width = static_cast<int64_t>(hn::MaxLanes(D()));
  static constexpr int count = static_cast<int>(n / width);
  V part[count];

  HWY_INLINE Lanes() {}
  HWY_INLINE Lanes(T x) { WEFT_EACH_PART(count) part[k] = hn::Set(D(), x); }
  static HWY_INLINE Lanes load(const T* from) {
    Lanes r;
    WEFT_EACH_PART(count) r.part[k] = hn::LoadU(D(), from + k * width);
    return r;
  }
  HWY_INLINE void store(T* to) const { WEFT_EACH_PART(count) hn::StoreU(part[k], D(), to + k * width); }
  /// The first `left` numbers, then `filler`; all of them when left is n or more.
  static HWY_INLINE Lanes load(const T* from, int64_t left, T filler) {
    if (left >= n) return load(from);
    Lanes r;
    // AVX2 and later read nothing where the mask is off.
    if constexpr (HWY_TARGET <= HWY_AVX2 && sizeof(T) >= 4) {
      WEFT_EACH_PART(count) {
        const auto there = hn::FirstN(D(), first_of(left, k));
        r.part[k] = hn::IfThenElse(there, hn::MaskedLoad(there, D(), from + k * width), hn::Set(D(), filler));
      }
    } else {
      alignas(64) T buffer[n];
      for (int64_t i = 0; i < n; ++i) buffer[i] = i < left ? from[i] : filler;
      r = load(buffer);
    }
    return r;
  }
  HWY_INLINE void store(T* to, int64_t left) const {
    if (left >= n) return store(to);
    if constexpr (HWY_TARGET <= HWY_AVX2 && sizeof(T) >= 4) {
      WEFT_EACH_PART(count) hn::BlendedStore(part[k], hn::FirstN(D(), first_of(left, k)), D(), to + k * width);
    } else {
      alignas(64) T buffer[n];
      store(buffer);
      for (int64_t i = 0; i < left; ++i) to[i] = buffer[i];
    }
  }

 private:
  static HWY_INLINE size_t first_of(int64_t left, int k) {
    const int64_t mine = left - k * width;
    return static_cast<size_t>(mine > 0 ? mine : 0);
  }
};

#define WEFT_LANES_OPERATOR(op, function)                                                    \
  template <class T, int64_t n>                                                              \
  HWY_INLINE Lanes<T, n> operator op(Lanes<T, n> a, Lanes<T, n> b) {                         \
    Lanes<T, n> r;                                                                           \
    WEFT_EACH_PART((Lanes<T, n>::count)) { r.part[k] = hn::function(a.part[k], b.part[k]); } \
    return r;                                                                                \
  }
WEFT_LANES_OPERATOR(+, Add)
WEFT_LANES_OPERATOR(-, Sub)
WEFT_LANES_OPERATOR(*, Mul)
#undef WEFT_LANES_OPERATOR

/// The larger; once NaN, always NaN.
template <class T, int64_t n>
HWY_INLINE Lanes<T, n> larger(Lanes<T, n> a, Lanes<T, n> b) {
  Lanes<T, n> r;
  WEFT_EACH_PART((Lanes<T, n>::count)) {
    const auto takes_b = hn::Or(hn::Gt(b.part[k], a.part[k]), hn::IsNaN(b.part[k]));
    r.part[k] = hn::IfThenElse(takes_b, b.part[k], a.part[k]);
  }
  return r;
}
template <class T, int64_t n>
HWY_INLINE Lanes<T, n> smaller(Lanes<T, n> a, Lanes<T, n> b) {
  Lanes<T, n> r;
  WEFT_EACH_PART((Lanes<T, n>::count)) {
    const auto takes_b = hn::Or(hn::Lt(b.part[k], a.part[k]), hn::IsNaN(b.part[k]));
    r.part[k] = hn::IfThenElse(takes_b, b.part[k], a.part[k]);
  }
  return r;
}

/// Combines the sixteen in a tree: i with i + 8, then 4, 2, 1. `combine` takes Lanes of any count.
template <class T, int64_t n, class F>
HWY_INLINE T fold(Lanes<T, n> a, F combine) {
  if constexpr (n == 1) {
    return hn::GetLane(a.part[0]);
  } else {
    using Half = Lanes<T, n / 2>;
    Half low, high;
    if constexpr (Lanes<T, n>::count > 1) {
      WEFT_EACH_PART(Half::count) low.part[k] = a.part[k], high.part[k] = a.part[k + Half::count];
    }
#if HWY_TARGET != HWY_SCALAR
    else {
      low.part[0] = hn::LowerHalf(a.part[0]);
      high.part[0] = hn::UpperHalf(typename Half::D(), a.part[0]);
    }
#endif
    return fold(combine(low, high), combine);
  }
}
template <class T>
HWY_INLINE T sum_of(Lanes<T> a) {
  return fold(a, [](auto x, auto y) HWY_ATTR { return x + y; });
}

/// The same sixteen as doubles.
HWY_INLINE Lanes<double> widened(Lanes<float> a) {
  using D = Lanes<double>::D;
  Lanes<double> r;
#if HWY_TARGET == HWY_SCALAR
  WEFT_EACH_PART(Lanes<float>::count) r.part[k] = hn::PromoteTo(D(), a.part[k]);
#else
  const hn::Half<Lanes<float>::D> half;
  WEFT_EACH_PART(Lanes<float>::count) {
    r.part[2 * k] = hn::PromoteTo(D(), hn::LowerHalf(half, a.part[k]));
    r.part[2 * k + 1] = hn::PromoteTo(D(), hn::UpperHalf(half, a.part[k]));
  }
#endif
  return r;
}

/// Sum over i of term(i, left) for i = 0, 16, ... below n; `left` says how many of the sixteen exist. Four sums of
/// sixteen run side by side, which hides the latency of an addition and keeps each of them short.
template <class A, class F>
HWY_INLINE double sum_lines(int64_t n, F&& term) {
  constexpr int64_t step = 4 * lane_count;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += chunk_size) {
    const int64_t end = begin + chunk_size < n ? begin + chunk_size : n;
    Lanes<A> a(A(0)), b(A(0)), c(A(0)), d(A(0));
    int64_t i = begin;
    for (; i + step <= end; i += step) {
      a = a + term(i, lane_count);
      b = b + term(i + lane_count, lane_count);
      c = c + term(i + 2 * lane_count, lane_count);
      d = d + term(i + 3 * lane_count, lane_count);
    }
    for (; i + lane_count <= end; i += lane_count) a = a + term(i, lane_count);
    if (i < end) b = b + term(i, end - i);
    total += static_cast<double>(sum_of((a + b) + (c + d)));
  }
  return total;
}

/// Sums of the deviations from `center` and of their squares: with both, the mean and the variance come out right even
/// where `center` is not quite the mean.
struct Deviations {
  double sum, squares;
};
template <class A>
HWY_INLINE Deviations deviations(const A* x, int64_t n, A center) {
  const Lanes<A> middle(center);
  double sum = 0, squares = 0;
  for (int64_t begin = 0; begin < n; begin += chunk_size) {
    const int64_t end = begin + chunk_size < n ? begin + chunk_size : n;
    Lanes<A> a(A(0)), b(A(0)), aa(A(0)), bb(A(0));
    int64_t i = begin;
    for (; i + 2 * lane_count <= end; i += 2 * lane_count) {
      const Lanes<A> d = Lanes<A>::load(x + i) - middle, e = Lanes<A>::load(x + i + lane_count) - middle;
      a = a + d;
      b = b + e;
      aa = aa + d * d;
      bb = bb + e * e;
    }
    for (; i < end; i += lane_count) {
      const Lanes<A> d = Lanes<A>::load(x + i, end - i, center) - middle;
      a = a + d;
      aa = aa + d * d;
    }
    sum += static_cast<double>(sum_of(a + b));
    squares += static_cast<double>(sum_of(aa + bb));
  }
  return {sum, squares};
}
/// Calls body(i, left) in the same steps.
template <class F>
HWY_INLINE void each_step(int64_t n, F&& body) {
  int64_t i = 0;
  for (; i + lane_count <= n; i += lane_count) body(i, lane_count);
  if (i < n) body(i, n - i);
}

/// The largest of a line, NaN if any is; -infinity for none.
template <class A>
HWY_INLINE A max_of_line(const A* x, int64_t n) {
  constexpr A lowest = -infinity<A>;
  Lanes<A> best(lowest), other(lowest);
  int64_t i = 0;
  for (; i + 2 * lane_count <= n; i += 2 * lane_count) {
    best = larger(best, Lanes<A>::load(x + i));
    other = larger(other, Lanes<A>::load(x + i + lane_count));
  }
  for (; i < n; i += lane_count) best = larger(best, Lanes<A>::load(x + i, n - i, lowest));
  return fold(larger(best, other), [](auto a, auto b) HWY_ATTR { return larger(a, b); });
}

// exp within 2 ulp. Results below 2^-125 (2^-1021) are taken as 0; infinities and NaN are as they should be.
// The sum with 1.5 * 2^23 (2^52) has the rounded integer in its low bits.
HWY_INLINE Lanes<float> exp(Lanes<float> a) {
  using L = Lanes<float>;
  const L::D d;
  const hn::Rebind<int32_t, L::D> di;
  const auto c = [&](float x) HWY_ATTR { return hn::Set(d, x); };
  L r;
  WEFT_EACH_PART(L::count) {
    const auto vanishes = hn::Lt(a.part[k], c(-86.6f));
    const auto x = hn::IfThenElse(hn::Gt(a.part[k], c(89.0f)), c(89.0f), a.part[k]);
    const auto shifted = hn::Add(hn::Mul(x, c(1.44269504088896341f)), c(12582912.0f));
    const auto n = hn::Sub(shifted, c(12582912.0f));
    const auto z = hn::Sub(hn::Sub(x, hn::Mul(n, c(0.693359375f))), hn::Mul(n, c(-2.12194440e-4f)));
    const auto pair = [&](float high, float low) HWY_ATTR { return hn::Add(hn::Mul(c(high), z), c(low)); };
    const auto zz = hn::Mul(z, z);  // by pairs: half as many operations wait for one another
    auto p = hn::Add(hn::Mul(pair(1.9875691500e-4f, 1.3981999507e-3f), zz), pair(8.3334519073e-3f, 4.1665795894e-2f));
    p = hn::Add(hn::Mul(p, zz), pair(1.6666665459e-1f, 5.0000001201e-1f));
    const auto y = hn::Add(hn::Add(hn::Mul(p, zz), z), c(1.0f));
    // y * 2 * 2^(n - 1), as 2^128 is no number; adding the bits of 126 puts n - 1 into the exponent.
    const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, 126 - 0x4b400000)));
    r.part[k] = hn::IfThenZeroElse(vanishes, hn::Mul(hn::Add(y, y), hn::BitCast(d, power)));
  }
  return r;
}

HWY_INLINE Lanes<double> exp(Lanes<double> a) {
  using L = Lanes<double>;
  const L::D d;
  const hn::Rebind<int64_t, L::D> di;
  const auto c = [&](double x) HWY_ATTR { return hn::Set(d, x); };
  constexpr double inverse_factorial[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                          1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                          1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
  L r;
  WEFT_EACH_PART(L::count) {
    const auto vanishes = hn::Lt(a.part[k], c(-707.7));
    const auto x = hn::IfThenElse(hn::Gt(a.part[k], c(710.0)), c(710.0), a.part[k]);
    const auto shifted = hn::Add(hn::Mul(x, c(1.4426950408889634)), c(6755399441055744.0));
    const auto n = hn::Sub(shifted, c(6755399441055744.0));
    const auto z = hn::Sub(hn::Sub(x, hn::Mul(n, c(6.93145751953125e-1))), hn::Mul(n, c(1.42860682030941723212e-6)));
    auto p = c(inverse_factorial[0]);
    for (int i = 1; i < 12; ++i) p = hn::Add(hn::Mul(p, z), c(inverse_factorial[i]));
    const auto y = hn::Add(hn::Add(hn::Mul(hn::Mul(p, z), z), z), c(1.0));
    const auto power = hn::ShiftLeft<52>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, 1022 - 0x4338000000000000)));
    r.part[k] = hn::IfThenZeroElse(vanishes, hn::Mul(hn::Add(y, y), hn::BitCast(d, power)));
  }
  return r;
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
