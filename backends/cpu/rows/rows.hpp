// The rows of a matrix as lines of numbers, for kernels over rows.
#pragma once

#include "../lines.hpp"

namespace weft::cpu {

/// Rows of a [rows, n] view as numbers of type A, through a buffer where they are of another type or strided.
template <class A>
class Rows {
 public:
  Rows(const View& view, int64_t n)
      : data_(bytes(view)),
        row_(view.layout.strides[0]),
        step_(view.layout.strides[1]),
        dtype_(view.layout.dtype),
        n_(n),
        line_(n * (int64_t)sizeof(A), view.data != nullptr && needs_scratch<A>(view.layout, 1)) {}
  const A* read(int64_t row) const { return read_line(line_.template as<A>(), at(row), step_, n_, dtype_); }
  A* write(int64_t row) const { return write_line(line_.template as<A>(), at(row), step_, n_, dtype_); }
  void finish(const A* computed, int64_t row) const { finish_line(computed, at(row), step_, n_, dtype_); }

 private:
  char* at(int64_t row) const { return data_ + row * row_; }
  char* data_;
  int64_t row_, step_;
  DType dtype_;
  int64_t n_;
  Scratch line_;
};

}  // namespace weft::cpu
