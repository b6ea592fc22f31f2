// The last two dimensions of a view as a matrix, and copies of views that no GEMM can read.
#pragma once

#include <optional>
#include <utility>

#include "gemm.hpp"
#include "../workspace.hpp"
#include "../../../tensor/view.hpp"

namespace weft::cpu {

inline int64_t rows_of(const View& v) { return v.layout.sizes[v.layout.rank - 2]; }
inline int64_t columns_of(const View& v) { return v.layout.sizes[v.layout.rank - 1]; }
inline int64_t row_bytes(const View& v) { return v.layout.strides[v.layout.rank - 2]; }
inline int64_t column_bytes(const View& v) { return v.layout.strides[v.layout.rank - 1]; }

inline View transposed(View view) {
  std::swap(view.layout.sizes[view.layout.rank - 2], view.layout.sizes[view.layout.rank - 1]);
  std::swap(view.layout.strides[view.layout.rank - 2], view.layout.strides[view.layout.rank - 1]);
  return view;
}

/// The last two dimensions as a matrix with one unit stride and lines that do not overlap, else nothing.
template <class T>
std::optional<Matrix<T>> as_matrix(const View& view) {
  constexpr int64_t item = sizeof(T);
  const int64_t rows = rows_of(view), columns = columns_of(view);
  const int64_t row = row_bytes(view) / item, column = column_bytes(view) / item;
  const T* data = static_cast<const T*>(view.data);
  if (row * item != row_bytes(view) || column * item != column_bytes(view)) return {};
  if (columns == 1) {
    if (rows == 1 || row >= 1) return Matrix<T>{data, rows == 1 ? 1 : row, 1};
  } else if (rows == 1) {
    if (column == 1) return Matrix<T>{data, columns, 1};
    if (column >= 1) return Matrix<T>{data, 1, column};
  } else if ((column == 1 && row >= columns) || (row == 1 && column >= rows)) {
    return Matrix<T>{data, row, column};
  }
  return {};
}

/// Memory with the sizes of another view, contiguous but for batch dimensions that repeat (stride 0) and still do.
class Packed {
 public:
  Packed(const View& like, DType dtype) : Packed(plan(like.layout, dtype)) {}
  static Packed copy_of(const View& from, DType dtype);
  View view;

 private:
  struct Plan {
    Layout layout;
    int64_t bytes;
  };
  static Plan plan(const Layout& like, DType dtype);
  explicit Packed(const Plan& plan) : view{nullptr, plan.layout}, workspace_(static_cast<size_t>(plan.bytes)) {
    view.data = workspace_.as<void>();
  }
  Workspace workspace_;
};

}  // namespace weft::cpu
