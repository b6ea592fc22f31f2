#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/reduce/scan.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include "columns.hpp"
#include "../kernels.hpp"
#include "../lines.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

/// The carry of a scan. Integers wrap.
struct Plus {
  static constexpr int start = 0;
  template <class Sum, class A>
  static HWY_INLINE Sum of(Sum a, A b) {
    if constexpr (std::is_integral_v<Sum>) return static_cast<Sum>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else return a + static_cast<Sum>(b);
  }
};
struct Times {
  static constexpr int start = 1;
  template <class Product, class A>
  static HWY_INLINE Product of(Product a, A b) {
    if constexpr (std::is_integral_v<Product>) {
      return static_cast<Product>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * static_cast<Product>(b);
    }
  }
};
/// Products of a few doubles may leave the range where those of all so far do not.
template <class Combine, class A>
constexpr bool groups = !(std::is_same_v<Combine, Times> && std::is_same_v<A, double>);

constexpr int64_t chunk_size = 2048;
constexpr int64_t column_block = 2048;

/// One line, in chunks; a reversed scan walks the line from its end with negative steps.
template <class Combine, class A, class Sum>
void scan_line(char* to, int64_t out_step, DType out_type, const char* from, int64_t in_step, DType in_type, int64_t n,
               bool exclusive) {
  alignas(64) A scratch[chunk_size], computed[chunk_size];
  Sum sum = Combine::start;
  for (int64_t i = 0; i < n; i += chunk_size) {
    const int64_t size = n - i < chunk_size ? n - i : chunk_size;
    const A* x = read_line(scratch, from + i * in_step, in_step, size, in_type);
    char* const y_line = to + i * out_step;
    A* const y = write_line(computed, y_line, out_step, size, out_type);
    if (exclusive) {
      for (int64_t j = 0; j < size; ++j) {
        const A next = x[j];
        y[j] = static_cast<A>(sum);
        sum = Combine::of(sum, next);
      }
    } else {
      int64_t j = 0;
      for (; groups<Combine, A> && j + 4 <= size; j += 4) {  // one step in four waits for the one before
        const Sum a = static_cast<Sum>(x[j]), ab = Combine::of(a, x[j + 1]);
        const Sum abc = Combine::of(ab, x[j + 2]), cd = Combine::of(static_cast<Sum>(x[j + 2]), x[j + 3]),
                  abcd = Combine::of(ab, cd);
        y[j] = static_cast<A>(Combine::of(sum, a));
        y[j + 1] = static_cast<A>(Combine::of(sum, ab));
        y[j + 2] = static_cast<A>(Combine::of(sum, abc));
        sum = Combine::of(sum, abcd);
        y[j + 3] = static_cast<A>(sum);
      }
      for (; j < size; ++j) {
        sum = Combine::of(sum, x[j]);
        y[j] = static_cast<A>(sum);
      }
    }
    finish_line(y, y_line, out_step, size, out_type);
  }
}

struct ColumnScan {
  char* to;
  const char* from;
  int64_t rows, width, out_row, in_row, out_step, in_step;
  DType out_type, in_type;
};

template <class Combine, class A, class Sum>
void scan_columns(const ColumnScan& at, bool exclusive) {
  alignas(64) A scratch[column_block], computed[column_block];
  alignas(64) Sum sum[column_block];
  for (int64_t c = 0; c < at.width; ++c) sum[c] = Combine::start;
  for (int64_t r = 0; r < at.rows; ++r) {
    const A* x = read_line(scratch, at.from + r * at.in_row, at.in_step, at.width, at.in_type);
    char* const y_line = at.to + r * at.out_row;
    A* const y = write_line(computed, y_line, at.out_step, at.width, at.out_type);
    if (exclusive) {
#pragma GCC ivdep
      for (int64_t c = 0; c < at.width; ++c) {
        const A next = x[c];
        y[c] = static_cast<A>(sum[c]);
        sum[c] = Combine::of(sum[c], next);
      }
    } else {
#pragma GCC ivdep
      for (int64_t c = 0; c < at.width; ++c) {
        sum[c] = Combine::of(sum[c], x[c]);
        y[c] = static_cast<A>(sum[c]);
      }
    }
    finish_line(y, y_line, at.out_step, at.width, at.out_type);
  }
}

