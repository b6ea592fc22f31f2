// Small transforms of as many lines as a register has lanes. In scratch a number is two registers, the real parts of
// all lines and their imaginary parts.
#include <array>
#include <cstring>

#include "plan.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/fft/lines.cpp"
#include "../simd/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using fft::Lines, fft::Passes, fft::Plan, fft::Stage, fft::Twist;

template <class T>
struct Number {
  using Tag = hn::ScalableTag<T>;
  using Vec = hn::Vec<Tag>;
  static constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(T));
  Vec re, im;

  static HWY_INLINE Number load(const T* from) { return {hn::Load(Tag(), from), hn::Load(Tag(), from + lanes)}; }
  HWY_INLINE void store(T* to) const {
    hn::Store(re, Tag(), to);
    hn::Store(im, Tag(), to + lanes);
  }
};

template <class T>
HWY_INLINE Number<T> operator+(Number<T> a, Number<T> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class T>
HWY_INLINE Number<T> operator-(Number<T> a, Number<T> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class T>
HWY_INLINE Number<T> scaled(Number<T> a, T factor) {
  const auto f = hn::Set(typename Number<T>::Tag(), factor);
  return {hn::Mul(a.re, f), hn::Mul(a.im, f)};
}
template <class T>
HWY_INLINE Number<T> times(Number<T> a, typename Number<T>::Vec re, typename Number<T>::Vec im) {
  return {hn::NegMulAdd(a.im, im, hn::Mul(a.re, re)), hn::MulAdd(a.re, im, hn::Mul(a.im, re))};
}
template <class T>
HWY_INLINE Number<T> times(Number<T> a, Complex<T> w) {
  const typename Number<T>::Tag d;
  return times(a, hn::Set(d, w.re), hn::Set(d, w.im));
}
/// a * -i
template <class T>
HWY_INLINE Number<T> turned(Number<T> a) {
  return {a.im, hn::Neg(a.re)};
}

template <class T>
HWY_INLINE Number<T> exchanged(Number<T> x, bool wanted) {
  return wanted ? Number<T>{x.im, x.re} : x;
}

template <class T>
HWY_INLINE Number<T> conj(Number<T> a) {
  return {a.re, hn::Neg(a.im)};
}

// ---- butterflies: the transform of `radix` numbers in place --------------------------------------------------------

template <class T>
HWY_INLINE void butterfly(std::array<Number<T>, 2>& x) {
  const Number<T> a = x[0], b = x[1];
  x = {a + b, a - b};
}
template <class T>
HWY_INLINE void butterfly(std::array<Number<T>, 3>& x) {
  const T half(-0.5), sine(0.86602540378443864676);
  const Number<T> sum = x[1] + x[2], across = scaled(turned(x[1] - x[2]), sine), middle = x[0] + scaled(sum, half);
  x = {x[0] + sum, middle + across, middle - across};
}
template <class T>
HWY_INLINE void butterfly(std::array<Number<T>, 4>& x) {
  const Number<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = turned(x[1] - x[3]);
  x = {a + c, b + d, a - c, b - d};
}
template <class T>
HWY_INLINE void butterfly(std::array<Number<T>, 5>& x) {
  const T c1(0.30901699437494742410), c2(-0.80901699437494742410), s1(0.95105651629515357212),
      s2(0.58778525229247312917);
  const Number<T> a = x[1] + x[4], b = x[2] + x[3], c = turned(x[1] - x[4]), d = turned(x[2] - x[3]);
  const Number<T> near = x[0] + scaled(a, c1) + scaled(b, c2), far = x[0] + scaled(a, c2) + scaled(b, c1);
  const Number<T> beside = scaled(c, s1) + scaled(d, s2), across = scaled(c, s2) - scaled(d, s1);
  x = {x[0] + a + b, near + beside, far + across, far - across, near - beside};
}

template <class T>
HWY_INLINE void butterfly(std::array<Number<T>, 8>& x) {
  std::array<Number<T>, 4> even = {x[0], x[2], x[4], x[6]}, odd = {x[1], x[3], x[5], x[7]};
  butterfly(even);
  butterfly(odd);
  const T diagonal(0.70710678118654752440);
  const Number<T> a = odd[0], b = scaled(odd[1] + turned(odd[1]), diagonal), c = turned(odd[2]),
                  d = scaled(turned(odd[3]) - odd[3], diagonal);
  x = {even[0] + a, even[1] + b, even[2] + c, even[3] + d, even[0] - a, even[1] - b, even[2] - c, even[3] - d};
}

template <int radix, class T>
HWY_INLINE void stage_of(const Stage& stage, const Complex<T>* w, const T* from, T* to) {
  constexpr int64_t size = 2 * Number<T>::lanes;
  for (int64_t g = 0; g < stage.groups; ++g) {
    for (int64_t i = 0; i < stage.span; ++i) {
      std::array<Number<T>, radix> x;
      for (int j = 0; j < radix; ++j) x[j] = Number<T>::load(from + (i + stage.span * (j + radix * g)) * size);
      butterfly(x);
      if (i != 0) {
        for (int j = 1; j < radix; ++j) x[j] = times(x[j], w[i * (radix - 1) + j - 1]);
      }
      for (int j = 0; j < radix; ++j) x[j].store(to + (i + stage.span * (g + stage.groups * j)) * size);
    }
  }
}

/// Any odd radix: by sums and differences of opposite elements.
template <class T>
void stage_of_odd(const Stage& stage, const Complex<T>* w, const Complex<T>* circle, const T* from, T* to) {
  constexpr int64_t size = 2 * Number<T>::lanes;
  constexpr int most = 31;
  const int radix = stage.radix, half = radix / 2;
  for (int64_t g = 0; g < stage.groups; ++g) {
    for (int64_t i = 0; i < stage.span; ++i) {
      Number<T> sum[most / 2 + 1], difference[most / 2 + 1];
      const auto number = [&](int j)
                              HWY_ATTR { return Number<T>::load(from + (i + stage.span * (j + radix * g)) * size); };
      const auto put = [&](int j, Number<T> x) HWY_ATTR {
        if (i != 0 && j != 0) x = times(x, w[i * (radix - 1) + j - 1]);
        x.store(to + (i + stage.span * (g + stage.groups * j)) * size);
      };
      const Number<T> first = number(0);
      Number<T> total = first;
      for (int j = 1; j <= half; ++j) {
        const Number<T> a = number(j), b = number(radix - j);
        sum[j] = a + b;
        difference[j] = turned(a - b);
        total = total + sum[j];
      }
      put(0, total);
      for (int k = 1; k <= half; ++k) {
        Number<T> even = first, odd = scaled(difference[1], -circle[k].im);
        for (int j = 1, at = k; j <= half; ++j, at = (at + k) % radix) {
          even = even + scaled(sum[j], circle[at].re);
          if (j > 1) odd = odd + scaled(difference[j], -circle[at].im);
        }
        put(k, even + odd);
        put(radix - k, even - odd);
      }
    }
  }
}

template <class T>
void run_stage(const Stage& stage, const Complex<T>* roots, const T* from, T* to) {
  const Complex<T>* const w = roots + stage.twiddles;
  switch (stage.radix) {
    case 2:
      return stage_of<2>(stage, w, from, to);
    case 3:
      return stage_of<3>(stage, w, from, to);
    case 4:
      return stage_of<4>(stage, w, from, to);
    case 5:
      return stage_of<5>(stage, w, from, to);
    case 8:
      return stage_of<8>(stage, w, from, to);
    default:
      return stage_of_odd(stage, w, roots + stage.circle, from, to);
  }
}

// ---- lines in and out ----------------------------------------------------------------------------------------------

#if HWY_TARGET != HWY_SCALAR
/// How many numbers of every line are exchanged at once: as many as 128 bits hold.
template <class T>
constexpr int64_t tile = 8 / sizeof(T);

/// The number of elements per cache line. They are copied together, because lines a power of two apart evict each other
/// from the cache.
template <class T>
constexpr int64_t piece = 32 / sizeof(T);
template <class T>
HWY_INLINE void copy_piece(T* HWY_RESTRICT to, const T* HWY_RESTRICT from) {
  const typename Number<T>::Tag d;
  for (int64_t i = 0; i < 2 * piece<T>; i += Number<T>::lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
}

/// 128 bits at `from`, and at every `step` numbers behind it.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* from, int64_t step) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) == 16) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    const int64_t blocks = static_cast<int64_t>(hn::MaxLanes(D()) * sizeof(T) / 32);
    return hn::Combine(d, load_blocks(half, from + blocks * step, step), load_blocks(half, from, step));
  }
}
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_blocks(D d, hn::Vec<D> x, T* to, int64_t step) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) == 16) {
    hn::StoreU(x, d, to);
  } else {
    const hn::Half<D> half;
    const int64_t blocks = static_cast<int64_t>(hn::MaxLanes(D()) * sizeof(T) / 32);
    store_blocks(half, hn::LowerHalf(half, x), to, step);
    store_blocks(half, hn::UpperHalf(half, x), to + blocks * step, step);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> low_halves(D d, hn::Vec<D> a, hn::Vec<D> b) {
  const hn::Repartition<double, D> wide;
  return hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, a), hn::BitCast(wide, b)));
}
template <class D>
HWY_INLINE hn::Vec<D> high_halves(D d, hn::Vec<D> a, hn::Vec<D> b) {
  const hn::Repartition<double, D> wide;
  return hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, a), hn::BitCast(wide, b)));
}

