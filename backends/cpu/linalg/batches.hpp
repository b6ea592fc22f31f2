// Matrices of a batch by number. Not public.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../thread_pool.hpp"
#include "../../../tensor/view.hpp"
#include "numbers.hpp"

namespace weft::cpu {

inline int64_t size(const View& v, int d) { return v.layout.sizes[d]; }

/// The first element of part b of a contiguous view.
template <class T>
T* part(const View& v, int64_t b) {
  return reinterpret_cast<T*>(static_cast<char*>(v.data) + b * v.layout.strides[0]);
}

/// Calls body(b) for every matrix; `work` is the cost of one, in multiply-adds.
template <class F>
void each_matrix(const View& of, double work, F&& body) {
  const int64_t chunk = std::max<int64_t>(1, static_cast<int64_t>((1 << 16) / std::max(work, 1.0)));
  parallel_for(size(of, 0), chunk, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) body(b);
  });
}
inline double cube(int64_t n) { return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

/// Runs f with a value of the views' type.
template <class F>
void with_type(const View& v, F&& f) {
  switch (v.layout.dtype) {
    case DType::f64:
      return f(double());
    case DType::c64:
      return f(complex64());
    case DType::c128:
      return f(complex128());
    default:
      return f(float());
  }
}

/// to[j, i] = from[i, j], both row-major.
template <class T>
void transpose(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int64_t tile = 16;
  for (int64_t i0 = 0; i0 < rows; i0 += tile) {
    for (int64_t j0 = 0; j0 < columns; j0 += tile) {
      for (int64_t i = i0; i < std::min(i0 + tile, rows); ++i) {
        for (int64_t j = j0; j < std::min(j0 + tile, columns); ++j) to[j * to_stride + i] = from[i * from_stride + j];
      }
    }
  }
}
/// to[j, i] = conj(from[i, j])
template <class T>
void adjoint(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  transpose(rows, columns, from, from_stride, to, to_stride);
  for (int64_t j = 0; j < columns; ++j) conjugate_all(rows, to + j * to_stride);
}
template <class T>
void copy_rows(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * from_stride, columns, to + i * to_stride);
}

}  // namespace weft::cpu
