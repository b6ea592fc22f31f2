// Variance: chunks that fit the cache are read twice, for their mean and for the squared deviations from it; chunks are
// combined in double by Chan's formula, in order.
#include <weft/backends/cpu/simd_targets.hpp>
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/variance.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <weft/backends/cpu/kernels.hpp>
#include <weft/backends/cpu/lanes-inl.hpp>
#include <weft/backends/cpu/lines.hpp>
#include <weft/backends/cpu/reduce_plan.hpp>
#include <weft/backends/cpu/thread_pool.hpp>

#ifndef WEFT_CPU_VARIANCE_KERNEL
#define WEFT_CPU_VARIANCE_KERNEL
namespace weft::cpu {
namespace {
constexpr int64_t column_block = 256;

inline void combine(Moments& into, Moments more) {
  if (more.count == 0) return;
  if (into.count == 0) {
    into = more;
    return;
  }
  const double count = into.count + more.count, delta = more.mean - into.mean;
  into.mean += delta * (more.count / count);
  into.squares += more.squares + delta * delta * (into.count * (more.count / count));
  into.count = count;
}

/// What is computed with one SIMD target; how it is walked, needs none.
struct VarianceKernel {
  /// Adds n elements, `step` bytes apart.
  void (*line)(Moments& into, const char* x, int64_t step, int64_t n, DType dtype);
  /// The moments of up to column_block columns of the rows [first, first + count).
  void (*columns)(Moments* to, const char* x, const Walk<1>& rows, int64_t first, int64_t count, int64_t step,
                  int64_t width, DType dtype);
};
}  // namespace
}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class A>
Moments moments_of_chunk(const A* x, int64_t n) {
  using L = Lanes<A>;
  const double count = static_cast<double>(n);
  const double mean =
      sum_lines<A>(n, [&](int64_t i, int64_t left) HWY_ATTR { return L::load(x + i, left, A(0)); }) / count;
  const A center = static_cast<A>(mean);
  const Deviations d = deviations(x, n, center);
  return {count, static_cast<double>(center) + d.sum / count, d.squares - d.sum * (d.sum / count)};
}

template <class A>
void add_line(Moments& into, const char* x, int64_t step, int64_t n, DType dtype) {
  alignas(64) A scratch[chunk_size];
  for (int64_t j = 0; j < n; j += chunk_size) {
    const int64_t size = n - j < chunk_size ? n - j : chunk_size;
    combine(into, moments_of_chunk(read_line(scratch, x + j * step, step, size, dtype), size));
  }
}

/// Rows that are read twice while they are in the cache.
constexpr int64_t rows_together = 64;

template <class A>
struct ColumnMoments {
  alignas(64) A scratch[column_block];
  alignas(64) A sum[column_block];
  alignas(64) A center[column_block];
  alignas(64) A deviations_squared[column_block];
  alignas(64) double mean[column_block];
  alignas(64) double squares[column_block];
};

/// Adds rows [first, first + count), count <= rows_together, of `width` columns to moments of `seen` rows.
template <class A>
void add_rows(ColumnMoments<A>& m, const char* x, const Walk<1>& rows, int64_t first, int64_t count, int64_t seen,
              int64_t step, int64_t width, DType dtype) {
  using L = Lanes<A>;
  for (int64_t c = 0; c < column_block; ++c) m.sum[c] = 0;
  Cursor<1> at(rows, first);
  for (int64_t r = 0; r < count; ++r, at.next()) {
    const A* row = read_line(m.scratch, x + at.offset[0], step, width, dtype);
    each_step(width, [&](int64_t c, int64_t left)
                         HWY_ATTR { (L::load(m.sum + c) + L::load(row + c, left, A(0))).store(m.sum + c); });
  }
  const double here = static_cast<double>(count), before = static_cast<double>(seen), all = before + here;
  for (int64_t c = 0; c < width; ++c) m.center[c] = static_cast<A>(static_cast<double>(m.sum[c]) / here), m.sum[c] = 0;
  for (int64_t c = 0; c < column_block; ++c) m.deviations_squared[c] = 0;
  Cursor<1> again(rows, first);
  for (int64_t r = 0; r < count; ++r, again.next()) {
    const A* row = read_line(m.scratch, x + again.offset[0], step, width, dtype);
    each_step(width, [&](int64_t c, int64_t left) HWY_ATTR {
      const L d = L::load(row + c, left, A(0)) - L::load(m.center + c);
      (L::load(m.sum + c) + d).store(m.sum + c);
      (L::load(m.deviations_squared + c) + d * d).store(m.deviations_squared + c);
    });
  }
  for (int64_t c = 0; c < width; ++c) {
    const double sum = static_cast<double>(m.sum[c]);
    const double mean = static_cast<double>(m.center[c]) + sum / here, delta = mean - m.mean[c];
    m.mean[c] += delta * (here / all);
    m.squares[c] +=
        static_cast<double>(m.deviations_squared[c]) - sum * (sum / here) + delta * delta * (before * (here / all));
  }
}

