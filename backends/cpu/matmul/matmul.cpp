// Batched matrix products of views: operands that no GEMM can read are copied, and the result is computed in tiles with
// bounds that depend on the shape only.
#include "../kernels.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include "gemm.hpp"
#include "../../row_products.hpp"
#include "../../../tensor/settings.hpp"
#include "../lines.hpp"
#include "matrix_view.hpp"
#include "skinny.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

/// Multiply-adds that are worth handing to another thread.
constexpr double worthwhile = 1 << 18;

/// One product's operands, byte by byte: c = a b + bias, where c's columns are adjacent.
template <class T>
struct Task {
  int64_t m, n, k;
  Matrix<T> a, b;
  T* c;
  int64_t c_stride;
  const char* bias;
  int64_t bias_row, bias_column;
};

template <class T>
void fill_with_bias(const Task<T>& t) {
  for (int64_t i = 0; i < t.m; ++i) {
    const char* from = t.bias + i * t.bias_row;
    T* to = t.c + i * t.c_stride;
    for (int64_t j = 0; j < t.n; ++j) to[j] = *reinterpret_cast<const T*>(from + j * t.bias_column);
  }
}

/// The bias as a product's initial value: in place, or copied into c.
template <class T>
Addend<T> start_of(const Task<T>& t) {
  constexpr int64_t item = sizeof(T);
  if (t.bias == nullptr) return {};
  if (t.bias_column == item && t.bias_row % item == 0) return {reinterpret_cast<const T*>(t.bias), t.bias_row / item};
  fill_with_bias(t);
  return {t.c, t.c_stride};
}

template <class T>
void run_task(GemmCode code, const Task<T>& t) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    bf16_gemm(t.m, t.n, t.k, t.a, t.b, reinterpret_cast<const uint16_t*>(t.bias), t.c, t.c_stride);
  } else {
    gemm<T>(code, t.m, t.n, t.k, t.a, t.b, start_of(t), t.c, t.c_stride);
  }
}

template <class T>
Task<T> tile_of(Task<T> t, int64_t i, int64_t j, int64_t rows, int64_t columns) {
  t.m = std::min(rows, t.m - i);
  t.n = std::min(columns, t.n - j);
  t.a = t.a.from(i, 0);
  t.b = t.b.from(0, j);
  t.c += i * t.c_stride + j;
  if (t.bias != nullptr) t.bias += i * t.bias_row + j * t.bias_column;
  return t;
}

}  // namespace

MatrixTiles choose_tiles(int64_t batch, int64_t m, int64_t n, int64_t k) {
  const double volume = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  double wanted = 1 + std::cbrt(volume) / 256;
  // A matrix-vector product reads much for little arithmetic.
  if (m == 1 || n == 1) wanted = volume / worthwhile;
  wanted /= static_cast<double>(batch);
  MatrixTiles t{m, n};
  for (double count = 1; count * 1.5 < wanted; count *= 2) {
    const bool band = t.rows > 64 && t.columns == n && n <= 512;
    int64_t& longer = band || t.rows >= t.columns ? t.rows : t.columns;
    if (longer <= (m == 1 || n == 1 ? 256 : 16)) break;
    longer = ((longer + 1) / 2 + 15) / 16 * 16;
  }
  return t;
}

