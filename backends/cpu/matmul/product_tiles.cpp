#include "product_tiles.hpp"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "../../functors/lists.hpp"
#include "../../row_products.hpp"
#include "../lines.hpp"
#include "../pointwise/loops.hpp"
#include "../thread_pool.hpp"
#include "gemm.hpp"
#include "matrix_view.hpp"
#include "skinny.hpp"

namespace weft::cpu {
namespace {

/// Multiply-adds that are worth handing to another thread.
constexpr double worthwhile = 1 << 18;

/// A right operand in place if one stride is 1, else as a copy.
class Right {
 public:
  explicit Right(const View& view) {
    if (view.data == nullptr) return;
    const bool readable = itemsize(view.layout.dtype) == 2   ? as_matrix<uint16_t>(view).has_value()
                          : itemsize(view.layout.dtype) == 4 ? as_matrix<float>(view).has_value()
                                                             : as_matrix<double>(view).has_value();
    if (!readable) copy_.emplace(Packed::copy_of(view, view.layout.dtype));
    view_ = readable ? view : copy_->view;
  }
  bool present() const { return view_.data != nullptr; }
  template <class T>
  Matrix<T> as() const {
    return *as_matrix<T>(view_);
  }
  WideMatrix wide() const {
    const DType dtype = view_.layout.dtype;
    if (itemsize(dtype) == 4) {
      const Matrix<float> m = as<float>();
      return {m.data, dtype, m.row, m.column};
    }
    const Matrix<uint16_t> m = as<uint16_t>();
    return {m.data, dtype, m.row, m.column};
  }

 private:
  std::optional<Packed> copy_;
  View view_ = {};
};

enum class Way : uint8_t { skinny, gemm, pairs, widened };

/// One row of f32 has matrix-vector products of its own.
Way way_of(DType dtype, int64_t m, int64_t columns) {
  if (detail::products_by_rows && dtype != DType::f64) return Way::skinny;
  if (dtype == DType::f64 || (dtype == DType::f32 && (m == 1 || m > skinny_rows))) return Way::gemm;
  if (m <= skinny_rows) return Way::skinny;
  return dtype == DType::bf16 && has_fast_bf16_gemm(m, columns) ? Way::pairs : Way::widened;
}

/// Tiles that stay near the caches, and of which there are some for each thread.
MatrixTiles tile_shape(int64_t m, int64_t n, int64_t unit, Way way) {
  const int64_t rows = std::min<int64_t>(m, 512), down = (m - 1) / rows + 1;
  const int64_t wanted = way == Way::skinny ? 256 : std::clamp<int64_t>(n * down / 8 / 16 * 16, 128, 512);
  return {rows, std::min(n, std::max(unit, wanted / unit * unit))};
}

/// b's columns [j, j + columns) as floats, in b's own order.
Matrix<float> widen(const WideMatrix& b, int64_t k, int64_t columns, float* to) {
  const bool by_rows = b.column == 1;
  const int64_t lines = by_rows ? k : columns, length = by_rows ? columns : k, step = by_rows ? b.row : b.column;
  for (int64_t i = 0; i < lines; ++i) {
    const char* from = static_cast<const char*>(b.data) + i * step * 2;
    load_line(to + i * length, from, 2, length, b.dtype);
  }
  return by_rows ? Matrix<float>{to, length, 1} : Matrix<float>{to, 1, length};
}

/// All tiles of one call: the operands, and how they are multiplied.
template <class A>
class Tiles {
 public:
  explicit Tiles(const ProductOperands& o)
      : m_(rows_of(o.a)),
        n_(columns_of(o.b)),
        k_(columns_of(o.a)),
        way_(way_of(o.b.layout.dtype, m_, n_)),
        shape_(tile_shape(m_, n_, o.unit, way_)),
        right_{Right(o.b), Right(o.other)},
        bias_(static_cast<const A*>(o.bias)) {
    const DType wanted = way_ == Way::pairs ? DType::bf16 : dtype_of<A>();
    const bool dense =
        o.a.layout.dtype == wanted && column_bytes(o.a) == itemsize(wanted) && row_bytes(o.a) == k_ * itemsize(wanted);
    if (!dense) copy_.emplace(Packed::copy_of(o.a, wanted));
    left_ = dense ? o.a.data : copy_->view.data;
    constexpr auto item = static_cast<int64_t>(sizeof(A));
    const bool fits = o.into.data != nullptr && o.into.layout.dtype == dtype_of<A>() && column_bytes(o.into) == item &&
                      row_bytes(o.into) % item == 0;
    if (!fits) return;
    into_ = static_cast<A*>(o.into.data);
    into_row_ = row_bytes(o.into) / item;
    // Then only the cache limits the size.
    if (way_ == Way::gemm && !right_[1].present() && o.unit == 1) shape_ = choose_tiles(1, m_, n_, k_);
  }