template <class A>
void column_moments(Moments* to, const char* x, const Walk<1>& rows, int64_t first, int64_t count, int64_t step,
                    int64_t width, DType dtype) {
  ColumnMoments<A> m;
  for (int64_t c = 0; c < column_block; ++c) m.mean[c] = 0, m.squares[c] = 0, m.center[c] = 0;
  for (int64_t r = 0; r < count; r += rows_together) {
    const int64_t together = count - r < rows_together ? count - r : rows_together;
    add_rows(m, x, rows, first + r, together, r, step, width, dtype);
  }
  for (int64_t c = 0; c < width; ++c) to[c] = {static_cast<double>(count), m.mean[c], m.squares[c]};
}

VarianceKernel kernel_for(DType dtype) {
  if (dtype == DType::f64) return {add_line<double>, column_moments<double>};
  return {add_line<float>, column_moments<float>};
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
namespace {
HWY_EXPORT(kernel_for);

constexpr int64_t block_elements = 65536;

void variance_lines(const VarianceKernel& kernel, const ReducePlan& plan, Moments* partial) {
  Walk<1> outer = plan.reduced;
  int64_t step[1];
  const int64_t n = outer.pop(step);
  const LineBlocks blocks(outer.count, n, block_elements);
  const int64_t per_output = blocks.count();
  parallel_for(plan.kept.count * per_output, rows_per_chunk(blocks.elements()), [&](int64_t begin, int64_t end) {
    Cursor<2> kept(plan.kept, begin / per_output);
    for (int64_t t = begin; t < end; ++t) {
      const LineBlocks::Block block = blocks.at(t % per_output);
      Moments result{0, 0, 0};
      Cursor<1> line(outer, block.first_line);
      for (int64_t i = 0; i < block.lines; ++i, line.next()) {
        const char* x = plan.data + kept.offset[1] + line.offset[0] + block.first * step[0];
        kernel.line(result, x, step[0], block.size, plan.dtype);
      }
      partial[t] = result;
      if ((t + 1) % per_output == 0) kept.next();
    }
  });
}

void variance_columns(const VarianceKernel& kernel, const ReducePlan& plan, Moments* partial, int64_t pieces,
                      int64_t rows_per_piece) {
  Walk<2> outer = plan.kept;
  int64_t step[2];
  const int64_t columns = outer.pop(step), all_rows = plan.reduced.count;
  const int64_t blocks = (columns + column_block - 1) / column_block;
  const int64_t grain = rows_per_chunk(rows_per_piece * (columns < column_block ? columns : column_block));
  parallel_for(outer.count * pieces * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t block = t % blocks, piece = t / blocks % pieces, position = t / blocks / pieces;
      const Cursor<2> at(outer, position);
      const int64_t first = block * column_block, first_row = piece * rows_per_piece;
      const int64_t rows = all_rows - first_row < rows_per_piece ? all_rows - first_row : rows_per_piece;
      const int64_t width = columns - first < column_block ? columns - first : column_block;
      kernel.columns(partial + (position * pieces + piece) * columns + first,
                     plan.data + at.offset[1] + first * step[1], plan.reduced, first_row, rows, step[1], width,
                     plan.dtype);
    }
  });
}

void finish(const ReducePlan& plan, const Moments* partial, int64_t pieces, int64_t width, double correction) {
  const double count = static_cast<double>(plan.reduced.count);
  const double divisor = count - correction > 0 ? count - correction : 0;
  Cursor<2> at(plan.kept, 0);
  for (int64_t i = 0; i < plan.kept.count; ++i, at.next()) {
    const Moments* from = partial + i / width * pieces * width + i % width;
    Moments result = from[0];
    for (int64_t p = 1; p < pieces; ++p) combine(result, from[p * width]);
    const double value = result.squares / divisor;
    store_line(plan.out + at.offset[0], 0, plan.out_dtype, &value, 1);
  }
}
}  // namespace

void variance(const View& out, const View& in, double correction) {
  if (!is_computable_float(in.layout.dtype)) unsupported("variance", in);
  if (!is_computable_float(out.layout.dtype)) unsupported("variance", out);
  if (out.layout.numel == 0) return;
  const ReducePlan plan(out, in);
  const VarianceKernel kernel = HWY_DYNAMIC_DISPATCH(kernel_for)(plan.dtype);
  if (!plan.by_columns) {
    Walk<1> outer = plan.reduced;
    int64_t step[1];
    const int64_t n = outer.pop(step);
    const int64_t pieces = LineBlocks(outer.count, n, block_elements).count();
    const Scratch partial(plan.kept.count * pieces * (int64_t)sizeof(Moments));
    variance_lines(kernel, plan, partial.as<Moments>());
    return finish(plan, partial.as<Moments>(), pieces, 1, correction);
  }
  const ColumnPieces cut(plan, column_block, block_elements);
  const Scratch partial(plan.kept.count * cut.pieces * (int64_t)sizeof(Moments));
  variance_columns(kernel, plan, partial.as<Moments>(), cut.pieces, cut.rows);
  finish(plan, partial.as<Moments>(), cut.pieces, cut.columns, correction);
}

}  // namespace weft::cpu
#endif