namespace {

template <class T>
GemmCode code_for(int64_t m, int64_t n, int64_t k) {
  if constexpr (std::is_same_v<T, uint16_t>) return GemmCode::onednn;
  else return choose_gemm<T>(m, n, k);
}

/// Every product of the batch, tile by tile; `whole` describes the first one.
template <class T>
void run_batch(const Task<T>& whole, const View& out, const View& a, const View& b, const View& bias) {
  const double volume = static_cast<double>(whole.m) * static_cast<double>(whole.n) * static_cast<double>(whole.k);
  const int batch_rank = out.layout.rank - 2;
  if (batch_rank == 0 && volume <= worthwhile) return run_task(code_for<T>(whole.m, whole.n, whole.k), whole);
  const Layout& bias_layout = bias.data != nullptr ? bias.layout : out.layout;
  const Walk<4> batch = walk_of<4>({&out.layout, &a.layout, &b.layout, &bias_layout}, 0, batch_rank);
  const MatrixTiles tile = choose_tiles(batch.count, whole.m, whole.n, whole.k);
  const GemmCode code = code_for<T>(tile.rows, tile.columns, whole.k);
  const int64_t across = (whole.n - 1) / tile.columns + 1, tiles = across * ((whole.m - 1) / tile.rows + 1);
  const double tile_volume = std::max(volume / static_cast<double>(tiles), 1.0);
  const int64_t chunk = std::max<int64_t>(static_cast<int64_t>(worthwhile / tile_volume), 1);
  parallel_for(batch.count * tiles, chunk, [&](int64_t begin, int64_t end) {
    Cursor<4> at(batch, begin / tiles);
    for (int64_t position = begin, t = begin % tiles; position < end; ++position) {
      Task<T> task = whole;
      task.c = reinterpret_cast<T*>(reinterpret_cast<char*>(task.c) + at.offset[0]);
      task.a.data = reinterpret_cast<const T*>(reinterpret_cast<const char*>(task.a.data) + at.offset[1]);
      task.b.data = reinterpret_cast<const T*>(reinterpret_cast<const char*>(task.b.data) + at.offset[2]);
      if (task.bias != nullptr) task.bias += at.offset[3];
      run_task(code, tiles == 1
                         ? task
                         : tile_of(task, t / across * tile.rows, t % across * tile.columns, tile.rows, tile.columns));
      if (++t == tiles) {
        t = 0;
        at.next();
      }
    }
  });
}

/// False where the bias cannot be handed to the bfloat16 code.
template <class T>
bool bias_fits(const View& bias) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    return bias.data == nullptr || (row_bytes(bias) == 0 && (column_bytes(bias) == 2 || columns_of(bias) == 1));
  }
  return true;
}

/// Operands as they are; false where one of them needs a copy first.
template <class T>
bool run_in_place(const View& out, const View& a, const View& b, const View& bias) {
  const auto c = as_matrix<T>(out);
  if (!c) return false;
  if (c->column != 1) {
    return run_in_place<T>(transposed(out), transposed(b), transposed(a),
                           bias.data != nullptr ? transposed(bias) : bias);
  }
  const auto x = as_matrix<T>(a), y = as_matrix<T>(b);
  if (!x || !y || !bias_fits<T>(bias)) return false;
  Task<T> task{rows_of(out), columns_of(out), columns_of(a), *x, *y, const_cast<T*>(c->data), c->row, nullptr, 0, 0};
  if (bias.data != nullptr) {
    task.bias = static_cast<const char*>(bias.data);
    task.bias_row = row_bytes(bias);
    task.bias_column = column_bytes(bias);
  }
  run_batch(task, out, a, b, bias);
  return true;
}

/// Copies operands that cannot be used in place, converted to `dtype`.
template <class T>
void run_copied(const View& out, const View& a, const View& b, const View& bias, DType dtype) {
  const auto needs_copy = [&](const View& v) { return v.layout.dtype != dtype || !as_matrix<T>(v); };
  std::optional<Packed> x, y, z, c;
  if (needs_copy(a)) x.emplace(Packed::copy_of(a, dtype));
  if (needs_copy(b)) y.emplace(Packed::copy_of(b, dtype));
  if (bias.data != nullptr && bias.layout.dtype != dtype) z.emplace(Packed::copy_of(bias, dtype));
  if (needs_copy(out)) c.emplace(out, dtype);
  run_in_place<T>(c ? c->view : out, x ? x->view : a, y ? y->view : b, z ? z->view : bias);
  if (c) cpu::copy(out, c->view);
}