template <class Combine, class A, class Sum>
void scan(const View& out, const View& in, int dim, bool exclusive, bool reverse) {
  const int64_t n = in.layout.sizes[dim], sign = reverse ? -1 : 1;
  const int64_t out_stride = out.layout.strides[dim] * sign, in_stride = in.layout.strides[dim] * sign;
  char* const to = bytes(out) - (reverse ? (n - 1) * out_stride : 0);
  const char* const from = bytes(in) - (reverse ? (n - 1) * in_stride : 0);
  const int inner = column_dim(in.layout, dim);
  if (inner < 0) {
    const Layout* const layouts[] = {&in.layout, &out.layout};
    const Walk<2> walk = walk_of(layouts, 0, in.layout.rank, dim);
    parallel_for(walk.count, rows_per_chunk(n), [&](int64_t begin, int64_t end) HWY_ATTR {
      Cursor<2> at(walk, begin);
      for (int64_t row = begin; row < end; ++row, at.next()) {
        scan_line<Combine, A, Sum>(to + at.offset[1], out_stride, out.layout.dtype, from + at.offset[0], in_stride,
                                   in.layout.dtype, n, exclusive);
      }
    });
    return;
  }
  Walk<2> walk;
  for (int d = 0; d < in.layout.rank; ++d) {
    if (d != dim && d != inner) walk.push(in.layout.sizes[d], {in.layout.strides[d], out.layout.strides[d]});
  }
  const int64_t columns = in.layout.sizes[inner], width_of_block = block_width(columns, walk.count, column_block);
  const int64_t blocks = (columns + width_of_block - 1) / width_of_block;
  const int64_t out_step = out.layout.strides[inner], in_step = in.layout.strides[inner];
  parallel_for(walk.count * blocks, rows_per_chunk(n * width_of_block), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const Cursor<2> at(walk, t / blocks);
      const int64_t first = t % blocks * width_of_block;
      const int64_t width = columns - first < width_of_block ? columns - first : width_of_block;
      scan_columns<Combine, A, Sum>(
          {to + at.offset[1] + first * out_step, from + at.offset[0] + first * in_step, n, width, out_stride, in_stride,
           out_step, in_step, out.layout.dtype, in.layout.dtype},
          exclusive);
    }
  });
}

template <class Combine>
void scan_any(const View& out, const View& in, int dim, bool exclusive, bool reverse) {
  const DType t = out.layout.dtype;
  if (t == DType::f64) scan<Combine, double, double>(out, in, dim, exclusive, reverse);
  else if (t == DType::f32) scan<Combine, float, double>(out, in, dim, exclusive, reverse);
  else if (is_floating(t)) scan<Combine, float, float>(out, in, dim, exclusive, reverse);
  else scan<Combine, int64_t, int64_t>(out, in, dim, exclusive, reverse);
}
void sums_any(const View& out, const View& in, int dim, bool exclusive, bool reverse) {
  scan_any<Plus>(out, in, dim, exclusive, reverse);
}
void products_any(const View& out, const View& in, int dim, bool exclusive, bool reverse) {
  scan_any<Times>(out, in, dim, exclusive, reverse);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(sums_any);
HWY_EXPORT(products_any);

namespace {
void check(const char* kernel, const View& out, const View& in) {
  if (!is_computable(in.layout.dtype)) unsupported(kernel, in);
  if (!is_computable(out.layout.dtype)) unsupported(kernel, out);
}
}  // namespace

void cumsum(const View& out, const View& in, int dim, bool exclusive, bool reverse) {
  check("cumsum", out, in);
  if (out.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(sums_any)(at_least_1d(out), at_least_1d(in), dim, exclusive, reverse);
}
void running_product(const View& out, const View& x, int dim) {
  check("running_product", out, x);
  if (out.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(products_any)(at_least_1d(out), at_least_1d(x), dim, false, false);
}

}  // namespace weft::cpu
#endif
