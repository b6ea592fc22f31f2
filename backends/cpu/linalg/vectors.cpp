#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/linalg/vectors.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include <cmath>
#include <utility>

#include "vectors.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(Tag<T>()));

/// A whole register, or the first `left` elements of one.
template <class T>
struct Whole {
  static HWY_INLINE auto load(const T* p, int64_t) { return hn::LoadU(Tag<T>(), p); }
  static HWY_INLINE void store(hn::Vec<Tag<T>> v, T* p, int64_t) { hn::StoreU(v, Tag<T>(), p); }
};
template <class T>
struct Part {
  static HWY_INLINE auto load(const T* p, int64_t left) {
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN T buffer[lanes<T>] = {};
    for (int64_t i = 0; i < left; ++i) buffer[i] = p[i];
    return hn::Load(Tag<T>(), buffer);
#else
    return hn::MaskedLoad(hn::FirstN(Tag<T>(), static_cast<size_t>(left)), Tag<T>(), p);
#endif
  }
  static HWY_INLINE void store(hn::Vec<Tag<T>> v, T* p, int64_t left) {
#if HWY_MEM_OPS_MIGHT_FAULT
    HWY_ALIGN T buffer[lanes<T>];
    hn::Store(v, Tag<T>(), buffer);
    for (int64_t i = 0; i < left; ++i) p[i] = buffer[i];
#else
    hn::BlendedStore(v, hn::FirstN(Tag<T>(), static_cast<size_t>(left)), Tag<T>(), p);
#endif
  }
};
/// body(access, i, left) for every register of a line; the last one may be a part.
template <class T, class F>
HWY_INLINE void each_register(int64_t n, F&& body) {
  int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) body(Whole<T>(), i, lanes<T>);
  if (i < n) body(Part<T>(), i, n - i);
}

#define WEFT_INLINE_BODY __attribute__((always_inline))

/// A factor for registers of real or of interleaved complex numbers.
template <class T>
struct Factor {
  hn::Vec<Tag<T>> value;
  HWY_INLINE explicit Factor(T x) : value(hn::Set(Tag<T>(), x)) {}
  HWY_INLINE auto times(hn::Vec<Tag<T>> x) const { return hn::Mul(value, x); }
  HWY_INLINE auto add(hn::Vec<Tag<T>> x, hn::Vec<Tag<T>> sum) const { return hn::MulAdd(value, x, sum); }
  HWY_INLINE auto subtract(hn::Vec<Tag<T>> x, hn::Vec<Tag<T>> sum) const { return hn::NegMulAdd(value, x, sum); }
};
template <class R>
struct Factor<Complex<R>> {
  using V = hn::Vec<Tag<R>>;
  V re, im;  ///< im is negative where a real part stands
  HWY_INLINE explicit Factor(Complex<R> x)
      : re(hn::Set(Tag<R>(), x.re)), im(hn::OddEven(hn::Set(Tag<R>(), x.im), hn::Set(Tag<R>(), -x.im))) {}
  HWY_INLINE V times(V x) const { return hn::MulAdd(re, x, hn::Mul(im, hn::Reverse2(Tag<R>(), x))); }
  HWY_INLINE V add(V x, V sum) const { return hn::MulAdd(re, x, hn::MulAdd(im, hn::Reverse2(Tag<R>(), x), sum)); }
  HWY_INLINE V subtract(V x, V sum) const {
    return hn::NegMulAdd(re, x, hn::NegMulAdd(im, hn::Reverse2(Tag<R>(), x), sum));
  }
};