  template <class Use>
  void run(const Use& use) const {
    const int64_t across = (n_ - 1) / shape_.columns + 1, down = (m_ - 1) / shape_.rows + 1;
    const double volume = static_cast<double>(shape_.rows * shape_.columns) * static_cast<double>(k_);
    const auto chunk = static_cast<int64_t>(worthwhile / std::max(volume, 1.0));
    // The widened operand serves all rows.
    const int64_t together = way_ == Way::widened ? down : 1;
    parallel_for(across * down, std::max(chunk, int64_t{1}) * together, [&](int64_t begin, int64_t end) {
      const Space space(*this);
      Matrix<float> widened[2] = {};
      for (int64_t t = begin, seen = -1; t < end; ++t) {
        const int64_t j = t / down * shape_.columns, i = t % down * shape_.rows;
        ProductTile<A> tile{
            i, j, std::min(shape_.rows, m_ - i), std::min(shape_.columns, n_ - j), 0, space.values, space.others};
        tile.stride = tile.columns;
        if (into_ != nullptr) tile.values = into_ + i * into_row_ + j, tile.stride = into_row_;
        for (int r = 0; r < 2 && right_[r].present(); ++r) {
          if (way_ == Way::widened && seen != j) {
            widened[r] = widen(right_[r].wide().from(0, j), k_, tile.columns, space.wide + r * k_ * shape_.columns);
          }
          if (r == 0) multiply(right_[r], widened[r], tile, tile.values, tile.stride, bias_);
          else multiply(right_[r], widened[r], tile, tile.others, tile.columns, nullptr);
        }
        seen = j;
        if (bias_ != nullptr && way_ != Way::gemm && way_ != Way::pairs) add_bias(tile);
        use(tile);
      }
    });
  }

 private:
  /// The buffers of one chunk: tiles and widened operands.
  struct Space {
    explicit Space(const Tiles& t)
        : memory((t.tiles_here() * t.tile_size() * static_cast<int64_t>(sizeof(A))) + t.wide_bytes()) {
      A* at = memory.as<A>();
      if (t.into_ == nullptr) values = at, at += t.tile_size();
      if (t.right_[1].present()) others = at, at += t.tile_size();
      wide = reinterpret_cast<float*>(at);
    }
    Scratch memory;
    A* values = nullptr;
    A* others = nullptr;
    float* wide;
  };
  int64_t tile_size() const { return shape_.rows * shape_.columns; }
  int64_t tiles_here() const { return (into_ == nullptr ? 1 : 0) + (right_[1].present() ? 1 : 0); }
  int64_t wide_bytes() const {
    return way_ == Way::widened ? (right_[1].present() ? 2 : 1) * k_ * shape_.columns * 4 : 0;
  }

  void add_bias(const ProductTile<A>& tile) const {
    const auto add =
        binary_loops.loop[static_cast<int>(BinaryOp::add)][std::is_same_v<A, double> ? slot_f64 : slot_f32][0];
    for (int64_t i = 0; i < tile.rows; ++i) {
      A* const line = tile.values + i * tile.stride;
      add(line, line, bias_ + tile.column, tile.columns);
    }
  }

  void multiply(const Right& right, [[maybe_unused]] const Matrix<float>& widened, const ProductTile<A>& tile, A* to,
                int64_t stride, const A* bias) const {
    const int64_t i = tile.row, j = tile.column, rows = tile.rows, columns = tile.columns;
    if constexpr (std::is_same_v<A, float>) {
      if (way_ == Way::skinny) {
        const WideMatrix wide = right.wide().from(0, j);
        for (int64_t r = 0; r < rows; r += skinny_rows) {
          skinny_product(std::min(skinny_rows, rows - r), columns, k_, left<float>(i + r).data, wide, to + r * stride,
                         stride);
        }
        return;
      }
      if (way_ == Way::pairs) {
        return bf16_gemm(rows, columns, k_, left<uint16_t>(i), right.as<uint16_t>().from(0, j),
                         bias != nullptr ? bias + j : nullptr, to, stride);
      }
      if (way_ == Way::widened) return product(rows, columns, left<float>(i), widened, {}, to, stride);
    }
    const Addend<A> start = bias != nullptr ? Addend<A>{bias + j, 0} : Addend<A>{};
    product(rows, columns, left<A>(i), right.as<A>().from(0, j), start, to, stride);
  }
  void product(int64_t rows, int64_t columns, Matrix<A> a, Matrix<A> b, Addend<A> start, A* to, int64_t stride) const {
    gemm<A>(choose_gemm<A>(rows, columns, k_), rows, columns, k_, a, b, start, to, stride);
  }
  template <class T>
  Matrix<T> left(int64_t i) const {
    return Matrix<T>{static_cast<const T*>(left_) + i * k_, k_, 1};
  }

  int64_t m_, n_, k_;
  Way way_;
  MatrixTiles shape_;
  Right right_[2];
  std::optional<Packed> copy_;
  const void* left_;
  const A* bias_;
  A* into_ = nullptr;
  int64_t into_row_ = 0;
};

}  // namespace

void for_product_tiles(const ProductOperands& operands, void (*use)(const void* context, const ProductTile<float>&),
                       const void* context) {
  Tiles<float>(operands).run([&](const ProductTile<float>& tile) { use(context, tile); });
}
void for_product_tiles(const ProductOperands& operands, void (*use)(const void* context, const ProductTile<double>&),
                       const void* context) {
  Tiles<double>(operands).run([&](const ProductTile<double>& tile) { use(context, tile); });
}

}  // namespace weft::cpu