/// A small product by the own kernels, which take operands of any strides; false where it is not one.
template <class T>
bool run_small(const View& out, const View& a, const View& b, const View& bias) {
  constexpr int64_t item = sizeof(T);
  const int64_t m = rows_of(out), n = columns_of(out), k = columns_of(a);
  if (out.layout.rank != 2 || m > 64 || n > 64 || k > 64 || m * n * k > 64 * 64 * 64) return false;
  const int64_t all_strides = row_bytes(out) | row_bytes(a) | column_bytes(a) | row_bytes(b) | column_bytes(b);
  if ((column_bytes(out) != item && n > 1) || all_strides % item != 0) return false;
  Task<T> task{m,
               n,
               k,
               {static_cast<const T*>(a.data), row_bytes(a) / item, column_bytes(a) / item},
               {static_cast<const T*>(b.data), row_bytes(b) / item, column_bytes(b) / item},
               static_cast<T*>(out.data),
               row_bytes(out) / item,
               static_cast<const char*>(bias.data),
               0,
               0};
  if (bias.data != nullptr) {
    task.bias_row = row_bytes(bias);
    task.bias_column = column_bytes(bias);
  }
  native_gemm(m, n, k, task.a, task.b, start_of(task), task.c, task.c_stride);
  return true;
}

template <class T>
void float_matmul(const View& out, const View& a, const View& b, const View& bias) {
  if (run_small<T>(out, a, b, bias)) return;
  if (!run_in_place<T>(out, a, b, bias)) run_copied<T>(out, a, b, bias, dtype_of<T>());
}

/// The first row.
View line_of(const View& matrix) {
  View line = matrix;
  line.layout.rank = 1;
  line.layout.sizes[0] = line.layout.numel = columns_of(matrix);
  line.layout.strides[0] = column_bytes(matrix);
  return line;
}

/// Each row as if it were the only one; false for operands that the kernels for a few rows do not take.
bool run_by_rows(const View& out, const View& a, const View& b, const View& bias) {
  const DType dtype = out.layout.dtype;
  const bool takes = out.layout.rank == 2 && (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16);
  const bool one_row = bias.data == nullptr || rows_of(out) == 1 || row_bytes(bias) == 0;
  if (!takes || !one_row) return false;
  activated_product(out, a, b, {}, bias.data != nullptr ? line_of(bias) : bias, Activation::none);
  return true;
}

/// A few rows by a large row- or column-major matrix, which is widened as it is read; false for others.
bool run_few_rows(const View& out, const View& a, const View& b, const View& bias) {
  const int64_t m = rows_of(out), n = columns_of(out);
  if (n < m) {
    const View flipped = bias.data != nullptr ? transposed(bias) : bias;
    return n > 0 && run_few_rows(transposed(out), transposed(b), transposed(a), flipped);
  }
  const bool is_large = n * columns_of(a) >= 64 * 64;
  if (out.layout.rank != 2 || m > skinny_rows || !is_large || !as_matrix<uint16_t>(b)) return false;
  return run_by_rows(out, a, b, bias);
}

void half_matmul(const View& out, const View& a, const View& b, const View& bias) {
  if (run_few_rows(out, a, b, bias)) return;
  const double volume = static_cast<double>(rows_of(out)) * static_cast<double>(columns_of(out) * columns_of(a));
  if (out.layout.dtype == DType::bf16 && volume >= 32.0 * 32 * 32 &&
      has_fast_bf16_gemm(rows_of(out), columns_of(out)) && run_in_place<uint16_t>(out, a, b, bias)) {
    return;
  }
  run_copied<float>(out, a, b, bias, DType::f32);
}

/// U is the unsigned type of the width: integers wrap around.
template <class U>
void integer_rows(int64_t begin, int64_t end, const Task<U>& t) {
  using Wide = std::conditional_t<(sizeof(U) < 4), uint32_t, U>;
  for (int64_t i = begin; i < end; ++i) {
    U* to = t.c + i * t.c_stride;
    std::fill_n(to, t.n, U{0});
    for (int64_t p = 0; p < t.k; ++p) {
      const Wide left = t.a.data[i * t.a.row + p];
      const U* right = t.b.data + p * t.b.row;
      for (int64_t j = 0; j < t.n; ++j) to[j] = static_cast<U>(to[j] + left * right[j]);
    }
    if (t.bias == nullptr) continue;
    for (int64_t j = 0; j < t.n; ++j) {
      to[j] = static_cast<U>(to[j] + *reinterpret_cast<const U*>(t.bias + i * t.bias_row + j * t.bias_column));
    }
  }
}