/// A number of all lines, `line` apart. Blocks of a register are neighbours of 2 lines.
HWY_INLINE void read_tile(const double* from, int64_t line, Number<double> (&x)[1]) {
  const Number<double>::Tag d;
  const auto even = load_blocks(d, from, 2 * line), odd = load_blocks(d, from + line, 2 * line);
  x[0] = {hn::InterleaveLower(d, even, odd), hn::InterleaveUpper(d, even, odd)};
}
HWY_INLINE void write_tile(const Number<double> (&x)[1], double* to, int64_t line) {
  const Number<double>::Tag d;
  store_blocks(d, hn::InterleaveLower(d, x[0].re, x[0].im), to, 2 * line);
  store_blocks(d, hn::InterleaveUpper(d, x[0].re, x[0].im), to + line, 2 * line);
}
/// Two numbers of all lines. Blocks are neighbours of 4 lines.
HWY_INLINE void read_tile(const float* from, int64_t line, Number<float> (&x)[2]) {
  const Number<float>::Tag d;
  hn::Vec<decltype(d)> of[4];
  for (int k = 0; k < 4; ++k) of[k] = load_blocks(d, from + k * line, 4 * line);
  const auto part = [&](auto a, auto b) HWY_ATTR {
    const auto low = hn::InterleaveLower(d, a, b), high = hn::InterleaveUpper(d, a, b);
    return Number<float>{hn::InterleaveLower(d, low, high), hn::InterleaveUpper(d, low, high)};
  };
  x[0] = part(low_halves(d, of[0], of[1]), low_halves(d, of[2], of[3]));
  x[1] = part(high_halves(d, of[0], of[1]), high_halves(d, of[2], of[3]));
}
HWY_INLINE void write_tile(const Number<float> (&x)[2], float* to, int64_t line) {
  const Number<float>::Tag d;
  const auto a = hn::InterleaveLower(d, x[0].re, x[0].im), b = hn::InterleaveUpper(d, x[0].re, x[0].im);
  const auto e = hn::InterleaveLower(d, x[1].re, x[1].im), f = hn::InterleaveUpper(d, x[1].re, x[1].im);
  store_blocks(d, low_halves(d, a, e), to, 4 * line);
  store_blocks(d, high_halves(d, a, e), to + line, 4 * line);
  store_blocks(d, low_halves(d, b, f), to + 2 * line, 4 * line);
  store_blocks(d, high_halves(d, b, f), to + 3 * line, 4 * line);
}
#endif

