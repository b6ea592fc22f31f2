#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/linalg/vectors.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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

template <class T>
HWY_INLINE T dot_of(int64_t n, const T* x, const T* y) {
  const Tag<T> d;
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes<T> <= n; i += 4 * lanes<T>) {
    a = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), a);
    b = hn::MulAdd(hn::LoadU(d, x + i + lanes<T>), hn::LoadU(d, y + i + lanes<T>), b);
    c = hn::MulAdd(hn::LoadU(d, x + i + 2 * lanes<T>), hn::LoadU(d, y + i + 2 * lanes<T>), c);
    e = hn::MulAdd(hn::LoadU(d, x + i + 3 * lanes<T>), hn::LoadU(d, y + i + 3 * lanes<T>), e);
  }
  for (; i + lanes<T> <= n; i += lanes<T>) a = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), a);
  if (i < n) b = hn::MulAdd(Part<T>::load(x + i, n - i), Part<T>::load(y + i, n - i), b);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}
template <class T>
HWY_INLINE void axpy_to(int64_t n, T a, const T* x, T* y) {
  const auto factor = hn::Set(Tag<T>(), a);
  each_register<T>(n, [&](auto access, int64_t i, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
    access.store(hn::MulAdd(factor, access.load(x + i, left), access.load(y + i, left)), y + i, left);
  });
}

template <class T>
T dot_any(int64_t n, const T* x, const T* y) {
  return dot_of(n, x, y);
}
template <class T>
void axpy_any(int64_t n, T a, const T* x, T* y) {
  axpy_to(n, a, x, y);
}
template <class T>
void scale_any(int64_t n, T a, T* x) {
  const auto factor = hn::Set(Tag<T>(), a);
  each_register<T>(n, [&](auto access, int64_t i, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
    access.store(hn::Mul(factor, access.load(x + i, left)), x + i, left);
  });
}

template <class T>
void rows_times_any(int64_t rows, int64_t n, const T* a, int64_t stride, const T* x, T* y) {
  const Tag<T> d;
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const T *r0 = a + i * stride, *r1 = r0 + stride, *r2 = r1 + stride, *r3 = r2 + stride;
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    each_register<T>(n, [&](auto access, int64_t j, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
      const auto v = access.load(x + j, left);
      s0 = hn::MulAdd(access.load(r0 + j, left), v, s0);
      s1 = hn::MulAdd(access.load(r1 + j, left), v, s1);
      s2 = hn::MulAdd(access.load(r2 + j, left), v, s2);
      s3 = hn::MulAdd(access.load(r3 + j, left), v, s3);
    });
    y[i] = hn::GetLane(hn::SumOfLanes(d, s0));
    y[i + 1] = hn::GetLane(hn::SumOfLanes(d, s1));
    y[i + 2] = hn::GetLane(hn::SumOfLanes(d, s2));
    y[i + 3] = hn::GetLane(hn::SumOfLanes(d, s3));
  }
  for (; i < rows; ++i) y[i] = dot_of(n, a + i * stride, x);
}
template <class T>
void reflect_rows_any(int64_t rows, int64_t n, T* a, int64_t stride, const T* v, T tau) {
  for (int64_t i = 0; i < rows; ++i) {
    T* row = a + i * stride;
    axpy_to(n, -tau * dot_of(n, row, v), v, row);
  }
}
template <class T>
void update_and_sum_any(int64_t rows, int64_t n, T* a, int64_t stride, const T* u, const T* w, const T* z, const T* v,
                        const T* x, T* sums) {
  const Tag<T> d;
  int64_t i = 0;
  for (; i + 2 <= rows; i += 2) {
    T *r0 = a + i * stride, *r1 = r0 + stride;
    const auto u0 = hn::Set(d, u[i]), z0 = hn::Set(d, z[i]), x0 = hn::Set(d, x[i]);
    const auto u1 = hn::Set(d, u[i + 1]), z1 = hn::Set(d, z[i + 1]), x1 = hn::Set(d, x[i + 1]);
    each_register<T>(n, [&](auto access, int64_t j, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
      const auto wj = access.load(w + j, left), vj = access.load(v + j, left);
      const auto t0 = hn::NegMulAdd(z0, vj, hn::NegMulAdd(u0, wj, access.load(r0 + j, left)));
      const auto t1 = hn::NegMulAdd(z1, vj, hn::NegMulAdd(u1, wj, access.load(r1 + j, left)));
      access.store(t0, r0 + j, left);
      access.store(t1, r1 + j, left);
      access.store(hn::MulAdd(x1, t1, hn::MulAdd(x0, t0, access.load(sums + j, left))), sums + j, left);
    });
  }
  for (; i < rows; ++i) {
    T* row = a + i * stride;
    axpy_to(n, -u[i], w, row);
    axpy_to(n, -z[i], v, row);
    axpy_to(n, x[i], row, sums);
  }
}
template <class T>
void update_and_multiply_any(int64_t n, T* a, int64_t stride, const T* u, const T* w, const T* x, T* y) {
  const Tag<T> d;
  for (int64_t i = 0; i < n; ++i) {
    T* row = a + i * stride;
    const auto ui = hn::Set(d, u[i]), wi = hn::Set(d, w[i]), xi = hn::Set(d, x[i]);
    row[i] -= 2 * u[i] * w[i];
    const T diagonal = row[i] * x[i];
    auto s0 = hn::Zero(d), s1 = s0;
    const auto step = [&](auto access, int64_t j, int64_t left, auto& sum) HWY_ATTR WEFT_INLINE_BODY {
      const auto t = hn::NegMulAdd(wi, access.load(u + j, left),
                                   hn::NegMulAdd(ui, access.load(w + j, left), access.load(row + j, left)));
      access.store(t, row + j, left);
      sum = hn::MulAdd(t, access.load(x + j, left), sum);
      access.store(hn::MulAdd(xi, t, access.load(y + j, left)), y + j, left);
    };
    int64_t j = i + 1;
    for (; j + 2 * lanes<T> <= n; j += 2 * lanes<T>) {
      step(Whole<T>(), j, lanes<T>, s0);
      step(Whole<T>(), j + lanes<T>, lanes<T>, s1);
    }
    for (; j + lanes<T> <= n; j += lanes<T>) step(Whole<T>(), j, lanes<T>, s0);
    if (j < n) step(Part<T>(), j, n - j, s1);
    y[i] += diagonal + hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  }
}