/// A sum of products of the elements of registers.
template <class T>
struct Sum {
  hn::Vec<Tag<T>> sum;
  HWY_INLINE Sum() : sum(hn::Zero(Tag<T>())) {}
  HWY_INLINE void add(hn::Vec<Tag<T>> x, hn::Vec<Tag<T>> y) { sum = hn::MulAdd(x, y, sum); }
  HWY_INLINE void join(const Sum& other) { sum = hn::Add(sum, other.sum); }
  HWY_INLINE T product() const { return hn::GetLane(hn::SumOfLanes(Tag<T>(), sum)); }
  HWY_INLINE T inner() const { return product(); }  ///< with the conjugate of the first factor
};
template <class R>
struct Sum<Complex<R>> {
  using V = hn::Vec<Tag<R>>;
  V alike, across;
  HWY_INLINE Sum() : alike(hn::Zero(Tag<R>())), across(alike) {}
  HWY_INLINE void add(V x, V y) {
    alike = hn::MulAdd(x, y, alike);
    across = hn::MulAdd(x, hn::Reverse2(Tag<R>(), y), across);
  }
  HWY_INLINE void join(const Sum& other) {
    alike = hn::Add(alike, other.alike);
    across = hn::Add(across, other.across);
  }
  static HWY_INLINE R total(V v) { return hn::GetLane(hn::SumOfLanes(Tag<R>(), v)); }
  static HWY_INLINE R difference(V v) { return total(hn::OddEven(hn::Neg(v), v)); }
  HWY_INLINE Complex<R> product() const { return {difference(alike), total(across)}; }
  HWY_INLINE Complex<R> inner() const { return {total(alike), difference(across)}; }
};

template <class T>
HWY_INLINE Sum<T> sum_of_products(int64_t count, const T* left, const T* right) {
  using R = Real<T>;
  constexpr int64_t step = lanes<R>;
  const R *x = reals(left), *y = reals(right);
  const int64_t n = count * parts<T>;
  const Tag<R> d;
  Sum<T> a, b, c, e;
  int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    a.add(hn::LoadU(d, x + i), hn::LoadU(d, y + i));
    b.add(hn::LoadU(d, x + i + step), hn::LoadU(d, y + i + step));
    c.add(hn::LoadU(d, x + i + 2 * step), hn::LoadU(d, y + i + 2 * step));
    e.add(hn::LoadU(d, x + i + 3 * step), hn::LoadU(d, y + i + 3 * step));
  }
  for (; i + step <= n; i += step) a.add(hn::LoadU(d, x + i), hn::LoadU(d, y + i));
  if (i < n) b.add(Part<R>::load(x + i, n - i), Part<R>::load(y + i, n - i));
  a.join(b);
  c.join(e);
  a.join(c);
  return a;
}
template <class T>
HWY_INLINE T dot_of(int64_t n, const T* x, const T* y) {
  return sum_of_products(n, x, y).product();
}
template <class T>
HWY_INLINE void axpy_to(int64_t n, T a, const T* from, T* to) {
  using R = Real<T>;
  const R* x = reals(from);
  R* y = reals(to);
  const Factor<T> factor(a);
  each_register<R>(n * parts<T>, [&](auto access, int64_t i, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
    access.store(factor.add(access.load(x + i, left), access.load(y + i, left)), y + i, left);
  });
}

template <class T>
T dot_any(int64_t n, const T* x, const T* y) {
  return dot_of(n, x, y);
}
template <class T>
T inner_any(int64_t n, const T* x, const T* y) {
  return sum_of_products(n, x, y).inner();
}
template <class T>
void axpy_any(int64_t n, T a, const T* x, T* y) {
  axpy_to(n, a, x, y);
}
template <class T>
void scale_any(int64_t n, T a, T* numbers) {
  using R = Real<T>;
  R* x = reals(numbers);
  const Factor<T> factor(a);
  each_register<R>(n * parts<T>, [&](auto access, int64_t i, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
    access.store(factor.times(access.load(x + i, left)), x + i, left);
  });
}

