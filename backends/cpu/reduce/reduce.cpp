// Reduction loops: a line to one number, rows to a row of numbers, and partial results to the output. reduce_plan.cpp
// chooses the lines and rows.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/reduce/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../lines.hpp"
#include "reduce_plan.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class A>
constexpr bool is_float = std::is_floating_point_v<A>;

/// The type of partial results.
template <class A>
using Wide = std::conditional_t<is_float<A>, double, A>;

template <class A>
constexpr A lowest_value() {
  if constexpr (is_float<A>) return -infinity<A>;
  else return std::is_unsigned_v<A> ? A(0) : static_cast<A>(A(1) << (sizeof(A) * 8 - 1));
}
template <class A>
constexpr A highest_value() {
  if constexpr (is_float<A>) return infinity<A>;
  else return static_cast<A>(~lowest_value<A>());
}

struct Sum {
  template <class A>
  static constexpr A identity() {
    return A(0);
  }
  template <class T>
  static HWY_INLINE T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else return a + b;
  }
};
struct Product {
  template <class A>
  static constexpr A identity() {
    return A(1);
  }
  template <class T>
  static HWY_INLINE T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else return a * b;
  }
};
struct Largest {
  template <class A>
  static constexpr A identity() {
    return lowest_value<A>();
  }
  template <class A, int64_t n>
  static HWY_INLINE Lanes<A, n> combine(Lanes<A, n> a, Lanes<A, n> b) {
    return larger(a, b);
  }
  template <class T>
  static HWY_INLINE T combine(T a, T b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};
struct Smallest {
  template <class A>
  static constexpr A identity() {
    return highest_value<A>();
  }
  template <class A, int64_t n>
  static HWY_INLINE Lanes<A, n> combine(Lanes<A, n> a, Lanes<A, n> b) {
    return smaller(a, b);
  }
  template <class T>
  static HWY_INLINE T combine(T a, T b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};

/// Elements as numbers of type A: the memory itself where it holds them contiguously.
template <class A>
HWY_INLINE const A* numbers(A* scratch, const char* from, int64_t stride, int64_t n, ReducedElements elements) {
  if constexpr (std::is_same_v<A, int32_t>) {
    if (elements.truth) {
      load_truth(scratch, from, stride, n, elements.dtype);
      return scratch;
    }
  }
  return read_line(scratch, from, stride, n, elements.dtype);
}

template <class A>
HWY_INLINE Lanes<A> sum_of_four(const A* a, const A* b, const A* c, const A* d, int64_t left) {
  using L = Lanes<A>;
  return (L::load(a, left, 0) + L::load(b, left, 0)) + (L::load(c, left, 0) + L::load(d, left, 0));
}
/// Floats are added four at a time, and those sums in double: one rounding more than the result's own is left.
HWY_INLINE double sum_of_floats(const float* x, int64_t n) {
  double result = 0;
  if (n < lane_count) {
    for (int64_t i = 0; i < n; ++i) result += static_cast<double>(x[i]);
    return result;
  }
  const auto four = [x](int64_t i) HWY_ATTR {
    const float* at = x + i;
    return widened(sum_of_four(at, at + lane_count, at + 2 * lane_count, at + 3 * lane_count, lane_count));
  };
  constexpr int64_t step = 4 * lane_count;
  Lanes<double> a(0.0), b(0.0);
  int64_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    a = a + four(i);
    b = b + four(i + step);
  }
  for (; i < n; i += lane_count) a = a + widened(Lanes<float>::load(x + i, n - i, 0));
  return sum_of(a + b);
}

template <class Op, class A>
constexpr bool sums_floats = std::is_same_v<Op, Sum>&& std::is_same_v<A, float>;

/// Up to chunk_size contiguous numbers.
template <class Op, class A>
HWY_INLINE Wide<A> reduce_chunk(const A* x, int64_t n) {
  if constexpr (sums_floats<Op, A>) {
    return sum_of_floats(x, n);
  } else if constexpr (is_float<A>) {
    using L = Lanes<A>;
    if (n < lane_count) {
      A result = Op::template identity<A>();
      for (int64_t i = 0; i < n; ++i) result = Op::combine(result, x[i]);
      return result;
    }
    constexpr int64_t step = 4 * lane_count;
    L a(Op::template identity<A>()), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + step <= n; i += step) {
      a = Op::combine(a, L::load(x + i));
      b = Op::combine(b, L::load(x + i + lane_count));
      c = Op::combine(c, L::load(x + i + 2 * lane_count));
      d = Op::combine(d, L::load(x + i + 3 * lane_count));
    }
    for (; i < n; i += lane_count) a = Op::combine(a, L::load(x + i, n - i, Op::template identity<A>()));
    a = Op::combine(Op::combine(a, b), Op::combine(c, d));
    return fold(a, [](auto v, auto w) HWY_ATTR { return Op::combine(v, w); });
  } else {
    A result = Op::template identity<A>();
    for (int64_t i = 0; i < n; ++i) result = Op::combine(result, x[i]);
    return result;
  }
}

