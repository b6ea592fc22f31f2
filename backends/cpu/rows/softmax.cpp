#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/rows/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../lines.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

/// Sixteen numbers into the cache, wherever they are.
template <class A>
HWY_INLINE void prefetch(const A* x) {
  for (size_t b = 0; b < lane_count * sizeof(A); b += 64) __builtin_prefetch(reinterpret_cast<const char*>(x) + b);
}

/// softmax_row for at most sixteen numbers, which stay in registers; the same bits.
template <class A>
HWY_INLINE void softmax_short_row(A* y, const A* x, int64_t n, bool logarithm) {
  using L = Lanes<A>;
  const L all = L::load(x, n, -infinity<A>);
  const L shifted = all - L(fold(all, [](auto a, auto b) HWY_ATTR { return larger(a, b); }));
  const L e = exp(shifted);
  const double sum = static_cast<double>(sum_of(e));
  if (logarithm) (shifted - L(static_cast<A>(std::log(sum)))).store(y, n);
  else (e * L(static_cast<A>(1 / sum))).store(y, n);
}

/// `next` is the row to be read next: it is prefetched while the exponentials are computed.
template <class A>
void softmax_row(A* y, const A* x, int64_t n, bool logarithm, const A* next) {
  using L = Lanes<A>;
  constexpr A none = -infinity<A>;
  if (n <= lane_count) return softmax_short_row(y, x, n, logarithm);
  const A largest = max_of_line(x, n);
  const L shift(largest);
  if (logarithm) {
    const double sum = sum_lines<A>(n, [&](int64_t i, int64_t left) HWY_ATTR {
      prefetch(next + i);
      return exp(L::load(x + i, left, none) - shift);
    });
    const L base(static_cast<A>(std::log(sum)));
    each_step(
        n, [&](int64_t i, int64_t left) HWY_ATTR { ((L::load(x + i, left, none) - shift) - base).store(y + i, left); });
    return;
  }
  const double sum = sum_lines<A>(n, [&](int64_t i, int64_t left) HWY_ATTR {
    prefetch(next + i);
    const L e = exp(L::load(x + i, left, none) - shift);
    e.store(y + i, left);
    return e;
  });
  const L scale(static_cast<A>(1 / sum));
  each_step(n, [&](int64_t i, int64_t left) HWY_ATTR { (L::load(y + i, left, A(0)) * scale).store(y + i, left); });
}

template <class A>
void softmax_gradient_row(A* dx, const A* g, const A* y, int64_t n, bool logarithm) {
  using L = Lanes<A>;
  if (logarithm) {
    const L sum(
        static_cast<A>(sum_lines<A>(n, [&](int64_t i, int64_t left) HWY_ATTR { return L::load(g + i, left, A(0)); })));
    each_step(n, [&](int64_t i, int64_t left) HWY_ATTR {
      (L::load(g + i, left, A(0)) - exp(L::load(y + i, left, A(0))) * sum).store(dx + i, left);
    });
    return;
  }
  const L dot(static_cast<A>(sum_lines<A>(
      n, [&](int64_t i, int64_t left) HWY_ATTR { return L::load(g + i, left, A(0)) * L::load(y + i, left, A(0)); })));
  each_step(n, [&](int64_t i, int64_t left)
                   HWY_ATTR { (L::load(y + i, left, A(0)) * (L::load(g + i, left, A(0)) - dot)).store(dx + i, left); });
}

/// Columns that are worked on together: the rows of a block stay in the cache between its passes.
constexpr int64_t block_width = 64;
/// Column sums are brought to double after so many additions in A.
constexpr int64_t flush_rows = 64;

/// One block: `width` neighbouring columns of `rows` rows of some operands.
template <int N>
struct Columns {
  int64_t rows, width;
  char* data[N];
  int64_t row_stride[N], step[N];
  DType dtype[N];
  template <class A>
  const A* read(A* scratch, int k, int64_t r) const {
    return read_line(scratch, data[k] + r * row_stride[k], step[k], width, dtype[k]);
  }
};