template <class T>
void rows_times_any(int64_t rows, int64_t n, const T* a, int64_t stride, const T* x, T* y) {
  using R = Real<T>;
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const R *r0 = reals(a + i * stride), *r1 = r0 + stride * parts<T>, *r2 = r1 + stride * parts<T>,
            *r3 = r2 + stride * parts<T>;
    Sum<T> s0, s1, s2, s3;
    each_register<R>(n * parts<T>, [&](auto access, int64_t j, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
      const auto v = access.load(reals(x) + j, left);
      s0.add(access.load(r0 + j, left), v);
      s1.add(access.load(r1 + j, left), v);
      s2.add(access.load(r2 + j, left), v);
      s3.add(access.load(r3 + j, left), v);
    });
    y[i] = s0.product();
    y[i + 1] = s1.product();
    y[i + 2] = s2.product();
    y[i + 3] = s3.product();
  }
  for (; i < rows; ++i) y[i] = dot_of(n, a + i * stride, x);
}
template <class T>
void reflect_rows_any(int64_t rows, int64_t n, T* a, int64_t stride, const T* v, T tau) {
  for (int64_t i = 0; i < rows; ++i) {
    T* row = a + i * stride;
    axpy_to(n, -(tau * sum_of_products(n, v, row).inner()), v, row);
  }
}
template <class T>
void update_and_sum_any(int64_t rows, int64_t n, T* a, int64_t stride, const T* u, const T* w, const T* z, const T* v,
                        const T* x, T* sums) {
  using R = Real<T>;
  R* to = reals(sums);
  int64_t i = 0;
  for (; i + 2 <= rows; i += 2) {
    R *r0 = reals(a + i * stride), *r1 = r0 + stride * parts<T>;
    const Factor<T> u0(u[i]), z0(z[i]), x0(conjugate(x[i]));
    const Factor<T> u1(u[i + 1]), z1(z[i + 1]), x1(conjugate(x[i + 1]));
    each_register<R>(n * parts<T>, [&](auto access, int64_t j, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
      const auto wj = access.load(reals(w) + j, left), vj = access.load(reals(v) + j, left);
      const auto t0 = z0.subtract(vj, u0.subtract(wj, access.load(r0 + j, left)));
      const auto t1 = z1.subtract(vj, u1.subtract(wj, access.load(r1 + j, left)));
      access.store(t0, r0 + j, left);
      access.store(t1, r1 + j, left);
      access.store(x1.add(t1, x0.add(t0, access.load(to + j, left))), to + j, left);
    });
  }
  for (; i < rows; ++i) {
    T* row = a + i * stride;
    axpy_to(n, -u[i], w, row);
    axpy_to(n, -z[i], v, row);
    axpy_to(n, conjugate(x[i]), row, sums);
  }
}
template <class T>
void update_both_any(int64_t rows, int64_t n, T* a, int64_t stride, const T* u, const T* w, const T* z, const T* v,
                     const T* x, T* sums, const T* t, T* y) {
  using R = Real<T>;
  R* to = reals(sums);
  for (int64_t i = 0; i < rows; ++i) {
    R* row = reals(a + i * stride);
    const Factor<T> ui(u[i]), zi(z[i]), xi(conjugate(x[i]));
    Sum<T> product;
    each_register<R>(n * parts<T>, [&](auto access, int64_t j, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
      const auto updated = zi.subtract(access.load(reals(v) + j, left),
                                       ui.subtract(access.load(reals(w) + j, left), access.load(row + j, left)));
      access.store(updated, row + j, left);
      access.store(xi.add(updated, access.load(to + j, left)), to + j, left);
      product.add(updated, access.load(reals(t) + j, left));
    });
    y[i] = product.product();
  }
}
template <class T>
void update_and_multiply_any(int64_t n, T* a, int64_t stride, const T* u, const T* w, const T* x, T* y) {
  using R = Real<T>;
  constexpr int64_t step = lanes<R>;
  R* to = reals(y);
  for (int64_t i = 0; i < n; ++i) {
    T* row = a + i * stride;
    R* line = reals(row);
    const Factor<T> ui(conjugate(u[i])), wi(conjugate(w[i])), xi(x[i]);
    const R diagonal = real_part(row[i]) - 2 * real_part(conjugate(u[i]) * w[i]);
    row[i] = T(diagonal);
    Sum<T> s0, s1;
    const auto pass = [&](auto access, int64_t j, int64_t left, Sum<T>& sum) HWY_ATTR WEFT_INLINE_BODY {
      const auto t = wi.subtract(access.load(reals(u) + j, left),
                                 ui.subtract(access.load(reals(w) + j, left), access.load(line + j, left)));
      access.store(t, line + j, left);
      sum.add(t, access.load(reals(x) + j, left));
      access.store(xi.add(t, access.load(to + j, left)), to + j, left);
    };
    int64_t j = (i + 1) * parts<T>;
    const int64_t end = n * parts<T>;
    for (; j + 2 * step <= end; j += 2 * step) {
      pass(Whole<R>(), j, step, s0);
      pass(Whole<R>(), j + step, step, s1);
    }
    for (; j + step <= end; j += step) pass(Whole<R>(), j, step, s0);
    if (j < end) pass(Part<R>(), j, end - j, s1);
    s0.join(s1);
    y[i] = y[i] + times_real(diagonal, x[i]) + s0.inner();
  }
}

