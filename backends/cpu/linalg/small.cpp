// Each SIMD lane holds one matrix of the batch, so factorizations and solves of up to 32 x 32 need no horizontal
// operation and no branch per lane.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/linalg/small.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include <type_traits>

#include "../workspace.hpp"
#include "batches.hpp"
#include "small.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Raw = hn::Vec<Tag<T>>;
template <class T>
constexpr int64_t lanes = static_cast<int64_t>(hn::MaxLanes(Tag<T>()));
template <class T>
using Number = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

/// Matrices [rows, columns] of a group, element by element a register with one lane for each.
template <class T>
struct Group {
  T* data;
  int64_t columns;

  T* at(int64_t i, int64_t j) const { return data + (i * columns + j) * lanes<T>; }
  HWY_INLINE Raw<T> get(int64_t i, int64_t j) const { return hn::Load(Tag<T>(), at(i, j)); }
  HWY_INLINE void set(int64_t i, int64_t j, Raw<T> v) const { hn::Store(v, Tag<T>(), at(i, j)); }

  /// From `count` matrices `next` elements apart; lanes without one repeat the last.
  void read(const T* from, int64_t count, int64_t next, int64_t rows, int64_t row, int64_t column) const {
    for (int64_t l = 0; l < lanes<T>; ++l) {
      const T* m = from + std::min(l, count - 1) * next;
      T* to = data + l;
      for (int64_t i = 0; i < rows; ++i) {
        const T* line = m + i * row;
        for (int64_t j = 0; j < columns; ++j, to += lanes<T>, line += column) *to = *line;
      }
    }
  }
  /// The same of square matrices, of which one triangle is wanted.
  void read_triangle(const T* from, int64_t count, int64_t next, bool upper, int64_t row, int64_t column) const {
    for (int64_t l = 0; l < lanes<T>; ++l) {
      const T* m = from + std::min(l, count - 1) * next;
      for (int64_t i = 0; i < columns; ++i) {
        const int64_t first = upper ? i : 0, last = upper ? columns : i + 1;
        const T* line = m + i * row + first * column;
        T* to = data + (i * columns + first) * lanes<T> + l;
        for (int64_t j = first; j < last; ++j, to += lanes<T>, line += column) *to = *line;
      }
    }
  }
  void write(T* to, int64_t count, int64_t rows) const {
    const int64_t n = rows * columns;
    for (int64_t l = 0; l < count; ++l) {
      const T* from = data + l;
      for (int64_t i = 0; i < n; ++i, from += lanes<T>) *to++ = *from;
    }
  }
};

/// Exchanges row j and, lane by lane, row `place` (a number of the element type's width, not below j).
template <class T>
HWY_INLINE void exchange(const Group<T>& m, int64_t rows, int64_t j, hn::Vec<hn::RebindToSigned<Tag<T>>> place) {
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> di;
  if (rows - j <= 8) {
    for (int64_t i = j + 1; i < rows; ++i) {
      const auto mask = hn::RebindMask(d, hn::Eq(place, hn::Set(di, static_cast<Number<T>>(i))));
      if (hn::AllFalse(d, mask)) continue;
      for (int64_t c = 0; c < m.columns; ++c) {
        const auto x = m.get(j, c), y = m.get(i, c);
        m.set(j, c, hn::IfThenElse(mask, y, x));
        m.set(i, c, hn::IfThenElse(mask, x, y));
      }
    }
    return;
  }
  auto at = hn::Add(hn::Mul(place, hn::Set(di, static_cast<Number<T>>(m.columns * lanes<T>))), hn::Iota(di, 0));
  for (int64_t c = 0; c < m.columns; ++c) {
    const auto x = m.get(j, c), y = hn::GatherIndex(d, m.data, at);
    hn::ScatterIndex(x, d, m.data, at);
    m.set(j, c, y);  // after: where both are one row, it stays
    at = hn::Add(at, hn::Set(di, static_cast<Number<T>>(lanes<T>)));
  }
}

