// 8-bit floats with a scale for each block: a block is read once, and quantised while it is in the cache.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/quantize/quantize_blocks.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include <algorithm>
#include <cstring>

#include "../kernels.hpp"
#include "fp8-inl.hpp"
#include "../lines.hpp"
#include "../pointwise/loops.hpp"
#include "../read_ahead.hpp"
#include "scale_rule.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

/// A rectangle of a matrix.
struct Part {
  int64_t row, rows, column, columns;
};

template <class F>
void decode(float* to, const char* from, int64_t stride, int64_t n) {
  if (stride == 1) return fp8::decode_line<F>(to, reinterpret_cast<const uint8_t*>(from), 1, n);
  uint8_t codes[128];
  for (int64_t i = 0; i < n; i += 128) {
    const int64_t count = std::min<int64_t>(128, n - i);
    for (int64_t j = 0; j < count; ++j) codes[j] = static_cast<uint8_t>(from[(i + j) * stride]);
    fp8::decode_line<F>(to + i, codes, 1, count);
  }
}

/// Rows of a part as f32: in place, or one at a time in a buffer; column-major parts are transposed as a whole.
class Tile {
 public:
  Tile(const View& x, const View& scale, int64_t scale_rows, int64_t scale_columns, int64_t rows, int64_t columns)
      : x_(x),
        scale_(scale),
        scale_rows_(scale_rows),
        scale_columns_(scale_columns),
        item_(itemsize(x.layout.dtype)),
        in_place_(x.layout.dtype == DType::f32 && (x.layout.strides[1] == 4 || x.layout.sizes[1] == 1)),
        turned_(!in_place_ && x.layout.strides[1] != item_ && x.layout.strides[0] == item_ && rows > 1),
        numbers_((turned_ ? rows : 1) * columns * 4, !in_place_),
        lines_(rows * columns * 4, turned_),
        factors_(std::max(rows, columns) * 4, scale.data != nullptr) {}

  void read(const Part& part) {
    part_ = part;
    held_ = -1;
    if (!turned_) return;
    for (int64_t j = 0; j < part.columns; ++j) {
      // Lines are far apart: hardware does not look ahead.
      prefetch(at(part.row, std::min(part.column + j + 16, x_.layout.sizes[1] - 1)), part.rows * item_);
      float* const to = lines_.as<float>() + j * part.rows;
      load(to, at(part.row, part.column + j), item_, part.rows);
      if (scale_.data != nullptr)
        scale_line(to, part.rows, part.row, scale_rows_, 0, (part.column + j) / scale_columns_);
    }
    convert_loops.transpose[2](numbers_.as<char>(), part.columns * 4, lines_.as<char>(), part.rows * 4, part.rows,
                               part.columns);
  }
  const float* row(int64_t i) {
    if (in_place_) return reinterpret_cast<const float*>(at(part_.row + i, part_.column));
    float* const to = numbers_.as<float>() + (turned_ ? i * part_.columns : 0);
    if (turned_ || held_ == i) return to;
    held_ = i;
    load(to, at(part_.row + i, part_.column), x_.layout.strides[1], part_.columns);
    if (scale_.data != nullptr) {
      scale_line(to, part_.columns, part_.column, scale_columns_, 1, (part_.row + i) / scale_rows_);
    }
    return to;
  }

 private:
  const char* at(int64_t i, int64_t j) const { return bytes(x_) + i * x_.layout.strides[0] + j * x_.layout.strides[1]; }
  void load(float* to, const char* from, int64_t step, int64_t n) const {
    if (x_.layout.dtype == DType::f8_e4m3fn) decode<fp8::E4m3>(to, from, step, n);
    else if (x_.layout.dtype == DType::f8_e5m2) decode<fp8::E5m2>(to, from, step, n);
    else load_line(to, from, step, n, x_.layout.dtype);
  }
  /// Numbers from `first` on along `dim`, where blocks have `size`; `other` is the block's place in the other
  /// dimension.
  void scale_line(float* line, int64_t n, int64_t first, int64_t size, int dim, int64_t other) const {
    float* const factors = factors_.as<float>();
    const int64_t step = scale_.layout.strides[dim];
    const char* from = bytes(scale_) + other * scale_.layout.strides[1 - dim] + first / size * step;
    for (int64_t k = 0; k < n; from += step) {
      float factor;
      std::memcpy(&factor, from, 4);
      const int64_t end = std::min(n, size == 1 ? k + 1 : ((first + k) / size + 1) * size - first);
      for (; k < end; ++k) factors[k] = factor;
    }
    fp8::scale_to_bf16(line, factors, n);
  }