template <class A>
void softmax_columns(const Columns<2>& at, bool logarithm) {
  using L = Lanes<A>;
  constexpr A none = -infinity<A>;
  alignas(64) A largest[block_width], sum[block_width], scratch[block_width], computed[block_width];
  alignas(64) double total[block_width];
  for (int64_t c = 0; c < block_width; ++c) largest[c] = none, sum[c] = 0, total[c] = 0;
  for (int64_t r = 0; r < at.rows; ++r) {
    const A* x = at.read(scratch, 1, r);
    each_step(at.width, [&](int64_t c, int64_t left)
                            HWY_ATTR { larger(L::load(largest + c), L::load(x + c, left, none)).store(largest + c); });
  }
  for (int64_t r = 0; r < at.rows; ++r) {
    const A* x = at.read(scratch, 1, r);
    each_step(at.width, [&](int64_t c, int64_t left) HWY_ATTR {
      (L::load(sum + c) + exp(L::load(x + c, left, none) - L::load(largest + c))).store(sum + c);
    });
    if (r % flush_rows != flush_rows - 1 && r + 1 != at.rows) continue;
    for (int64_t c = 0; c < at.width; ++c) total[c] += static_cast<double>(sum[c]), sum[c] = 0;
  }
  A* const factor = sum;
  for (int64_t c = 0; c < at.width; ++c) factor[c] = static_cast<A>(logarithm ? std::log(total[c]) : 1 / total[c]);
  for (int64_t r = 0; r < at.rows; ++r) {
    const A* x = at.read(scratch, 1, r);
    char* to = at.data[0] + r * at.row_stride[0];
    A* y = write_line(computed, to, at.step[0], at.width, at.dtype[0]);
    each_step(at.width, [&](int64_t c, int64_t left) HWY_ATTR {
      const L shifted = L::load(x + c, left, none) - L::load(largest + c);
      const L by = L::load(factor + c);
      (logarithm ? shifted - by : exp(shifted) * by).store(y + c, left);
    });
    finish_line(y, to, at.step[0], at.width, at.dtype[0]);
  }
}

template <class A>
void softmax_gradient_columns(const Columns<3>& at, bool logarithm) {
  using L = Lanes<A>;
  alignas(64) A sum[block_width], scratch[block_width], scratch_y[block_width], computed[block_width];
  alignas(64) double total[block_width];
  for (int64_t c = 0; c < block_width; ++c) sum[c] = 0, total[c] = 0;
  for (int64_t r = 0; r < at.rows; ++r) {
    const A* g = at.read(scratch, 1, r);
    const A* y = logarithm ? g : at.read(scratch_y, 2, r);
    each_step(at.width, [&](int64_t c, int64_t left) HWY_ATTR {
      L term = L::load(g + c, left, A(0));
      if (!logarithm) term = term * L::load(y + c, left, A(0));
      (L::load(sum + c) + term).store(sum + c);
    });
    if (r % flush_rows != flush_rows - 1 && r + 1 != at.rows) continue;
    for (int64_t c = 0; c < at.width; ++c) total[c] += static_cast<double>(sum[c]), sum[c] = 0;
  }
  for (int64_t c = 0; c < at.width; ++c) sum[c] = static_cast<A>(total[c]);
  for (int64_t r = 0; r < at.rows; ++r) {
    const A* g = at.read(scratch, 1, r);
    const A* y = at.read(scratch_y, 2, r);
    char* to = at.data[0] + r * at.row_stride[0];
    A* dx = write_line(computed, to, at.step[0], at.width, at.dtype[0]);
    each_step(at.width, [&](int64_t c, int64_t left) HWY_ATTR {
      const L gs = L::load(g + c, left, A(0)), ys = L::load(y + c, left, A(0)), s = L::load(sum + c);
      (logarithm ? gs - exp(ys) * s : ys * (gs - s)).store(dx + c, left);
    });
    finish_line(dx, to, at.step[0], at.width, at.dtype[0]);
  }
}

template <int N, class F>
void for_each_column_block(const View* const (&views)[N], int dim, int inner, F&& body) {
  const Layout* layouts[N];
  for (int k = 0; k < N; ++k) layouts[k] = &views[k]->layout;
  Walk<N> walk;
  for (int d = 0; d < layouts[0]->rank; ++d) {
    if (d == dim || d == inner) continue;
    int64_t steps[N];
    for (int k = 0; k < N; ++k) steps[k] = layouts[k]->strides[d];
    walk.push(layouts[0]->sizes[d], steps);
  }
  const int64_t rows = layouts[0]->sizes[dim], columns = layouts[0]->sizes[inner];
  const int64_t blocks = (columns + block_width - 1) / block_width;
  parallel_for(walk.count * blocks, rows_per_chunk(rows * block_width), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const Cursor<N> cursor(walk, t / blocks);
      const int64_t first = t % blocks * block_width;
      Columns<N> at;
      at.rows = rows;
      at.width = columns - first < block_width ? columns - first : block_width;
      for (int k = 0; k < N; ++k) {
        at.step[k] = layouts[k]->strides[inner];
        at.data[k] = bytes(*views[k]) + cursor.offset[k] + first * at.step[k];
        at.row_stride[k] = layouts[k]->strides[dim];
        at.dtype[k] = layouts[k]->dtype;
      }
      body(at);
    }
  });
}

