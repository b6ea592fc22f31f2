// Reductions. The dimensions are split into kept and reduced ones, each sorted by stride and merged; then either the
// reduced dimension is innermost (lines) or a kept one is (columns). Work is cut into blocks by the shape alone, and
// the blocks' results are combined in order.
#include <weft/backends/cpu/simd_targets.hpp>
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <weft/backends/cpu/kernels.hpp>
#include <weft/backends/cpu/lanes-inl.hpp>
#include <weft/backends/cpu/lines.hpp>
#include <weft/backends/cpu/reduce_plan.hpp>
#include <weft/backends/cpu/thread_pool.hpp>

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class A>
constexpr bool is_float = std::is_floating_point_v<A>;

/// What partial results are kept and combined in.
template <class A>
using Wide = std::conditional_t<is_float<A>, double, A>;

template <class A>
constexpr A lowest_value() {
  if constexpr (is_float<A>) return -infinity<A>;
  else return static_cast<A>(A(1) << (sizeof(A) * 8 - 1));
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

/// How elements become numbers of type A: their value, or 1 where they are not zero.
template <class A, bool truth>
HWY_INLINE const A* numbers(A* scratch, const char* from, int64_t stride, int64_t n, DType dtype) {
  if constexpr (truth) {
    load_truth(scratch, from, stride, n, dtype);
    return scratch;
  } else {
    return read_line(scratch, from, stride, n, dtype);
  }
}

/// Up to chunk_size contiguous numbers.
template <class Op, class A>
HWY_INLINE A reduce_chunk(const A* x, int64_t n) {
  if constexpr (is_float<A>) {
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

template <class Op, class A, bool truth>
Wide<A> reduce_line(const char* x, int64_t stride, int64_t n, DType dtype) {
  alignas(64) A scratch[chunk_size];
  Wide<A> result = Op::template identity<Wide<A>>();
  for (int64_t i = 0; i < n; i += chunk_size) {
    const int64_t size = n - i < chunk_size ? n - i : chunk_size;
    const A* numbers_here = numbers<A, truth>(scratch, x + i * stride, stride, size, dtype);
    result = Op::combine(result, static_cast<Wide<A>>(reduce_chunk<Op>(numbers_here, size)));
  }
  return result;
}

/// Elements of one block of a reduction that is cut into several.
constexpr int64_t block_elements = 65536;

template <class Op, class A, bool truth>
void reduce_lines(const ReducePlan& plan, Wide<A>* partial) {
  Walk<1> outer = plan.reduced;
  int64_t step[1];
  const int64_t n = outer.pop(step);
  const LineBlocks blocks(outer.count, n, block_elements);
  const int64_t per_output = blocks.count();
  parallel_for(plan.kept.count * per_output, rows_per_chunk(blocks.elements()),
               [&](int64_t begin, int64_t end) HWY_ATTR {
                 Cursor<2> kept(plan.kept, begin / per_output);
                 if (outer.rank == 0 && per_output == 1) {  // one short line each: no divisions
                   for (int64_t t = begin; t < end; ++t, kept.next()) {
                     partial[t] = reduce_line<Op, A, truth>(plan.data + kept.offset[1], step[0], n, plan.dtype);
                   }
                   return;
                 }
                 for (int64_t t = begin; t < end; ++t) {
                   const LineBlocks::Block block = blocks.at(t % per_output);
                   Wide<A> result = Op::template identity<Wide<A>>();
                   Cursor<1> line(outer, block.first_line);
                   for (int64_t i = 0; i < block.lines; ++i, line.next()) {
                     const char* x = plan.data + kept.offset[1] + line.offset[0] + block.first * step[0];
                     result = Op::combine(result, reduce_line<Op, A, truth>(x, step[0], block.size, plan.dtype));
                   }
                   partial[t] = result;
                   if ((t + 1) % per_output == 0) kept.next();
                 }
               });
}

constexpr int64_t column_block = 512;
constexpr int64_t flush_rows = 64;

/// The columns [0, width) of `rows` rows into result[width].
template <class Op, class A, bool truth>
void reduce_columns_block(const char* x, const Walk<1>& rows, int64_t first, int64_t count, int64_t step, int64_t width,
                          DType dtype, Wide<A>* result) {
  alignas(64) A scratch[4][column_block], sum[column_block];
  const auto restart = [&]() HWY_ATTR {
    for (int64_t c = 0; c < column_block; ++c) sum[c] = Op::template identity<A>();
  };
  const auto flush = [&]() HWY_ATTR {
    for (int64_t c = 0; c < width; ++c) result[c] = Op::combine(result[c], static_cast<Wide<A>>(sum[c]));
  };
  for (int64_t c = 0; c < width; ++c) result[c] = Op::template identity<Wide<A>>();
  restart();
  Cursor<1> at(rows, first);
  int64_t pending = 0;
  for (int64_t r = 0; r < count;) {
    const int64_t together = count - r >= 4 ? 4 : 1;
    const A* row[4];
    for (int64_t k = 0; k < together; ++k, at.next()) {
      row[k] = numbers<A, truth>(scratch[k], x + at.offset[0], step, width, dtype);
    }
    const A *a = row[0], *b = row[1], *c4 = row[2], *d = row[3];
    if constexpr (is_float<A>) {
      using L = Lanes<A>;
      constexpr A filler = Op::template identity<A>();
      if (together == 4) {
        each_step(width, [&](int64_t c, int64_t left) HWY_ATTR {
          const L ab = Op::combine(L::load(a + c, left, filler), L::load(b + c, left, filler));
          const L cd = Op::combine(L::load(c4 + c, left, filler), L::load(d + c, left, filler));
          Op::combine(L::load(sum + c), Op::combine(ab, cd)).store(sum + c);
        });
      } else {
        each_step(width, [&](int64_t c, int64_t left)
                             HWY_ATTR { Op::combine(L::load(sum + c), L::load(a + c, left, filler)).store(sum + c); });
      }
    } else if (together == 4) {
      for (int64_t c = 0; c < width; ++c) {
        sum[c] = Op::combine(sum[c], Op::combine(Op::combine(a[c], b[c]), Op::combine(c4[c], d[c])));
      }
    } else {
      for (int64_t c = 0; c < width; ++c) sum[c] = Op::combine(sum[c], a[c]);
    }
    r += together;
    pending += together;
    if (pending >= flush_rows) flush(), restart(), pending = 0;
  }
  if (pending > 0) flush();
}

/// Pieces of rows x blocks of columns x outer kept positions; partial[(outer * pieces + piece) * columns + column].
template <class Op, class A, bool truth>
void reduce_columns(const ReducePlan& plan, Wide<A>* partial, int64_t pieces, int64_t rows_per_piece) {
  Walk<2> outer = plan.kept;
  int64_t step[2];
  const int64_t columns = outer.pop(step);
  const int64_t blocks = (columns + column_block - 1) / column_block;
  const int64_t grain = rows_per_chunk(rows_per_piece * (columns < column_block ? columns : column_block));
  parallel_for(outer.count * pieces * blocks, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t block = t % blocks, piece = t / blocks % pieces, position = t / blocks / pieces;
      const Cursor<2> at(outer, position);
      const int64_t first_row = piece * rows_per_piece, first = block * column_block;
      const int64_t rows =
          plan.reduced.count - first_row < rows_per_piece ? plan.reduced.count - first_row : rows_per_piece;
      const int64_t width = columns - first < column_block ? columns - first : column_block;
      reduce_columns_block<Op, A, truth>(plan.data + at.offset[1] + first * step[1], plan.reduced, first_row, rows,
                                         step[1], width, plan.dtype,
                                         partial + (position * pieces + piece) * columns + first);
    }
  });
}

/// Combines `pieces` consecutive groups of `width` results in order, and stores them.
template <class Op, class A>
void finish(const ReducePlan& plan, Wide<A>* partial, int64_t pieces, int64_t width, double divisor) {
  Walk<2> outer = plan.kept;
  int64_t step[2];
  const int64_t inner = outer.pop(step);
  const int64_t total = plan.kept.count;
  for (int64_t group = 0; pieces > 1 && group < total / width; ++group) {
    Wide<A>* to = partial + group * width;
    const Wide<A>* from = partial + group * pieces * width;
    for (int64_t c = 0; c < width; ++c) {
      Wide<A> result = from[c];
      for (int64_t p = 1; p < pieces; ++p) result = Op::combine(result, from[p * width + c]);
      to[c] = result;
    }
  }
  if (divisor >= 0) {
    if constexpr (is_float<A>)
      for (int64_t i = 0; i < total; ++i) partial[i] /= divisor;
  }
  Cursor<2> at(outer, 0);
  for (int64_t i = 0; i < total; i += inner, at.next()) {
    store_line(plan.out + at.offset[0], step[0], plan.out_dtype, static_cast<const Wide<A>*>(partial) + i, inner);
  }
}

/// The columns of a dense matrix with few of them: several rows are seen as one, so that registers are filled.
template <class Op, class A, bool truth>
void reduce_narrow(const ReducePlan& plan, int64_t rows_in_one, double divisor) {
  const int64_t columns = plan.kept.count, rows = plan.reduced.count / rows_in_one,
                rest = plan.reduced.count % rows_in_one;
  ReducePlan wide = plan;
  wide.kept.sizes[0] = wide.kept.count = columns * rows_in_one;
  wide.reduced.sizes[0] = wide.reduced.count = rows;
  wide.reduced.strides[0][0] *= rows_in_one;
  const ColumnPieces cut(wide, column_block, block_elements);
  const Scratch memory((cut.pieces * wide.kept.count + columns) * (int64_t)sizeof(Wide<A>));
  Wide<A>* const partial = memory.as<Wide<A>>();
  reduce_columns<Op, A, truth>(wide, partial, cut.pieces, cut.rows);
  reduce_columns_block<Op, A, truth>(plan.data, plan.reduced, rows * rows_in_one, rest, plan.kept.strides[1][0],
                                     columns, plan.dtype, partial + cut.pieces * wide.kept.count);
  finish<Op, A>(plan, partial, cut.pieces * rows_in_one + 1, columns, divisor);
}

template <class Op, class A, bool truth>
void reduce_with(const ReducePlan& plan, double divisor) {
  if (!plan.by_columns) {
    Walk<1> outer = plan.reduced;
    int64_t step[1];
    const int64_t n = outer.pop(step);
    const int64_t pieces = LineBlocks(outer.count, n, block_elements).count();
    const Scratch partial(plan.kept.count * pieces * (int64_t)sizeof(Wide<A>));
    reduce_lines<Op, A, truth>(plan, partial.as<Wide<A>>());
    return finish<Op, A>(plan, partial.as<Wide<A>>(), pieces, 1, divisor);
  }
  const int64_t rows_in_one = plan.rows_in_one();
  if (rows_in_one > 1) return reduce_narrow<Op, A, truth>(plan, rows_in_one, divisor);
  const ColumnPieces cut(plan, column_block, block_elements);
  const Scratch partial(plan.kept.count * cut.pieces * (int64_t)sizeof(Wide<A>));
  reduce_columns<Op, A, truth>(plan, partial.as<Wide<A>>(), cut.pieces, cut.rows);
  finish<Op, A>(plan, partial.as<Wide<A>>(), cut.pieces, cut.columns, divisor);
}

template <class A>
void reduce_numbers(Reduction reduction, const ReducePlan& plan) {
  switch (reduction) {
    case Reduction::sum:
      return reduce_with<Sum, A, false>(plan, -1);
    case Reduction::mean:
      return reduce_with<Sum, A, false>(plan, static_cast<double>(plan.reduced.count));
    case Reduction::prod:
      return reduce_with<Product, A, false>(plan, -1);
    case Reduction::max:
      return reduce_with<Largest, A, false>(plan, -1);
    default:
      return reduce_with<Smallest, A, false>(plan, -1);
  }
}

void reduce_any(Reduction reduction, const ReducePlan& plan) {
  if (reduction == Reduction::any) {
    // Over nothing: false, which as a maximum of truths is 0.
    if (plan.reduced.count == 0) return reduce_with<Sum, int32_t, true>(plan, -1);
    return reduce_with<Largest, int32_t, true>(plan, -1);
  }
  if (reduction == Reduction::all) return reduce_with<Smallest, int32_t, true>(plan, -1);
  const bool extreme = reduction == Reduction::max || reduction == Reduction::min;
  const DType t = extreme ? plan.dtype : (is_floating(plan.out_dtype) ? plan.out_dtype : plan.dtype);
  if (t == DType::f64) return reduce_numbers<double>(reduction, plan);
  if (is_floating(t)) return reduce_numbers<float>(reduction, plan);
  if (!extreme || t == DType::i64) return reduce_numbers<int64_t>(reduction, plan);
  return reduction == Reduction::max ? reduce_with<Largest, int32_t, false>(plan, -1)
                                     : reduce_with<Smallest, int32_t, false>(plan, -1);
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
