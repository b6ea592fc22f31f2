// Strided operands as lines of numbers: iteration over the other dimensions, and conversion of a line to and from
// contiguous numbers of the compute type.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "workspace.hpp"
#include "../dispatch.hpp"
#include "../../tensor/dtype.hpp"
#include "../../tensor/layout.hpp"
#include "../../tensor/view.hpp"

namespace weft::cpu {

/// Dimensions shared by N operands, outermost first, neighbours merged where every operand allows it.
template <int N>
struct Walk {
  int rank = 0;
  int64_t count = 1;
  int64_t sizes[max_rank];
  int64_t strides[N][max_rank];

  void push(int64_t size, const int64_t (&steps)[N]) {
    count *= size;
    if (size == 1) return;
    bool merges = rank > 0;
    for (int k = 0; merges && k < N; ++k) merges = strides[k][rank - 1] == steps[k] * size;
    if (merges) sizes[rank - 1] *= size;
    if (!merges) sizes[rank++] = size;
    for (int k = 0; k < N; ++k) strides[k][rank - 1] = steps[k];
  }
  /// Takes the innermost dimension away and returns its size; size 1 and stride 0 where there is none.
  int64_t pop(int64_t (&steps)[N]) {
    if (rank == 0) {
      for (int k = 0; k < N; ++k) steps[k] = 0;
      return 1;
    }
    --rank;
    for (int k = 0; k < N; ++k) steps[k] = strides[k][rank];
    count = sizes[rank] == 0 ? 0 : count / sizes[rank];
    return sizes[rank];
  }
};

/// The dimensions [begin, end) except `skip` of layouts of equal rank; the sizes are the first layout's.
template <int N>
Walk<N> walk_of(const Layout* const (&layouts)[N], int begin, int end, int skip = -1) {
  Walk<N> walk;
  for (int d = begin; d < end; ++d) {
    if (d == skip) continue;
    int64_t steps[N];
    for (int k = 0; k < N; ++k) steps[k] = layouts[k]->strides[d];
    walk.push(layouts[0]->sizes[d], steps);
  }
  return walk;
}

/// The byte offsets of N operands at successive positions of a walk.
template <int N>
class Cursor {
 public:
  Cursor(const Walk<N>& walk, int64_t position) : walk_(walk) {
    for (int k = 0; k < N; ++k) offset[k] = 0;
    for (int d = walk.rank - 1; d >= 0; --d) {
      index_[d] = 0;
      if (position == 0 || walk.count == 0) continue;
      index_[d] = position % walk.sizes[d];
      position /= walk.sizes[d];
      for (int k = 0; k < N; ++k) offset[k] += index_[d] * walk.strides[k][d];
    }
  }
  void next() {
    for (int d = walk_.rank - 1; d >= 0; --d) {
      for (int k = 0; k < N; ++k) offset[k] += walk_.strides[k][d];
      if (++index_[d] < walk_.sizes[d]) return;
      for (int k = 0; k < N; ++k) offset[k] -= walk_.sizes[d] * walk_.strides[k][d];
      index_[d] = 0;
    }
  }
  int64_t offset[N];

 private:
  const Walk<N>& walk_;
  int64_t index_[max_rank];
};

/// n elements of `dtype`, `stride` bytes apart, as contiguous numbers: float, double, int32_t, int64_t or uint64_t.
template <class A>
void load_line(A* to, const char* from, int64_t stride, int64_t n, DType dtype);
/// The inverse; floats round to nearest even.
template <class A>
void store_line(char* to, int64_t stride, DType dtype, const A* from, int64_t n);
/// 1 where an element is not zero (NaN is not), else 0.
void load_truth(int32_t* to, const char* from, int64_t stride, int64_t n, DType dtype);

/// The line itself where it already is contiguous and of type A, else a copy of it in `scratch`.
template <class A>
const A* read_line(A* scratch, const char* from, int64_t stride, int64_t n, DType dtype) {
  if (dtype == dtype_of<A>() && (stride == (int64_t)sizeof(A) || n == 1)) return reinterpret_cast<const A*>(from);
  load_line(scratch, from, stride, n, dtype);
  return scratch;
}
/// Where to compute a line that `finish_line` then stores: the line itself where it is contiguous and of type A.
template <class A>
A* write_line(A* scratch, char* to, int64_t stride, int64_t n, DType dtype) {
  if (dtype == dtype_of<A>() && (stride == (int64_t)sizeof(A) || n == 1)) return reinterpret_cast<A*>(to);
  return scratch;
}
template <class A>
void finish_line(const A* computed, char* to, int64_t stride, int64_t n, DType dtype) {
  if (static_cast<const void*>(computed) != to) store_line(to, stride, dtype, computed, n);
}

/// Whether lines along `dim` must be copied to be computed with as As: they have gaps or another type.
template <class A>
bool needs_scratch(const Layout& layout, int dim) {
  return layout.dtype != dtype_of<A>() || (layout.strides[dim] != (int64_t)sizeof(A) && layout.sizes[dim] > 1);
}

/// The number of rows of n elements that make a chunk large enough for a thread.
inline int64_t rows_per_chunk(int64_t n, int64_t elements = 32768) {
  return n >= elements ? 1 : elements / (n > 0 ? n : 1);
}

/// The dtypes that kernels of lines compute with: bool, integers, f16, bf16, f32, f64.
constexpr bool is_computable(DType t) { return !is_storage_only(t) && !is_complex(t); }
/// Calls body(T{}) with the element type, or raises DTypeError where it cannot be computed with.
template <class F>
void with_computable(const char* kernel, const View& view, F&& body) {
  visit_dtype(view.layout.dtype, [&]<class T>() {
    if constexpr (is_computable(dtype_of<T>())) body(T{});
    else unsupported(kernel, view);
  });
}

constexpr bool is_computable_float(DType t) { return t >= DType::f16 && t <= DType::f64; }

/// A contiguous dimension other than `dim`, where working on rows along it is faster than on lines along `dim`; else
/// -1.
int column_dim(const Layout& layout, int dim);

inline char* bytes(const View& view) { return static_cast<char*>(view.data); }

}  // namespace weft::cpu