/// The inverse is the transform with the parts exchanged, on the way in and out.
template <class T>
void read_lines(const Lines<const Complex<T>>& in, int64_t n, int64_t count, bool swapped, T* to) {
  constexpr int64_t lanes = Number<T>::lanes, size = 2 * lanes;
  const int64_t first = swapped ? lanes : 0, second = lanes - first;
  const T* const numbers = reinterpret_cast<const T*>(in.data);
  int64_t begin = 0;
  if (in.line == 1 && count == lanes) {
    for (; begin < n; ++begin) {
      Number<T> x;
      hn::LoadInterleaved2(typename Number<T>::Tag(), numbers + 2 * begin * in.step, x.re, x.im);
      exchanged(x, swapped).store(to + begin * size);
    }
  }
#if HWY_TARGET != HWY_SCALAR
  if (in.step == 1 && count == lanes) {
    for (; begin + piece<T> <= n; begin += piece<T>) {
      HWY_ALIGN T block[2 * piece<T> * lanes];
      for (int64_t l = 0; l < lanes; ++l) copy_piece(block + 2 * piece<T> * l, numbers + 2 * (begin + l * in.line));
      for (int64_t i = 0; i < piece<T>; i += tile<T>) {
        Number<T> x[tile<T>];
        read_tile(block + 2 * i, 2 * piece<T>, x);
        for (int64_t k = 0; k < tile<T>; ++k) exchanged(x[k], swapped).store(to + (begin + i + k) * size);
      }
    }
  }
#endif
  if (count < lanes) std::memset(to, 0, static_cast<size_t>(n * size) * sizeof(T));
  constexpr int64_t block = 16;  // so that what a block writes is still in the cache for the next line
  for (; begin < n; begin += block) {
    const int64_t end = begin + block < n ? begin + block : n;
    for (int64_t l = 0; l < count; ++l) {
      const Complex<T>* const from = in.data + l * in.line;
      for (int64_t i = begin; i < end; ++i) {
        const Complex<T> z = from[i * in.step];
        to[i * size + first + l] = z.re;
        to[i * size + second + l] = z.im;
      }
    }
  }
}