/// LU with row exchanges of a [n, n], the same done to x; pivots from 1 and info to lane l's place.
template <class T>
void factor_group(int64_t n, const Group<T>& a, const Group<T>* x, Number<T>* pivots, Number<T>* info) {
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> di;
  auto singular = hn::Zero(di);
  for (int64_t j = 0; j < n; ++j) {
    auto most = hn::Abs(a.get(j, j));
    auto place = hn::Set(di, static_cast<Number<T>>(j));
    for (int64_t i = j + 1; i < n; ++i) {
      const auto size = hn::Abs(a.get(i, j));
      // NaN is taken as a pivot, so that it spreads.
      const auto better = hn::Or(hn::Gt(size, most), hn::AndNot(hn::IsNaN(most), hn::IsNaN(size)));
      most = hn::IfThenElse(better, size, most);
      place = hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, static_cast<Number<T>>(i)), place);
    }
    hn::StoreU(hn::Add(place, hn::Set(di, 1)), di, pivots + j * lanes<T>);
    if (!hn::AllTrue(di, hn::Eq(place, hn::Set(di, static_cast<Number<T>>(j))))) {
      exchange(a, n, j, place);
      if (x != nullptr) exchange(*x, n, j, place);
    }
    const auto pivot = a.get(j, j);
    const auto zero = hn::Eq(pivot, hn::Zero(d));
    const auto first = hn::And(hn::RebindMask(di, zero), hn::Eq(singular, hn::Zero(di)));
    singular = hn::IfThenElse(first, hn::Set(di, static_cast<Number<T>>(j + 1)), singular);
    const auto inverse =
        hn::IfThenZeroElse(zero, hn::Div(hn::Set(d, T(1)), hn::IfThenElse(zero, hn::Set(d, T(1)), pivot)));
    int64_t i = j + 1;
    for (; i + 2 <= n; i += 2) {
      const auto f0 = hn::Mul(a.get(i, j), inverse), f1 = hn::Mul(a.get(i + 1, j), inverse);
      a.set(i, j, f0);
      a.set(i + 1, j, f1);
      const auto eliminate = [&](const Group<T>& m, int64_t c) HWY_ATTR {
        const auto top = m.get(j, c);
        m.set(i, c, hn::NegMulAdd(f0, top, m.get(i, c)));
        m.set(i + 1, c, hn::NegMulAdd(f1, top, m.get(i + 1, c)));
      };
      for (int64_t c = j + 1; c < n; ++c) eliminate(a, c);
      for (int64_t c = 0; x != nullptr && c < x->columns; ++c) eliminate(*x, c);
    }
    for (; i < n; ++i) {
      const auto factor = hn::Mul(a.get(i, j), inverse);
      a.set(i, j, factor);
      for (int64_t c = j + 1; c < n; ++c) a.set(i, c, hn::NegMulAdd(factor, a.get(j, c), a.get(i, c)));
      for (int64_t c = 0; x != nullptr && c < x->columns; ++c) {
        x->set(i, c, hn::NegMulAdd(factor, x->get(j, c), x->get(i, c)));
      }
    }
  }
  hn::StoreU(singular, di, info);
}

/// Solves t x = b in place for a triangle.
template <class T>
void solve_group(int64_t n, const Group<T>& t, bool upper, bool unit, const Group<T>& x) {
  const auto one = hn::Set(Tag<T>(), T(1));
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    const auto inverse = unit ? one : hn::Div(one, t.get(i, i));
    for (int64_t c = 0; c < x.columns; ++c) {
      auto sum = x.get(i, c), other = hn::Zero(Tag<T>());
      int64_t k = upper ? i + 1 : 0;
      const int64_t end = upper ? n : i;
      for (; k + 2 <= end; k += 2) {
        sum = hn::NegMulAdd(t.get(i, k), x.get(k, c), sum);
        other = hn::NegMulAdd(t.get(i, k + 1), x.get(k + 1, c), other);
      }
      if (k < end) sum = hn::NegMulAdd(t.get(i, k), x.get(k, c), sum);
      x.set(i, c, hn::Mul(hn::Add(sum, other), inverse));
    }
  }
}