template <class T>
int64_t lu_panel_any(int64_t m, int64_t n, T* a, int64_t stride, int32_t* pivots) {
  using R = Real<T>;
  int64_t singular = 0;
  for (int64_t j = 0; j < n && j < m; ++j) {
    int64_t best = j;
    R most = size_of(a[j * stride + j]);
    for (int64_t i = j + 1; i < m; ++i) {
      const R size = size_of(a[i * stride + j]);
      if (size > most || (size != size && most == most)) most = size, best = i;
    }
    pivots[j] = static_cast<int32_t>(best);
    T* top = a + j * stride;
    if (best != j) {
      for (int64_t k = 0; k < n; ++k) std::swap(top[k], a[best * stride + k]);
    }
    if (top[j] == T(0)) {
      if (singular == 0) singular = j + 1;
      continue;
    }
    const T inverse = T(1) / top[j];
    const bool small = !(size_of(inverse) < HUGE_VALF);
    for (int64_t i = j + 1; i < m; ++i) {
      T* row = a + i * stride;
      const T factor = small ? row[j] / top[j] : row[j] * inverse;
      row[j] = factor;
      axpy_to(n - j - 1, -factor, top + j + 1, row + j + 1);
    }
  }
  return singular;
}
template <class T>
int64_t cholesky_block_any(int64_t n, T* a, int64_t stride) {
  using R = Real<T>;
  for (int64_t j = 0; j < n; ++j) {
    T* top = a + j * stride;
    const R square = real_part(top[j]);
    if (!(square > 0)) return j + 1;
    const R root = std::sqrt(square), inverse = R(1) / root;
    top[j] = T(root);
    for (int64_t k = j + 1; k < n; ++k) top[k] = times_real(inverse, top[k]);
    for (int64_t i = j + 1; i < n; ++i) axpy_to(n - i, -conjugate(top[i]), top + i, a + i * stride + i);
  }
  return 0;
}
template <class T>
void solve_block_any(int64_t n, int64_t columns, const T* l, const T* inverse, T* b, int64_t stride) {
  using R = Real<T>;
  if (columns == 1) {
    for (int64_t i = 0; i < n; ++i) {
      T sum = b[i * stride];
      for (int64_t j = 0; j < i; ++j) sum = sum - l[i * n + j] * b[j * stride];
      b[i * stride] = sum * inverse[i];
    }
    return;
  }
  const int64_t next = stride * parts<T>;
  // A few columns at a time, so that all rows of a strip stay in the first cache.
  each_register<R>(columns * parts<T>, [&](auto access, int64_t k, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
    R* strip = reals(b) + k;
    for (int64_t i = 0; i < n; ++i) {
      auto sum = access.load(strip + i * next, left);
      auto other = hn::Zero(Tag<R>());
      int64_t j = 0;
      for (; j + 2 <= i; j += 2) {
        sum = Factor<T>(l[i * n + j]).subtract(access.load(strip + j * next, left), sum);
        other = Factor<T>(l[i * n + j + 1]).subtract(access.load(strip + (j + 1) * next, left), other);
      }
      if (j < i) sum = Factor<T>(l[i * n + j]).subtract(access.load(strip + j * next, left), sum);
      access.store(Factor<T>(inverse[i]).times(hn::Add(sum, other)), strip + i * next, left);
    }
  });
}

template <class T>
void solve_vector_any(int64_t n, const T* t, int64_t stride, bool by_columns, bool upper, bool unit, T* b) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    const T* line = t + i * stride;
    const int64_t first = upper ? i + 1 : 0, count = upper ? n - 1 - i : i;
    if (!by_columns) b[i] = b[i] - dot_of(count, line + first, b + first);
    if (!unit) b[i] = b[i] / line[i];
    if (by_columns) {  // the rest of column i is above it in an upper triangle
      if (upper) axpy_to(i, -b[i], line, b);
      else axpy_to(n - 1 - i, -b[i], line + i + 1, b + i + 1);
    }
  }
}