template <class T>
void write_lines(const T* from, const Lines<Complex<T>>& out, int64_t n, int64_t count, bool swapped) {
  constexpr int64_t lanes = Number<T>::lanes, size = 2 * lanes;
  const int64_t first = swapped ? lanes : 0, second = lanes - first;
  T* const numbers = reinterpret_cast<T*>(out.data);
  int64_t begin = 0;
  if (out.line == 1 && count == lanes) {
    for (; begin < n; ++begin) {
      const Number<T> x = exchanged(Number<T>::load(from + begin * size), swapped);
      hn::StoreInterleaved2(x.re, x.im, typename Number<T>::Tag(), numbers + 2 * begin * out.step);
    }
  }
#if HWY_TARGET != HWY_SCALAR
  if (out.step == 1 && count == lanes) {
    for (; begin + piece<T> <= n; begin += piece<T>) {
      HWY_ALIGN T block[2 * piece<T> * lanes];
      for (int64_t i = 0; i < piece<T>; i += tile<T>) {
        Number<T> x[tile<T>];
        for (int64_t k = 0; k < tile<T>; ++k) x[k] = exchanged(Number<T>::load(from + (begin + i + k) * size), swapped);
        write_tile(x, block + 2 * i, 2 * piece<T>);
      }
      for (int64_t l = 0; l < lanes; ++l) copy_piece(numbers + 2 * (begin + l * out.line), block + 2 * piece<T> * l);
    }
  }
#endif
  constexpr int64_t block = 16;
  for (; begin < n; begin += block) {
    const int64_t end = begin + block < n ? begin + block : n;
    for (int64_t l = 0; l < count; ++l) {
      Complex<T>* const to = out.data + l * out.line;
      for (int64_t i = begin; i < end; ++i) {
        to[i * out.step] = {from[i * size + first + l], from[i * size + second + l]};
      }
    }
  }
}

/// Root (first + l) * i of n for number i of line l: the root of first * i times that of l * i, both from the tables.
template <class T>
void twist_lines(const Twist<T>& twist, int64_t n, T* data) {
  constexpr int64_t lanes = Number<T>::lanes, size = 2 * lanes;
  const Plan<T>& plan = *twist.plan;
  const auto root = [&](int64_t t) {
    t %= plan.n;
    return plan.coarse[static_cast<size_t>(t / plan.step)] * plan.fine[static_cast<size_t>(t % plan.step)];
  };
  const typename Number<T>::Tag d;
  for (int64_t i = 0; i < n; ++i, data += size) {
    HWY_ALIGN T re[lanes], im[lanes];
    complex128 w = root(twist.first * i);
    const complex128 next = root(i);
    for (int64_t l = 0; l < lanes; ++l, w = w * next) {
      re[l] = static_cast<T>(w.re);
      im[l] = static_cast<T>(w.im);
    }
    times(Number<T>::load(data), hn::Load(d, re), hn::Load(d, im)).store(data);
  }
}

template <class T>
void scale_lines(int64_t n, T factor, T* data) {
  for (int64_t i = 0; i < n; ++i, data += 2 * Number<T>::lanes) scaled(Number<T>::load(data), factor).store(data);
}