/// Replaces the lower triangle by the lower factor, and sets the rest to 0.
template <class T>
void cholesky_group(int64_t n, const Group<T>& a, Number<T>* info) {
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> di;
  auto failed = hn::Zero(di);
  for (int64_t j = 0; j < n; ++j) {
    auto square = a.get(j, j);
    for (int64_t k = 0; k < j; ++k) square = hn::NegMulAdd(a.get(j, k), a.get(j, k), square);
    const auto bad = hn::Not(hn::Gt(square, hn::Zero(d)));
    const auto first = hn::And(hn::RebindMask(di, bad), hn::Eq(failed, hn::Zero(di)));
    failed = hn::IfThenElse(first, hn::Set(di, static_cast<Number<T>>(j + 1)), failed);
    const auto root = hn::Sqrt(square), inverse = hn::Div(hn::Set(d, T(1)), root);
    a.set(j, j, root);
    int64_t i = j + 1;
    for (; i + 4 <= n; i += 4) {  // side by side, which hides the latency of their sums
      auto s0 = a.get(i, j), s1 = a.get(i + 1, j), s2 = a.get(i + 2, j), s3 = a.get(i + 3, j);
      for (int64_t k = 0; k < j; ++k) {
        const auto top = a.get(j, k);
        s0 = hn::NegMulAdd(a.get(i, k), top, s0);
        s1 = hn::NegMulAdd(a.get(i + 1, k), top, s1);
        s2 = hn::NegMulAdd(a.get(i + 2, k), top, s2);
        s3 = hn::NegMulAdd(a.get(i + 3, k), top, s3);
      }
      a.set(i, j, hn::Mul(s0, inverse));
      a.set(i + 1, j, hn::Mul(s1, inverse));
      a.set(i + 2, j, hn::Mul(s2, inverse));
      a.set(i + 3, j, hn::Mul(s3, inverse));
    }
    for (; i < n; ++i) {
      auto sum = a.get(i, j);
      for (int64_t k = 0; k < j; ++k) sum = hn::NegMulAdd(a.get(i, k), a.get(j, k), sum);
      a.set(i, j, hn::Mul(sum, inverse));
    }
    for (i = j + 1; i < n; ++i) a.set(j, i, hn::Zero(d));
  }
  hn::StoreU(failed, di, info);
}

/// body(first, count, memory) for groups of at most a register of matrices, with memory for `elements` registers.
template <class T, class F>
void each_group(int64_t batch, int64_t elements, F&& body) {
  const int64_t groups = (batch + lanes<T> - 1) / lanes<T>;
  parallel_for(groups, 16, [&](int64_t begin, int64_t end) {
    const Workspace memory(static_cast<size_t>(elements * lanes<T>) * sizeof(T));
    for (int64_t g = begin; g < end; ++g) {
      body(g * lanes<T>, std::min(lanes<T>, batch - g * lanes<T>), memory.as<T>());
    }
  });
}

template <class T>
void cholesky_batch(const View& l, const View& info, const View& a, bool upper) {
  const int64_t n = size(a, 1);
  each_group<T>(size(a, 0), n * n, [&](int64_t first, int64_t count, T* memory) HWY_ATTR {
    const Group<T> m{memory, n};
    Number<T> failed[lanes<T>];
    m.read_triangle(part<T>(a, first), count, n * n, false, upper ? 1 : n, upper ? n : 1);
    cholesky_group(n, m, failed);
    if (upper) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < i; ++j) {
          m.set(j, i, m.get(i, j));
          m.set(i, j, hn::Zero(Tag<T>()));
        }
      }
    }
    m.write(part<T>(l, first), count, n);
    for (int64_t i = 0; i < count; ++i) *part<int32_t>(info, first + i) = static_cast<int32_t>(failed[i]);
  });
}

template <class T>
void solve_batch(const View& x, const View& lu, const View& pivots, const View& info, const View& a) {
  const int64_t n = size(a, 1), k = x.data != nullptr ? size(x, 2) : 0;
  each_group<T>(size(a, 0), n * n + n * k + n, [&](int64_t first, int64_t count, T* memory) {
    const Group<T> m{memory, n}, right{m.data + n * n * lanes<T>, k};
    auto* rows = reinterpret_cast<Number<T>*>(right.data + n * k * lanes<T>);
    Number<T> singular[lanes<T>];
    m.read(part<T>(a, first), count, n * n, n, n, 1);
    if (k > 0) right.read(part<T>(x, first), count, n * k, n, k, 1);
    factor_group(n, m, k > 0 ? &right : nullptr, rows, singular);
    m.write(part<T>(lu, first), count, n);
    for (int64_t i = 0; i < count; ++i) {
      *part<int32_t>(info, first + i) = static_cast<int32_t>(singular[i]);
      auto* to = part<int32_t>(pivots, first + i);
      for (int64_t j = 0; j < n; ++j) to[j] = static_cast<int32_t>(rows[j * lanes<T> + i]);
    }
    if (k == 0) return;
    solve_group(n, m, true, false, right);
    right.write(part<T>(x, first), count, n);
  });
}