  const View& x_;
  const View& scale_;
  const int64_t scale_rows_, scale_columns_, item_;
  const bool in_place_, turned_;
  Scratch numbers_, lines_, factors_;
  Part part_ = {};
  int64_t held_ = -1;  ///< the row that the buffer has
};

struct Output {
  const View &codes, &scale;
  ScaleRule rule;
  int64_t rows, columns;

  float& scale_at(int64_t i, int64_t j) const {
    return *reinterpret_cast<float*>(bytes(scale) + i / rows * scale.layout.strides[0] +
                                     j / columns * scale.layout.strides[1]);
  }
  uint8_t* codes_at(int64_t i, int64_t j) const {
    return reinterpret_cast<uint8_t*>(bytes(codes) + i * codes.layout.strides[0] + j);
  }
};

constexpr int64_t block = 128;
/// A part has at most so many blocks.
constexpr int64_t most_blocks = 128;

/// Calls body(block, row, line, first, count) for the piece of each row in a block.
template <class Body>
HWY_INLINE void each_piece(Tile& tile, const Part& p, int64_t rows, int64_t columns, Body&& body) {
  const int64_t across = (p.columns + columns - 1) / columns;
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* const line = tile.row(i);
    for (int64_t j = 0, b = i / rows * across; j < p.columns; j += columns, ++b) {
      body(b, i, line + j, j, std::min(columns, p.columns - j));
    }
  }
}

/// Maxima come first for all blocks, so that none waits for the scale of another.
template <class F>
void quantize_part(Tile& tile, const Part& p, const Output& out) {
  const int64_t rows = std::min(out.rows, p.rows), across = (p.columns + out.columns - 1) / out.columns;
  const int64_t blocks = (p.rows + rows - 1) / rows * across;
  uint32_t most[most_blocks] = {}, finite[most_blocks] = {};
  float by[most_blocks];
  each_piece(tile, p, rows, out.columns, [&](int64_t b, int64_t, const float* x, int64_t, int64_t n) HWY_ATTR {
    most[b] = fp8::largest(x, n, most[b]);
  });
  const bool fits = *std::max_element(most, most + blocks) < fp8::infinite;
  if (!fits) {
    each_piece(tile, p, rows, out.columns, [&](int64_t b, int64_t, const float* x, int64_t, int64_t n) HWY_ATTR {
      finite[b] = fp8::largest_finite(x, n, finite[b]);
    });
  }
  for (int64_t b = 0; b < blocks; ++b) {
    by[b] = out.rule.multiplier(fits ? most[b] : finite[b]);
    out.scale_at(p.row + b / across * rows, p.column + b % across * out.columns) = 1 / by[b];
  }
  each_piece(tile, p, rows, out.columns, [&](int64_t b, int64_t i, const float* x, int64_t j, int64_t n) HWY_ATTR {
    uint8_t* const to = out.codes_at(p.row + i, p.column + j);
    if (fits) fp8::encode_line<F, true>(to, x, by[b], n);
    else fp8::encode_line<F, false>(to, x, by[b], n);
  });
}

/// Calls body(tile, part) for parts of rows x columns that cover x.
template <class Body>
void each_part(const View& x, const View& x_scale, int64_t x_rows, int64_t x_columns, int64_t rows, int64_t columns,
               Body&& body) {
  const int64_t m = x.layout.sizes[0], n = x.layout.sizes[1];
  const int64_t down = (m + rows - 1) / rows, across = (n + columns - 1) / columns;
  const int64_t chunk = std::max<int64_t>(32768 / (std::min(rows, m) * std::min(columns, n)), 1);
  parallel_for(down * across, chunk, [&](int64_t begin, int64_t end) HWY_ATTR {
    Tile tile(x, x_scale, x_rows, x_columns, std::min(rows, m), std::min(columns, n));
    for (int64_t at = begin; at < end; ++at) {
      const int64_t i = at / across * rows, j = at % across * columns;
      const Part part{i, std::min(rows, m - i), j, std::min(columns, n - j)};
      tile.read(part);
      body(tile, part);
    }
  });
}

/// One block: read twice, once for its scale.
template <class F>
void quantize_whole(const Output& out, const View& x, const View& x_scale, int64_t x_rows, int64_t x_columns) {
  const int64_t m = x.layout.sizes[0], n = x.layout.sizes[1], rows = 64, columns = 256;
  const int64_t across = (n + columns - 1) / columns, count = (m + rows - 1) / rows * across;
  const Workspace memory(static_cast<size_t>(count) * sizeof(uint32_t));
  uint32_t* const largest = memory.as<uint32_t>();
  each_part(x, x_scale, x_rows, x_columns, rows, columns, [&](Tile& tile, const Part& p) HWY_ATTR {
    uint32_t most = 0;
    for (int64_t r = 0; r < p.rows; ++r) most = fp8::largest_finite(tile.row(r), p.columns, most);
    largest[p.row / rows * across + p.column / columns] = most;
  });
  const float by = out.rule.multiplier(*std::max_element(largest, largest + count));
  out.scale_at(0, 0) = 1 / by;
  each_part(x, x_scale, x_rows, x_columns, rows, columns, [&](Tile& tile, const Part& p) HWY_ATTR {
    for (int64_t r = 0; r < p.rows; ++r) {
      fp8::encode_line<F>(out.codes_at(p.row + r, p.column), tile.row(r), by, p.columns);
    }
  });
}