template <class U>
void integer_matmul(const View& out, const View& a, const View& b, const View& bias) {
  const DType dtype = out.layout.dtype;
  const Packed x = Packed::copy_of(a, dtype), y = Packed::copy_of(b, dtype), c(out, dtype);
  const Layout& bias_layout = bias.data != nullptr ? bias.layout : out.layout;
  const Walk<4> batch =
      walk_of<4>({&c.view.layout, &x.view.layout, &y.view.layout, &bias_layout}, 0, out.layout.rank - 2);
  const int64_t m = rows_of(out), n = columns_of(out), k = columns_of(a);
  const int64_t chunk = std::max<int64_t>((int64_t{1} << 16) / std::max<int64_t>(n * k, 1), 1);
  const auto offset = [](const View& v, int64_t bytes) {
    return reinterpret_cast<U*>(static_cast<char*>(v.data) + bytes);
  };
  Cursor<4> at(batch, 0);
  for (int64_t i = 0; i < batch.count; ++i, at.next()) {
    Task<U> task{m,
                 n,
                 k,
                 {offset(x.view, at.offset[1]), k, 1},
                 {offset(y.view, at.offset[2]), n, 1},
                 offset(c.view, at.offset[0]),
                 n,
                 nullptr,
                 0,
                 0};
    if (bias.data != nullptr) {
      task.bias = static_cast<const char*>(bias.data) + at.offset[3];
      task.bias_row = row_bytes(bias);
      task.bias_column = column_bytes(bias);
    }
    parallel_for(m, chunk, [&](int64_t begin, int64_t end) { integer_rows(begin, end, task); });
  }
  cpu::copy(out, c.view);
}

void run(const View& out, const View& a, const View& b, const View& bias) {
  if (WEFT_UNLIKELY(detail::products_by_rows) && run_by_rows(out, a, b, bias)) return;
  switch (out.layout.dtype) {
    case DType::f32:
      return float_matmul<float>(out, a, b, bias);
    case DType::f64:
      return float_matmul<double>(out, a, b, bias);
    case DType::f16:
    case DType::bf16:
      return half_matmul(out, a, b, bias);
    case DType::u8:
    case DType::i8:
      return integer_matmul<uint8_t>(out, a, b, bias);
    case DType::u16:
    case DType::i16:
      return integer_matmul<uint16_t>(out, a, b, bias);
    case DType::u32:
    case DType::i32:
      return integer_matmul<uint32_t>(out, a, b, bias);
    case DType::u64:
    case DType::i64:
      return integer_matmul<uint64_t>(out, a, b, bias);
    default:
      unsupported("matmul", out);
  }
}

/// Takes the innermost batch dimension into the rows where b repeats along it: one large product instead of many.
bool fold_batch(View& out, View& a, View& b, View& bias) {
  const int r = out.layout.rank;
  const auto mergeable = [r](const View& v) {
    return v.layout.strides[r - 3] == v.layout.strides[r - 2] * v.layout.sizes[r - 2];
  };
  const bool single = out.layout.sizes[r - 3] == 1;
  if (!single && (b.layout.strides[r - 3] != 0 || !mergeable(out) || !mergeable(a) ||
                  (bias.data != nullptr && !mergeable(bias)))) {
    return false;
  }
  for (View* v : {&out, &a, &b, &bias}) {
    if (v->data == nullptr) continue;
    Layout& l = v->layout;
    if (v != &b) l.sizes[r - 2] *= l.sizes[r - 3];
    for (int d = r - 3; d < r - 1; ++d) {
      l.sizes[d] = l.sizes[d + 1];
      l.strides[d] = l.strides[d + 1];
    }
    --l.rank;
  }
  return true;
}

}  // namespace

void matmul(const View& out, const View& a, const View& b, const View& bias) {
  if (out.layout.numel == 0) return;
  if (columns_of(a) == 0) return bias.data != nullptr ? copy(out, bias) : fill(out, Scalar(0));
  if (out.layout.rank == 2) return run(out, a, b, bias);
  View c = out, x = a, y = b, z = bias;
  while (c.layout.rank > 2 && fold_batch(c, x, y, z)) {
  }
  run(c, x, y, z);
}

}  // namespace weft::cpu

namespace weft {
constinit thread_local bool detail::products_by_rows = false;

bool detail::wants_row_products() {
  static const bool off = is_switched_off("WEFT_BATCH_INVARIANT");
  return !off;
}
}  // namespace weft
