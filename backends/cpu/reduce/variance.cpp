// Variance: chunks that fit the cache are read twice, for their mean and for the squared deviations from it; chunks are
// combined in double by Chan's formula, in order.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/reduce/variance.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../lines.hpp"
#include "reduce_plan.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

void combine(Moments& into, Moments more) {
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
void add_lines(Moments* into, int64_t count, const char* x, int64_t line_step, int64_t step, int64_t n,
               ReducedElements elements) {
  alignas(64) A scratch[chunk_size];
  for (int64_t i = 0; i < count; ++i, x += line_step) {
    for (int64_t first = 0; first < n; first += chunk_size) {
      const int64_t size = n - first < chunk_size ? n - first : chunk_size;
      combine(into[i], moments_of_chunk(read_line(scratch, x + first * step, step, size, elements.dtype), size));
    }
  }
}

constexpr int64_t column_block = 256;
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
void column_moments(const char* x, const Walk<1>& rows, int64_t first, int64_t count, int64_t step, int64_t width,
                    ReducedElements elements, Moments* result) {
  ColumnMoments<A> m;
  for (int64_t c = 0; c < column_block; ++c) m.mean[c] = 0, m.squares[c] = 0, m.center[c] = 0;
  for (int64_t r = 0; r < count; r += rows_together) {
    const int64_t together = count - r < rows_together ? count - r : rows_together;
    add_rows(m, x, rows, first + r, together, r, step, width, elements.dtype);
  }
  for (int64_t c = 0; c < width; ++c) result[c] = {static_cast<double>(count), m.mean[c], m.squares[c]};
}

void finish(const ReducePlan& plan, Moments* partial, int64_t pieces, int64_t width, double divisor) {
  Cursor<2> at(plan.kept, 0);
  for (int64_t i = 0; i < plan.kept.count; ++i, at.next()) {
    const Moments* from = partial + i / width * pieces * width + i % width;
    Moments result = from[0];
    for (int64_t p = 1; p < pieces; ++p) combine(result, from[p * width]);
    const double value = result.squares / divisor;
    store_line(plan.out + at.offset[0], 0, plan.out_dtype, &value, 1);
  }
}

template <class A>
ReduceKernel<Moments> kernel() {
  return {add_lines<A>, column_moments<A>, finish, Moments{0, 0, 0}, column_block, false};
}

void variance_any(const ReducePlan& plan, double divisor) {
  reduce_by(plan.dtype == DType::f64 ? kernel<double>() : kernel<float>(), plan, false, divisor);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(variance_any);

void variance(const View& out, const View& in, double correction) {
  if (!is_computable_float(in.layout.dtype)) unsupported("variance", in);
  if (!is_computable_float(out.layout.dtype)) unsupported("variance", out);
  if (out.layout.numel == 0) return;
  const ReducePlan plan(out, in);
  const double left = static_cast<double>(plan.reduced.count) - correction;
  HWY_DYNAMIC_DISPATCH(variance_any)(plan, left > 0 ? left : 0);
}

}  // namespace weft::cpu
#endif