/// From the transform Z of the pairs (x[2j], x[2j + 1]), n of them, to that of the 2n real numbers: in place.
template <class T>
void unmix_lines(int64_t n, const Complex<T>* roots, T* data) {
  constexpr int64_t size = 2 * Number<T>::lanes;
  const auto none = hn::Zero(typename Number<T>::Tag());
  const Number<T> first = Number<T>::load(data);
  Number<T>{hn::Add(first.re, first.im), none}.store(data);
  Number<T>{hn::Sub(first.re, first.im), none}.store(data + n * size);
  for (int64_t k = 1; 2 * k <= n; ++k) {
    const Number<T> a = Number<T>::load(data + k * size), b = conj(Number<T>::load(data + (n - k) * size));
    const Number<T> even = scaled(a + b, T(0.5)), odd = times(turned(scaled(a - b, T(0.5))), roots[k]);
    (even + odd).store(data + k * size);
    conj(even - odd).store(data + (n - k) * size);
  }
}
/// The inverse of unmix_lines, times 2, and with the parts exchanged.
template <class T>
void mix_lines(int64_t n, const Complex<T>* roots, T* data) {
  constexpr int64_t size = 2 * Number<T>::lanes;
  const auto low = Number<T>::load(data).re, high = Number<T>::load(data + n * size).re;
  Number<T>{hn::Sub(low, high), hn::Add(low, high)}.store(data);
  for (int64_t k = 1; 2 * k <= n; ++k) {
    const Number<T> a = Number<T>::load(data + k * size), b = conj(Number<T>::load(data + (n - k) * size));
    const Number<T> even = a + b, odd = turned(times(a - b, weft::conj(roots[k])));
    exchanged(even - odd, true).store(data + k * size);
    exchanged(conj(even + odd), true).store(data + (n - k) * size);
  }
}

template <class T>
void lines_typed(const Plan<T>& plan, const Lines<const Complex<T>>& in, const Lines<Complex<T>>& out, int64_t count,
                 const Passes<T>& passes, T* scratch) {
  const int64_t n = plan.n;
  const bool inverse = passes.inverse, halves = passes.half_roots != nullptr;
  T* from = scratch;
  T* to = scratch + n * 2 * Number<T>::lanes + fft::scratch_gap / static_cast<int64_t>(sizeof(T));
  if (halves && inverse) {
    read_lines(in, n + 1, count, false, from);
    mix_lines(n, passes.half_roots, from);
  } else {
    read_lines(in, n, count, inverse, from);
  }
  for (const Stage& stage : plan.stages) {
    run_stage(stage, plan.roots.data(), from, to);
    std::swap(from, to);
  }
  if (passes.twist.plan != nullptr) twist_lines(passes.twist, n, from);
  if (passes.factor != T(1)) scale_lines(n, passes.factor, from);
  if (halves && !inverse) unmix_lines(n, passes.half_roots, from);
  write_lines(from, out, halves && !inverse ? n + 1 : n, count, inverse);
}

void lines_f32(const Plan<float>& plan, const Lines<const complex64>& in, const Lines<complex64>& out, int64_t count,
               const Passes<float>& passes, float* scratch) {
  lines_typed(plan, in, out, count, passes, scratch);
}
void lines_f64(const Plan<double>& plan, const Lines<const complex128>& in, const Lines<complex128>& out, int64_t count,
               const Passes<double>& passes, double* scratch) {
  lines_typed(plan, in, out, count, passes, scratch);
}
int64_t lanes_f32() { return Number<float>::lanes; }
int64_t lanes_f64() { return Number<double>::lanes; }

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu::fft {

HWY_EXPORT(lines_f32);
HWY_EXPORT(lines_f64);
HWY_EXPORT(lanes_f32);
HWY_EXPORT(lanes_f64);

template <>
int64_t lanes<float>() {
  return HWY_DYNAMIC_DISPATCH(lanes_f32)();
}
template <>
int64_t lanes<double>() {
  return HWY_DYNAMIC_DISPATCH(lanes_f64)();
}

template <>
void transform_lines(const Plan<float>& plan, const Lines<const complex64>& in, const Lines<complex64>& out,
                     int64_t count, const Passes<float>& passes, float* scratch) {
  HWY_DYNAMIC_DISPATCH(lines_f32)(plan, in, out, count, passes, scratch);
}
template <>
void transform_lines(const Plan<double>& plan, const Lines<const complex128>& in, const Lines<complex128>& out,
                     int64_t count, const Passes<double>& passes, double* scratch) {
  HWY_DYNAMIC_DISPATCH(lines_f64)(plan, in, out, count, passes, scratch);
}

}  // namespace weft::cpu::fft
#endif