template <class A>
void softmax_lines(const View& out, const View& in, int dim, bool logarithm) {
  const int inner = column_dim(in.layout, dim);
  if (inner >= 0) {
    const View* const views[] = {&out, &in};
    for_each_column_block(views, dim, inner, [&](const Columns<2>& at) { softmax_columns<A>(at, logarithm); });
    return;
  }
  const Layout* const layouts[] = {&out.layout, &in.layout};
  const Walk<2> walk = walk_of(layouts, 0, out.layout.rank, dim);
  const int64_t n = out.layout.sizes[dim], out_step = out.layout.strides[dim], in_step = in.layout.strides[dim];
  const bool in_place = !needs_scratch<A>(in.layout, dim) && !needs_scratch<A>(out.layout, dim);
  parallel_for(walk.count, rows_per_chunk(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    Cursor<2> at(walk, begin);
    if (in_place) {
      for (int64_t row = begin; row < end; ++row) {
        A* const y = (A*)(bytes(out) + at.offset[0]);
        const A* const x = (const A*)(bytes(in) + at.offset[1]);
        at.next();
        softmax_row(y, x, n, logarithm, (const A*)(bytes(in) + at.offset[1]));
      }
      return;
    }
    const Scratch x_line(n * sizeof(A), needs_scratch<A>(in.layout, dim));
    const Scratch y_line(n * sizeof(A), needs_scratch<A>(out.layout, dim));
    for (int64_t row = begin; row < end; ++row, at.next()) {
      char* to = bytes(out) + at.offset[0];
      A* y = write_line(y_line.as<A>(), to, out_step, n, out.layout.dtype);
      const A* const x = read_line(x_line.as<A>(), bytes(in) + at.offset[1], in_step, n, in.layout.dtype);
      softmax_row(y, x, n, logarithm, x);
      finish_line(y, to, out_step, n, out.layout.dtype);
    }
  });
}

template <class A>
void softmax_gradient_lines(const View& out, const View& g, const View& y, int dim, bool logarithm) {
  const int inner = column_dim(y.layout, dim);
  if (inner >= 0) {
    const View* const views[] = {&out, &g, &y};
    for_each_column_block(views, dim, inner, [&](const Columns<3>& at) { softmax_gradient_columns<A>(at, logarithm); });
    return;
  }
  const Layout* const layouts[] = {&out.layout, &g.layout, &y.layout};
  const Walk<3> walk = walk_of(layouts, 0, out.layout.rank, dim);
  const int64_t n = out.layout.sizes[dim];
  const int64_t steps[] = {out.layout.strides[dim], g.layout.strides[dim], y.layout.strides[dim]};
  parallel_for(walk.count, rows_per_chunk(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    const Scratch out_line(n * sizeof(A), needs_scratch<A>(out.layout, dim));
    const Scratch g_line(n * sizeof(A), needs_scratch<A>(g.layout, dim));
    const Scratch y_line(n * sizeof(A), needs_scratch<A>(y.layout, dim));
    Cursor<3> at(walk, begin);
    for (int64_t row = begin; row < end; ++row, at.next()) {
      char* to = bytes(out) + at.offset[0];
      A* dx = write_line(out_line.as<A>(), to, steps[0], n, out.layout.dtype);
      const A* gs = read_line(g_line.as<A>(), bytes(g) + at.offset[1], steps[1], n, g.layout.dtype);
      const A* ys = read_line(y_line.as<A>(), bytes(y) + at.offset[2], steps[2], n, y.layout.dtype);
      softmax_gradient_row(dx, gs, ys, n, logarithm);
      finish_line(dx, to, steps[0], n, out.layout.dtype);
    }
  });
}

void softmax_any(const View& out, const View& in, int dim, bool logarithm) {
  if (out.layout.dtype == DType::f64) softmax_lines<double>(out, in, dim, logarithm);
  else softmax_lines<float>(out, in, dim, logarithm);
}
void softmax_gradient_any(const View& out, const View& g, const View& y, int dim, bool logarithm) {
  if (out.layout.dtype == DType::f64) softmax_gradient_lines<double>(out, g, y, dim, logarithm);
  else softmax_gradient_lines<float>(out, g, y, dim, logarithm);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(softmax_any);
HWY_EXPORT(softmax_gradient_any);

void softmax(const View& out, const View& in, int dim, bool logarithm) {
  if (!is_computable_float(in.layout.dtype)) unsupported("softmax", in);
  if (!is_computable_float(out.layout.dtype)) unsupported("softmax", out);
  if (out.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(softmax_any)(at_least_1d(out), at_least_1d(in), dim, logarithm);
}

void softmax_gradient(const View& out, const View& g, const View& y, int dim, bool logarithm) {
  for (const View* view : {&out, &g, &y}) {
    if (!is_computable_float(view->layout.dtype)) unsupported("softmax_gradient", *view);
  }
  if (out.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(softmax_gradient_any)(at_least_1d(out), at_least_1d(g), at_least_1d(y), dim, logarithm);
}

}  // namespace weft::cpu
#endif
