#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/reduce/arg_reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../lines.hpp"
#include "../thread_pool.hpp"

#ifndef WEFT_CPU_ARG_KERNEL
#define WEFT_CPU_ARG_KERNEL
namespace weft::cpu {
namespace {
constexpr int64_t column_block = 256;

/// The computation for one SIMD target; the traversal does not depend on it.
struct ArgKernel {
  int64_t (*line)(const char* from, int64_t step, int64_t n, DType dtype);
  /// The indices for up to column_block columns of `rows` rows.
  void (*columns)(char* out, int64_t out_step, const char* in, int64_t rows, int64_t row_stride, int64_t step,
                  int64_t width, DType dtype);
};
}  // namespace
}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <bool largest, class A>
HWY_INLINE bool beats(A challenger, A best) {
  const bool better = largest ? challenger > best : challenger < best;
  return better | ((challenger != challenger) & (best == best));
}

/// The extreme of up to chunk_size numbers, NaN if any is.
template <bool largest, class A>
HWY_INLINE A extreme(const A* x, int64_t n) {
  if constexpr (std::is_floating_point_v<A>) {
    using L = Lanes<A>;
    L best(x[0]);
    each_step(n, [&](int64_t i, int64_t left) HWY_ATTR {
      const L v = L::load(x + i, left, x[0]);
      best = largest ? larger(best, v) : smaller(best, v);
    });
    return fold(best, [](auto a, auto b) HWY_ATTR { return largest ? larger(a, b) : smaller(a, b); });
  } else {
    A best = x[0];
    for (int64_t i = 1; i < n; ++i) best = (largest ? x[i] > best : x[i] < best) ? x[i] : best;
    return best;
  }
}

template <class A>
HWY_INLINE int64_t first_index(const A* x, int64_t n, A wanted) {
  const bool nan = wanted != wanted;
  for (int64_t i = 0; i < n; i += lane_count) {
    const int64_t left = n - i < lane_count ? n - i : lane_count;
    int found = 0;
    for (int64_t j = 0; j < left; ++j) found |= nan ? x[i + j] != x[i + j] : x[i + j] == wanted;
    if (!found) continue;
    for (int64_t j = 0; j < left; ++j) {
      if (nan ? x[i + j] != x[i + j] : x[i + j] == wanted) return i + j;
    }
  }
  return 0;
}

/// The index of the extreme of n > 0 elements, `step` bytes apart.
template <bool largest, class A>
HWY_NOINLINE int64_t arg_line(const char* from, int64_t step, int64_t n, DType dtype) {
  alignas(64) A scratch[chunk_size];
  A best = A(0);
  int64_t index = -1;
  for (int64_t i = 0; i < n; i += chunk_size) {
    const int64_t size = n - i < chunk_size ? n - i : chunk_size;
    const A* x = read_line(scratch, from + i * step, step, size, dtype);
    const A here = extreme<largest>(x, size);
    if (index >= 0 && !beats<largest>(here, best)) continue;
    best = here;
    index = i + first_index(x, size, here);
  }
  return index;
}

template <bool largest, class A>
HWY_NOINLINE void arg_column_block(char* out, int64_t out_step, const char* in, int64_t rows, int64_t row_stride,
                                   int64_t step, int64_t width, DType dtype) {
  alignas(64) A scratch[column_block], best[column_block];
  alignas(64) int64_t index[column_block];
  const A* first = read_line(scratch, in, step, width, dtype);
  for (int64_t c = 0; c < width; ++c) best[c] = first[c], index[c] = 0;
  for (int64_t r = 1; r < rows; ++r) {
    const A* x = read_line(scratch, in + r * row_stride, step, width, dtype);
    for (int64_t c = 0; c < width; ++c) {
      const bool takes = beats<largest>(x[c], best[c]);
      best[c] = takes ? x[c] : best[c];
      index[c] = takes ? r : index[c];
    }
  }
  for (int64_t c = 0; c < width; ++c) *reinterpret_cast<int64_t*>(out + c * out_step) = index[c];
}

template <bool largest>
ArgKernel kernel_for(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {arg_line<largest, float>, arg_column_block<largest, float>};
    case DType::f64:
      return {arg_line<largest, double>, arg_column_block<largest, double>};
    case DType::u64:
      return {arg_line<largest, uint64_t>, arg_column_block<largest, uint64_t>};
    case DType::i64:
      return {arg_line<largest, int64_t>, arg_column_block<largest, int64_t>};
    default:
      return {arg_line<largest, int32_t>, arg_column_block<largest, int32_t>};
  }
}
ArgKernel kernel_of(ArgReduction reduction, DType dtype) {
  return reduction == ArgReduction::max ? kernel_for<true>(dtype) : kernel_for<false>(dtype);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
namespace {
HWY_EXPORT(kernel_of);

void arg_lines(const ArgKernel& kernel, const View& out, const View& in, int dim) {
  const Layout* const layouts[] = {&in.layout, &out.layout};
  const Walk<2> walk = walk_of(layouts, 0, in.layout.rank, dim);
  const int64_t n = in.layout.sizes[dim], step = in.layout.strides[dim];
  parallel_for(walk.count, rows_per_chunk(n), [&](int64_t begin, int64_t end) {
    Cursor<2> at(walk, begin);
    for (int64_t row = begin; row < end; ++row, at.next()) {
      *reinterpret_cast<int64_t*>(bytes(out) + at.offset[1]) =
          kernel.line(bytes(in) + at.offset[0], step, n, in.layout.dtype);
    }
  });
}

void arg_columns(const ArgKernel& kernel, const View& out, const View& in, int dim, int inner) {
  Walk<2> walk;
  for (int d = 0; d < in.layout.rank; ++d) {
    if (d != dim && d != inner) walk.push(in.layout.sizes[d], {in.layout.strides[d], out.layout.strides[d]});
  }
  const int64_t rows = in.layout.sizes[dim], columns = in.layout.sizes[inner], step = in.layout.strides[inner];
  const int64_t blocks = (columns + column_block - 1) / column_block;
  parallel_for(walk.count * blocks, rows_per_chunk(rows * column_block), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const Cursor<2> at(walk, t / blocks);
      const int64_t first = t % blocks * column_block;
      const int64_t width = columns - first < column_block ? columns - first : column_block;
      kernel.columns(bytes(out) + at.offset[1] + first * out.layout.strides[inner], out.layout.strides[inner],
                     bytes(in) + at.offset[0] + first * step, rows, in.layout.strides[dim], step, width,
                     in.layout.dtype);
    }
  });
}
}  // namespace

void arg_reduce(ArgReduction reduction, const View& out_view, const View& in_view, int dim) {
  if (!is_computable(in_view.layout.dtype)) unsupported("arg_reduce", in_view);
  if (out_view.layout.numel == 0) return;
  const View out = at_least_1d(out_view), in = at_least_1d(in_view);
  const ArgKernel kernel = HWY_DYNAMIC_DISPATCH(kernel_of)(reduction, compute_type(in.layout.dtype));
  const int inner = column_dim(in.layout, dim);
  if (inner >= 0) arg_columns(kernel, out, in, dim, inner);
  else arg_lines(kernel, out, in, dim);
}

}  // namespace weft::cpu
#endif