template <class Op, class A>
HWY_NOINLINE void reduce_lines(Wide<A>* into, int64_t count, const char* x, int64_t line_step, int64_t stride,
                               int64_t n, ReducedElements elements) {
  alignas(64) A scratch[chunk_size];
  for (int64_t i = 0; i < count; ++i, x += line_step) {
    Wide<A> result = Op::template identity<Wide<A>>();
    for (int64_t first = 0; first < n; first += chunk_size) {
      const int64_t size = n - first < chunk_size ? n - first : chunk_size;
      const A* numbers_here = numbers<A>(scratch, x + first * stride, stride, size, elements);
      result = Op::combine(result, reduce_chunk<Op>(numbers_here, size));
    }
    into[i] = Op::combine(into[i], result);
  }
}

constexpr int64_t column_block = 512;
constexpr int64_t flush_rows = 64;

/// The columns [0, width) of the rows [first, first + count) into result[width].
template <class Op, class A>
HWY_NOINLINE void reduce_column_block(const char* x, const Walk<1>& rows, int64_t first, int64_t count, int64_t step,
                                      int64_t width, ReducedElements elements, Wide<A>* result) {
  alignas(64) A scratch[4][column_block], sum[column_block];
  for (int64_t c = 0; c < width; ++c) result[c] = Op::template identity<Wide<A>>();
  Cursor<1> at(rows, first);
  while (count > 0) {
    const int64_t end = count > flush_rows ? count - flush_rows : 0;
    for (int64_t c = 0; c < column_block; ++c) sum[c] = Op::template identity<A>();
    while (count > end) {
      const int64_t together = count >= 4 ? 4 : 1;
      const A* row[4];
      for (int64_t k = 0; k < together; ++k, at.next()) {
        row[k] = numbers<A>(scratch[k], x + at.offset[0], step, width, elements);
      }
      const A *a = row[0], *b = row[1], *c4 = row[2], *d = row[3];
      if constexpr (is_float<A>) {  // the compiler makes no registers full of maxima
        using L = Lanes<A>;
        constexpr A filler = Op::template identity<A>();
        if (together == 4) {
          each_step(width, [&](int64_t c, int64_t left) HWY_ATTR {
            const L ab = Op::combine(L::load(a + c, left, filler), L::load(b + c, left, filler));
            const L cd = Op::combine(L::load(c4 + c, left, filler), L::load(d + c, left, filler));
            Op::combine(L::load(sum + c), Op::combine(ab, cd)).store(sum + c);
          });
        } else {
          each_step(width, [&](int64_t c, int64_t left) HWY_ATTR {
            Op::combine(L::load(sum + c), L::load(a + c, left, filler)).store(sum + c);
          });
        }
      } else if (together == 4) {
        for (int64_t c = 0; c < width; ++c) {
          sum[c] = Op::combine(sum[c], Op::combine(Op::combine(a[c], b[c]), Op::combine(c4[c], d[c])));
        }
      } else {
        for (int64_t c = 0; c < width; ++c) sum[c] = Op::combine(sum[c], a[c]);
      }
      count -= together;
    }
    for (int64_t c = 0; c < width; ++c) result[c] = Op::combine(result[c], static_cast<Wide<A>>(sum[c]));
  }
}

