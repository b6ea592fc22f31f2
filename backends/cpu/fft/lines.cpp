// Small transforms of as many lines as a register has lanes. In scratch a number is two registers, the real parts of
// all lines and their imaginary parts.
#include <array>
#include <cstring>

#include "plan.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/fft/lines.cpp"
#include "../simd/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using fft::Lines, fft::Plan, fft::Stage, fft::Twist;

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

/// Any odd radix: by sums and differences of the numbers that stand opposite.
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
    default:
      return stage_of_odd(stage, w, roots + stage.circle, from, to);
  }
}

// ---- lines in and out ----------------------------------------------------------------------------------------------

/// The inverse is the transform with the parts exchanged, on the way in and out.
template <class T>
void read_lines(const Lines<const Complex<T>>& in, int64_t n, int64_t count, bool swapped, T* to) {
  constexpr int64_t lanes = Number<T>::lanes, size = 2 * lanes;
  const int64_t first = swapped ? lanes : 0, second = lanes - first;
  if (in.line == 1 && count == lanes) {
    const typename Number<T>::Tag d;
    for (int64_t i = 0; i < n; ++i, to += size) {
      typename Number<T>::Vec re, im;
      hn::LoadInterleaved2(d, reinterpret_cast<const T*>(in.data + i * in.step), re, im);
      hn::Store(re, d, to + first);
      hn::Store(im, d, to + second);
    }
    return;
  }
  if (count < lanes) std::memset(to, 0, static_cast<size_t>(n * size) * sizeof(T));
  constexpr int64_t block = 16;  // so that what a block writes is still in the cache for the next line
  for (int64_t begin = 0; begin < n; begin += block) {
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
  if (out.line == 1 && count == lanes) {
    const typename Number<T>::Tag d;
    for (int64_t i = 0; i < n; ++i, from += size) {
      hn::StoreInterleaved2(hn::Load(d, from + first), hn::Load(d, from + second), d,
                            reinterpret_cast<T*>(out.data + i * out.step));
    }
    return;
  }
  constexpr int64_t block = 16;
  for (int64_t begin = 0; begin < n; begin += block) {
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

template <class T>
void lines_typed(const Plan<T>& plan, const Lines<const Complex<T>>& in, const Lines<Complex<T>>& out, int64_t count,
                 bool inverse, T factor, const Twist<T>& twist, T* scratch) {
  const int64_t n = plan.n;
  T* from = scratch;
  T* to = scratch + n * 2 * Number<T>::lanes;
  read_lines(in, n, count, inverse, from);
  for (const Stage& stage : plan.stages) {
    run_stage(stage, plan.roots.data(), from, to);
    std::swap(from, to);
  }
  if (twist.plan != nullptr) twist_lines(twist, n, from);
  if (factor != T(1)) scale_lines(n, factor, from);
  write_lines(from, out, n, count, inverse);
}

void lines_f32(const Plan<float>& plan, const Lines<const complex64>& in, const Lines<complex64>& out, int64_t count,
               bool inverse, float factor, const Twist<float>& twist, float* scratch) {
  lines_typed(plan, in, out, count, inverse, factor, twist, scratch);
}
void lines_f64(const Plan<double>& plan, const Lines<const complex128>& in, const Lines<complex128>& out, int64_t count,
               bool inverse, double factor, const Twist<double>& twist, double* scratch) {
  lines_typed(plan, in, out, count, inverse, factor, twist, scratch);
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
                     int64_t count, bool inverse, float factor, const Twist<float>& twist, float* scratch) {
  HWY_DYNAMIC_DISPATCH(lines_f32)(plan, in, out, count, inverse, factor, twist, scratch);
}
template <>
void transform_lines(const Plan<double>& plan, const Lines<const complex128>& in, const Lines<complex128>& out,
                     int64_t count, bool inverse, double factor, const Twist<double>& twist, double* scratch) {
  HWY_DYNAMIC_DISPATCH(lines_f64)(plan, in, out, count, inverse, factor, twist, scratch);
}

}  // namespace weft::cpu::fft
#endif