template <class T>
int64_t lu_panel_any(int64_t m, int64_t n, T* a, int64_t stride, int32_t* pivots) {
  int64_t singular = 0;
  for (int64_t j = 0; j < n && j < m; ++j) {
    int64_t best = j;
    T most = std::fabs(a[j * stride + j]);
    for (int64_t i = j + 1; i < m; ++i) {
      const T size = std::fabs(a[i * stride + j]);
      if (size > most || (size != size && most == most)) most = size, best = i;
    }
    pivots[j] = static_cast<int32_t>(best);
    T* top = a + j * stride;
    if (best != j) {
      for (int64_t k = 0; k < n; ++k) std::swap(top[k], a[best * stride + k]);
    }
    if (top[j] == 0) {
      if (singular == 0) singular = j + 1;
      continue;
    }
    const T inverse = T(1) / top[j];
    const bool small = !(std::fabs(inverse) < HUGE_VALF);
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
  for (int64_t j = 0; j < n; ++j) {
    T* top = a + j * stride;
    if (!(top[j] > 0)) return j + 1;
    const T root = std::sqrt(top[j]), inverse = T(1) / root;
    top[j] = root;
    for (int64_t k = j + 1; k < n; ++k) top[k] *= inverse;
    for (int64_t i = j + 1; i < n; ++i) axpy_to(n - i, -top[i], top + i, a + i * stride + i);
  }
  return 0;
}
template <class T>
void solve_block_any(int64_t n, int64_t columns, const T* l, const T* inverse, T* b, int64_t stride) {
  if (columns == 1) {
    for (int64_t i = 0; i < n; ++i) {
      T sum = b[i * stride];
      for (int64_t j = 0; j < i; ++j) sum -= l[i * n + j] * b[j * stride];
      b[i * stride] = sum * inverse[i];
    }
    return;
  }
  const Tag<T> d;
  // A few columns at a time, so that all rows of a strip stay in the first cache.
  each_register<T>(columns, [&](auto access, int64_t k, int64_t left) HWY_ATTR WEFT_INLINE_BODY {
    T* strip = b + k;
    for (int64_t i = 0; i < n; ++i) {
      auto sum = access.load(strip + i * stride, left);
      auto other = hn::Zero(d);
      int64_t j = 0;
      for (; j + 2 <= i; j += 2) {
        sum = hn::NegMulAdd(hn::Set(d, l[i * n + j]), access.load(strip + j * stride, left), sum);
        other = hn::NegMulAdd(hn::Set(d, l[i * n + j + 1]), access.load(strip + (j + 1) * stride, left), other);
      }
      if (j < i) sum = hn::NegMulAdd(hn::Set(d, l[i * n + j]), access.load(strip + j * stride, left), sum);
      access.store(hn::Mul(hn::Add(sum, other), hn::Set(d, inverse[i])), strip + i * stride, left);
    }
  });
}

template <class T>
void solve_vector_any(int64_t n, const T* t, int64_t stride, bool by_columns, bool upper, bool unit, T* b) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    const T* line = t + i * stride;
    const int64_t first = upper ? i + 1 : 0, count = upper ? n - 1 - i : i;
    if (!by_columns) b[i] -= dot_of(count, line + first, b + first);
    if (!unit) b[i] /= line[i];
    if (by_columns) {  // the rest of column i is above it in an upper triangle
      if (upper) axpy_to(i, -b[i], line, b);
      else axpy_to(n - 1 - i, -b[i], line + i + 1, b + i + 1);
    }
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
  X(rotate_rows, suffix, T, void,                                                                                   \
    (int64_t n, T * a, int64_t stride, const Sweep* sweeps, int64_t count, const T* c, const T* s),                 \
    (n, a, stride, sweeps, count, c, s))
WEFT_PASSES(WEFT_FOR_TYPE, f32, float)
WEFT_PASSES(WEFT_FOR_TYPE, f64, double)

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
WEFT_PASSES(WEFT_CHOSEN, f32, float)
WEFT_PASSES(WEFT_CHOSEN, f64, double)

}  // namespace weft::cpu
#endif