/// The same for sums of floats.
HWY_NOINLINE void sum_column_block(const char* x, const Walk<1>& rows, int64_t first, int64_t count, int64_t step,
                                   int64_t width, ReducedElements elements, double* result) {
  alignas(64) float scratch[4][column_block];
  for (int64_t c = 0; c < width; ++c) result[c] = 0;
  Cursor<1> at(rows, first);
  for (int64_t together; count > 0; count -= together) {
    together = count >= 4 ? 4 : 1;
    const float* row[4];
    for (int64_t k = 0; k < together; ++k, at.next()) {
      row[k] = numbers<float>(scratch[k], x + at.offset[0], step, width, elements);
    }
    each_step(width, [&](int64_t c, int64_t left) HWY_ATTR {
      const Lanes<float> more = together == 4 ? sum_of_four(row[0] + c, row[1] + c, row[2] + c, row[3] + c, left)
                                              : Lanes<float>::load(row[0] + c, left, 0);
      (Lanes<double>::load(result + c, left, 0) + widened(more)).store(result + c, left);
    });
  }
}

/// Combines `pieces` consecutive groups of `width` results in order, and stores them.
template <class Op, class W>
HWY_NOINLINE void finish(const ReducePlan& plan, W* partial, int64_t pieces, int64_t width, double divisor) {
  Walk<2> outer = plan.kept;
  int64_t step[2];
  const int64_t inner = outer.pop(step);
  const int64_t total = plan.kept.count;
  for (int64_t group = 0; pieces > 1 && group < total / width; ++group) {
    W* to = partial + group * width;
    const W* from = partial + group * pieces * width;
    for (int64_t c = 0; c < width; ++c) {
      W result = from[c];
      for (int64_t p = 1; p < pieces; ++p) result = Op::combine(result, from[p * width + c]);
      to[c] = result;
    }
  }
  if constexpr (is_float<W>) {
    for (int64_t i = 0; divisor >= 0 && i < total; ++i) partial[i] /= divisor;
  }
  Cursor<2> at(outer, 0);
  for (int64_t i = 0; i < total; i += inner, at.next()) {
    store_line(plan.out + at.offset[0], step[0], plan.out_dtype, static_cast<const W*>(partial) + i, inner);
  }
}

template <class Op, class A>
ReduceKernel<Wide<A>> kernel() {
  auto* columns = reduce_column_block<Op, A>;
  if constexpr (sums_floats<Op, A>) columns = sum_column_block;
  return {reduce_lines<Op, A>, columns, finish<Op, Wide<A>>, Op::template identity<Wide<A>>(), column_block, true};
}

template <class A>
void reduce_numbers(Reduction reduction, const ReducePlan& plan) {
  switch (reduction) {
    case Reduction::sum:
      return reduce_by(kernel<Sum, A>(), plan);
    case Reduction::mean:
      return reduce_by(kernel<Sum, A>(), plan, false, static_cast<double>(plan.reduced.count));
    case Reduction::prod:
      return reduce_by(kernel<Product, A>(), plan);
    case Reduction::max:
      return reduce_by(kernel<Largest, A>(), plan);
    default:
      return reduce_by(kernel<Smallest, A>(), plan);
  }
}

template <class A>
void extreme_of(Reduction reduction, const ReducePlan& plan) {
  if (reduction == Reduction::max) reduce_by(kernel<Largest, A>(), plan);
  else reduce_by(kernel<Smallest, A>(), plan);
}

void reduce_any(Reduction reduction, const ReducePlan& plan) {
  if (reduction == Reduction::any) {
    // Over nothing: false, which as a maximum of truths is 0.
    if (plan.reduced.count == 0) return reduce_by(kernel<Sum, int64_t>(), plan);
    return reduce_by(kernel<Largest, int32_t>(), plan, true);
  }
  if (reduction == Reduction::all) return reduce_by(kernel<Smallest, int32_t>(), plan, true);
  const bool extreme = reduction == Reduction::max || reduction == Reduction::min;
  const DType t = extreme ? plan.dtype : (is_floating(plan.out_dtype) ? plan.out_dtype : plan.dtype);
  if (t == DType::f64) return reduce_numbers<double>(reduction, plan);
  if (is_floating(t)) return reduce_numbers<float>(reduction, plan);
  if (!extreme || t == DType::i64) return reduce_numbers<int64_t>(reduction, plan);
  if (compute_type(t) == DType::u64) return extreme_of<uint64_t>(reduction, plan);
  return extreme_of<int32_t>(reduction, plan);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(reduce_any);

void reduce(Reduction reduction, const View& out, const View& in) {
  if (!is_computable(in.layout.dtype)) unsupported("reduce", in);
  if (!is_computable(out.layout.dtype)) unsupported("reduce", out);
  if (out.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(reduce_any)(reduction, ReducePlan(out, in));
}

}  // namespace weft::cpu
#endif