template <class T, int count>
HWY_INLINE void reflect_lines(int64_t n, T* a, int64_t stride, const T* v, T tau) {
  using R = Real<T>;
  const Factor<T> c0(conjugate(v[0])), c1(conjugate(v[1])), c2(conjugate(v[count - 1]));
  const Factor<T> f0(tau * v[0]), f1(tau * v[1]), f2(tau * v[count - 1]);
  R *r0 = reals(a), *r1 = reals(a + stride), *r2 = reals(a + (count - 1) * stride);
  each_register<R>(n * parts<T>, [&](auto access, int64_t j, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
    const auto x0 = access.load(r0 + j, left), x1 = access.load(r1 + j, left);
    auto sum = c1.add(x1, c0.times(x0));
    if constexpr (count == 3) {
      const auto x2 = access.load(r2 + j, left);
      sum = c2.add(x2, sum);
      access.store(f2.subtract(sum, x2), r2 + j, left);
    }
    access.store(f0.subtract(sum, x0), r0 + j, left);
    access.store(f1.subtract(sum, x1), r1 + j, left);
  });
}
template <class T>
void reflect_few_rows_any(int64_t count, int64_t n, T* a, int64_t stride, const T* v, T tau) {
  if (count == 3) reflect_lines<T, 3>(n, a, stride, v, tau);
  else reflect_lines<T, 2>(n, a, stride, v, tau);
}
template <class T>
void reflect_few_columns_any(int64_t rows, int64_t count, T* a, int64_t stride, const T* v, T tau) {
  const T v0 = v[0], v1 = v[1], f0 = tau * conjugate(v0), f1 = tau * conjugate(v1);
  if (count == 2) {
    for (int64_t i = 0; i < rows; ++i, a += stride) {
      const T sum = a[0] * v0 + a[1] * v1;
      a[0] = a[0] - sum * f0;
      a[1] = a[1] - sum * f1;
    }
    return;
  }
  const T v2 = v[2], f2 = tau * conjugate(v2);
  for (int64_t i = 0; i < rows; ++i, a += stride) {
    const T sum = a[0] * v0 + a[1] * v1 + a[2] * v2;
    a[0] = a[0] - sum * f0;
    a[1] = a[1] - sum * f1;
    a[2] = a[2] - sum * f2;
  }
}

/// One sweep over a strip of `vectors` registers; the row between two rotations stays in registers.
template <class T, int vectors>
HWY_INLINE void rotate_strip(T* a, int64_t stride, const Sweep& sweep, const T* c, const T* s) {
  const Tag<T> d;
  hn::Vec<Tag<T>> carry[vectors];
  T* row = a + (sweep.first + (sweep.backward ? sweep.count : 0)) * stride;
#pragma GCC unroll 4
  for (int k = 0; k < vectors; ++k) carry[k] = hn::LoadU(d, row + k * lanes<T>);
  for (int64_t n = 0; n < sweep.count; ++n) {
    const int64_t i = sweep.backward ? sweep.count - 1 - n : n;
    const auto ci = hn::Set(d, c[i]), si = hn::Set(d, s[i]);
    T* next = row + (sweep.backward ? -stride : stride);
#pragma GCC unroll 4
    for (int k = 0; k < vectors; ++k) {
      const auto x = hn::LoadU(d, next + k * lanes<T>);
      if (sweep.backward) {  // next is the upper row
        hn::StoreU(hn::NegMulAdd(si, x, hn::Mul(ci, carry[k])), d, row + k * lanes<T>);
        carry[k] = hn::MulAdd(si, carry[k], hn::Mul(ci, x));
      } else {
        hn::StoreU(hn::MulAdd(si, x, hn::Mul(ci, carry[k])), d, row + k * lanes<T>);
        carry[k] = hn::NegMulAdd(si, carry[k], hn::Mul(ci, x));
      }
    }
    row = next;
  }
#pragma GCC unroll 4
  for (int k = 0; k < vectors; ++k) hn::StoreU(carry[k], d, row + k * lanes<T>);
}
template <class T>
void rotate_rows_any(int64_t n, T* a, int64_t stride, const Sweep* sweeps, int64_t count, const T* c, const T* s) {
  int64_t j = 0;
  for (; j + 4 * lanes<T> <= n; j += 4 * lanes<T>) {
    for (int64_t k = 0; k < count; ++k) {
      rotate_strip<T, 4>(a + j, stride, sweeps[k], c + sweeps[k].factors, s + sweeps[k].factors);
    }
  }
  for (; j < n; j += lanes<T>) {
    for (int64_t k = 0; k < count; ++k) {
      rotate_strip<T, 1>(a + j, stride, sweeps[k], c + sweeps[k].factors, s + sweeps[k].factors);
    }
  }
}

}  // namespace