template <class T>
void triangular_batch(const View& x, const View& a, bool upper, bool unit) {
  const int64_t n = size(x, 1), k = size(x, 2);
  constexpr int64_t item = sizeof(T);
  const int64_t next = a.layout.strides[0] / item, row = a.layout.strides[1] / item,
                column = a.layout.strides[2] / item;
  each_group<T>(size(x, 0), n * n + n * k, [&](int64_t first, int64_t count, T* memory) {
    const Group<T> t{memory, n}, right{t.data + n * n * lanes<T>, k};
    t.read_triangle(part<T>(a, first), count, next, upper, row, column);
    right.read(part<T>(x, first), count, n * k, n, k, 1);
    solve_group(n, t, upper, unit, right);
    right.write(part<T>(x, first), count, n);
  });
}

}  // namespace

void cholesky_f32(const View& l, const View& info, const View& a, bool upper) {
  cholesky_batch<float>(l, info, a, upper);
}
void cholesky_f64(const View& l, const View& info, const View& a, bool upper) {
  cholesky_batch<double>(l, info, a, upper);
}
void solve_f32(const View& x, const View& lu, const View& pivots, const View& info, const View& a) {
  solve_batch<float>(x, lu, pivots, info, a);
}
void solve_f64(const View& x, const View& lu, const View& pivots, const View& info, const View& a) {
  solve_batch<double>(x, lu, pivots, info, a);
}
void triangular_f32(const View& x, const View& a, bool upper, bool unit) { triangular_batch<float>(x, a, upper, unit); }
void triangular_f64(const View& x, const View& a, bool upper, bool unit) {
  triangular_batch<double>(x, a, upper, unit);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

HWY_EXPORT(cholesky_f32);
HWY_EXPORT(cholesky_f64);
HWY_EXPORT(solve_f32);
HWY_EXPORT(solve_f64);
HWY_EXPORT(triangular_f32);
HWY_EXPORT(triangular_f64);

namespace {

/// Cases in which one matrix per lane pays: enough matrices to fill lanes, and matrices that fit the first-level
/// caches.
template <class T>
bool are_small(int64_t batch, int64_t n, int64_t k) {
  return parts<T> == 1 && batch >= 4 && n > 0 && n <= 32 && k <= 32;
}

}  // namespace

template <class T>
bool small_cholesky(const View& l, const View& info, const View& a, bool upper) {
  if (!are_small<T>(size(a, 0), size(a, 1), 0)) return false;
  if constexpr (std::is_same_v<T, double>) HWY_DYNAMIC_DISPATCH(cholesky_f64)(l, info, a, upper);
  else HWY_DYNAMIC_DISPATCH(cholesky_f32)(l, info, a, upper);
  return true;
}
template <class T>
bool small_solve(const View& x, const View& lu, const View& pivots, const View& info, const View& a) {
  if (!are_small<T>(size(a, 0), size(a, 1), x.data != nullptr ? size(x, 2) : 0)) return false;
  if constexpr (std::is_same_v<T, double>) HWY_DYNAMIC_DISPATCH(solve_f64)(x, lu, pivots, info, a);
  else HWY_DYNAMIC_DISPATCH(solve_f32)(x, lu, pivots, info, a);
  return true;
}
template <class T>
bool small_solve_triangular(const View& x, const View& a, bool upper, bool unit) {
  if (!are_small<T>(size(x, 0), size(x, 1), size(x, 2)) || size(x, 2) == 0) return false;
  if constexpr (std::is_same_v<T, double>) HWY_DYNAMIC_DISPATCH(triangular_f64)(x, a, upper, unit);
  else HWY_DYNAMIC_DISPATCH(triangular_f32)(x, a, upper, unit);
  return true;
}

#define WEFT_INSTANTIATE(T)                                                                      \
  template bool small_cholesky<T>(const View&, const View&, const View&, bool);                  \
  template bool small_solve<T>(const View&, const View&, const View&, const View&, const View&); \
  template bool small_solve_triangular<T>(const View&, const View&, bool, bool);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(complex64)
WEFT_INSTANTIATE(complex128)
#undef WEFT_INSTANTIATE

}  // namespace weft::cpu
#endif