template <class F>
void quantize_as(const Output& out, const View& x, const View& x_scale, int64_t x_rows, int64_t x_columns) {
  if (out.rows >= x.layout.sizes[0] && out.columns >= x.layout.sizes[1]) {
    return quantize_whole<F>(out, x, x_scale, x_rows, x_columns);
  }
  const bool turned = x.layout.strides[1] != itemsize(x.layout.dtype) && x.layout.sizes[1] > 1;
  const int64_t rows = turned || out.rows > 1 ? std::max<int64_t>(out.rows, block) : 1;
  const int64_t columns = turned ? out.columns : (rows == 1 ? 32 : 16) * out.columns;
  each_part(x, x_scale, x_rows, x_columns, rows, columns,
            [&](Tile& tile, const Part& p) HWY_ATTR { quantize_part<F>(tile, p, out); });
}

void quantize_any(const View& codes, const View& scale, const View& x, const View& x_scale, int64_t rows,
                  int64_t columns, int64_t x_rows, int64_t x_columns, double epsilon, bool power_of_two) {
  const bool e4m3 = codes.layout.dtype == DType::f8_e4m3fn;
  const Output out{codes, scale, {e4m3 ? 448.0f : 57344.0f, static_cast<float>(epsilon), power_of_two}, rows, columns};
  if (e4m3) quantize_as<fp8::E4m3>(out, x, x_scale, x_rows, x_columns);
  else quantize_as<fp8::E5m2>(out, x, x_scale, x_rows, x_columns);
}

template <class F>
void dequantize_as(const View& out, const View& codes, const View& scale, int64_t rows, int64_t columns) {
  const int64_t m = out.layout.sizes[0], n = out.layout.sizes[1], most = 4096, across = (n + most - 1) / most;
  const DType dtype = out.layout.dtype;
  const int64_t step = out.layout.strides[1], code_step = codes.layout.strides[1];
  parallel_for(m * across, rows_per_chunk(std::min(n, most)), [&](int64_t begin, int64_t end) HWY_ATTR {
    const Scratch line(std::min(n, most) * 4);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t i = at / across, first = at % across * most, last = std::min(n, first + most);
      const char* from = bytes(codes) + i * codes.layout.strides[0];
      const char* scales = bytes(scale) + i / rows * scale.layout.strides[0];
      float* const numbers = line.as<float>();
      for (int64_t j = first; j < last;) {
        const int64_t next = std::min(last, (j / columns + 1) * columns);
        float by;
        std::memcpy(&by, scales + j / columns * scale.layout.strides[1], 4);
        if (code_step == 1) {
          fp8::decode_line<F>(numbers + (j - first), reinterpret_cast<const uint8_t*>(from + j), by, next - j);
        } else {
          decode<F>(numbers + (j - first), from + j * code_step, code_step, next - j);
          for (int64_t k = j - first; k < next - first; ++k) numbers[k] *= by;
        }
        j = next;
      }
      store_line(bytes(out) + i * out.layout.strides[0] + first * step, step, dtype, numbers, last - first);
    }
  });
}

void dequantize_any(const View& out, const View& codes, const View& scale, int64_t rows, int64_t columns) {
  if (codes.layout.dtype == DType::f8_e4m3fn) dequantize_as<fp8::E4m3>(out, codes, scale, rows, columns);
  else dequantize_as<fp8::E5m2>(out, codes, scale, rows, columns);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(quantize_any);
HWY_EXPORT(dequantize_any);

void quantize_blocks(const View& codes, const View& scale, const View& x, const View& x_scale, int64_t rows,
                     int64_t columns, int64_t x_rows, int64_t x_columns, double epsilon, bool power_of_two) {
  if (x.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(quantize_any)
  (codes, scale, x, x_scale, rows, columns, x_rows, x_columns, epsilon, power_of_two);
}
void dequantize_blocks(const View& out, const View& codes, const View& scale, int64_t rows, int64_t columns) {
  if (out.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(dequantize_any)(out, codes, scale, rows, columns);
}

}  // namespace weft::cpu
#endif