// Highway's tables of targets hold plain functions.
#define WEFT_FOR_TYPE(name, suffix, T, result, parameters, arguments) \
  result name##_##suffix parameters { return name##_any<T> arguments; }
#define WEFT_PASSES(X, suffix, T)                                                                                   \
  X(dot, suffix, T, T, (int64_t n, const T* x, const T* y), (n, x, y))                                              \
  X(inner, suffix, T, T, (int64_t n, const T* x, const T* y), (n, x, y))                                            \
  X(axpy, suffix, T, void, (int64_t n, T a, const T* x, T* y), (n, a, x, y))                                        \
  X(scale, suffix, T, void, (int64_t n, T a, T * x), (n, a, x))                                                     \
  X(rows_times, suffix, T, void, (int64_t rows, int64_t n, const T* a, int64_t stride, const T* x, T* y),           \
    (rows, n, a, stride, x, y))                                                                                     \
  X(reflect_rows, suffix, T, void, (int64_t rows, int64_t n, T * a, int64_t stride, const T* v, T tau),             \
    (rows, n, a, stride, v, tau))                                                                                   \
  X(update_and_sum, suffix, T, void,                                                                                \
    (int64_t rows, int64_t n, T * a, int64_t stride, const T* u, const T* w, const T* z, const T* v, const T* x,    \
     T* y),                                                                                                         \
    (rows, n, a, stride, u, w, z, v, x, y))                                                                         \
  X(update_both, suffix, T, void,                                                                                   \
    (int64_t rows, int64_t n, T * a, int64_t stride, const T* u, const T* w, const T* z, const T* v, const T* x,    \
     T* sums, const T* t, T* y),                                                                                    \
    (rows, n, a, stride, u, w, z, v, x, sums, t, y))                                                                \
  X(update_and_multiply, suffix, T, void,                                                                           \
    (int64_t n, T * a, int64_t stride, const T* u, const T* w, const T* x, T* y), (n, a, stride, u, w, x, y))       \
  X(lu_panel, suffix, T, int64_t, (int64_t m, int64_t n, T * a, int64_t stride, int32_t * pivots),                  \
    (m, n, a, stride, pivots))                                                                                      \
  X(cholesky_block, suffix, T, int64_t, (int64_t n, T * a, int64_t stride), (n, a, stride))                         \
  X(solve_block, suffix, T, void, (int64_t n, int64_t columns, const T* l, const T* inverse, T* b, int64_t stride), \
    (n, columns, l, inverse, b, stride))                                                                            \
  X(solve_vector, suffix, T, void,                                                                                  \
    (int64_t n, const T* t, int64_t stride, bool by_columns, bool upper, bool unit, T* b),                          \
    (n, t, stride, by_columns, upper, unit, b))                                                                     \
  X(reflect_few_rows, suffix, T, void, (int64_t count, int64_t n, T * a, int64_t stride, const T* v, T tau),        \
    (count, n, a, stride, v, tau))                                                                                  \
  X(reflect_few_columns, suffix, T, void, (int64_t rows, int64_t count, T * a, int64_t stride, const T* v, T tau),  \
    (rows, count, a, stride, v, tau))
#define WEFT_REAL_PASSES(X, suffix, T)                                                              \
  X(rotate_rows, suffix, T, void,                                                                   \
    (int64_t n, T * a, int64_t stride, const Sweep* sweeps, int64_t count, const T* c, const T* s), \
    (n, a, stride, sweeps, count, c, s))
#define WEFT_EVERY_PASS(X)         \
  WEFT_PASSES(X, f32, float)       \
  WEFT_PASSES(X, f64, double)      \
  WEFT_PASSES(X, c64, complex64)   \
  WEFT_PASSES(X, c128, complex128) \
  WEFT_REAL_PASSES(X, f32, float)  \
  WEFT_REAL_PASSES(X, f64, double)
WEFT_EVERY_PASS(WEFT_FOR_TYPE)

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

#define WEFT_CHOSEN(name, suffix, T, result, parameters, arguments) \
  HWY_EXPORT(name##_##suffix);                                      \
  template <>                                                       \
  result name<T> parameters {                                       \
    return HWY_DYNAMIC_DISPATCH(name##_##suffix) arguments;         \
  }
WEFT_EVERY_PASS(WEFT_CHOSEN)

}  // namespace weft::cpu
#endif
