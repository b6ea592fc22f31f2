// Products of 8-bit floats with a scale for each block of 128 columns: each block is summed separately, and scaled in
// f32.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/quantize/blockwise_matmul.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include "code_lines.hpp"
#include "fp8-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class F>
void to_floats(float* to, const uint8_t* codes, int64_t n) {
  fp8::decode_line<F>(to, codes, 1, n);
}
/// Every number of 8 bits is one of bf16.
template <class F>
void to_bf16(uint16_t* to, const uint8_t* codes, int64_t n) {
  alignas(64) float numbers[128];
  for (int64_t i = 0; i < n; i += 128) {
    const int64_t count = n - i < 128 ? n - i : 128;
    fp8::decode_line<F>(numbers, codes + i, 1, count);
    for (int64_t j = 0; j < count; ++j) to[i + j] = static_cast<uint16_t>(float_bits(numbers[j]) >> 16);
  }
}

CodeLines choose_code_lines(bool e4m3) {
  if (e4m3) return {to_floats<fp8::E4m3>, to_bf16<fp8::E4m3>};
  return {to_floats<fp8::E5m2>, to_bf16<fp8::E5m2>};
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstring>

#include "../kernels.hpp"
#include "../lines.hpp"
#include "../matmul/gemm.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
HWY_EXPORT(choose_code_lines);

CodeLines code_lines(DType dtype) { return HWY_DYNAMIC_DISPATCH(choose_code_lines)(dtype == DType::f8_e4m3fn); }

namespace {

constexpr int64_t depth = 128, tile_columns = 512, tile_rows = 384, band = 96;

/// Codes [rows, k] with their scales.
struct Coded {
  const uint8_t* codes;
  int64_t row;
  CodeLines lines;
  const char* scale;
  int64_t scale_row, scale_column, block_rows;

  Coded(const View& view, const View& scales, int64_t rows)
      : codes(static_cast<const uint8_t*>(view.data)),
        row(view.layout.strides[0]),
        lines(code_lines(view.layout.dtype)),
        scale(bytes(scales)),
        scale_row(scales.layout.strides[0]),
        scale_column(scales.layout.strides[1]),
        block_rows(rows) {}
  const uint8_t* at(int64_t i, int64_t p) const { return codes + i * row + p; }
  void scales(float* to, int64_t i, int64_t count, int64_t block) const {
    for (int64_t r = 0; r < count; ++r) {
      std::memcpy(to + r, scale + (i + r) / block_rows * scale_row + block * scale_column, 4);
    }
  }
};

/// A rectangle of the result, as sums in f32.
struct Sums {
  float* data;
  int64_t stride, row, rows, column, columns;
};

void add_by_pairs(const Sums& c, const Coded& a, const Coded& b, int64_t k) {
  const int64_t lines = pair_panel_size(c.columns, depth);
  const Workspace memory(static_cast<size_t>(lines + (c.columns + band + 64) + (c.columns + band) * depth / 2 + 64) *
                         4);
  uint32_t* const panels = memory.as<uint32_t>();
  float* const b_scale = reinterpret_cast<float*>(panels + lines);
  float* const a_scale = b_scale + (c.columns + 15) / 16 * 16;
  uint16_t* const left = reinterpret_cast<uint16_t*>(a_scale + band);
  uint16_t* const right = left + band * depth;
  for (int64_t p = 0; p < k; p += depth) {
    const int64_t kp = std::min(depth, k - p), stride = (kp + 1) / 2 * 2;
    for (int64_t j = 0; j < c.columns; ++j) {
      right[j * stride + stride - 1] = 0;
      b.lines.to_bf16(right + j * stride, b.at(c.column + j, p), kp);
    }
    pack_pairs(stride, c.columns, right, panels);
    b.scales(b_scale, c.column, c.columns, p / depth);
    for (int64_t i = 0; i < c.rows; i += band) {
      const int64_t mi = std::min(band, c.rows - i);
      for (int64_t r = 0; r < mi; ++r) {
        left[r * stride + stride - 1] = 0;
        a.lines.to_bf16(left + r * stride, a.at(c.row + i + r, p), kp);
      }
      a.scales(a_scale, c.row + i, mi, p / depth);
      pair_product_scaled(mi, c.columns, stride, left, panels, a_scale, b_scale, c.data + i * c.stride, c.stride);
    }
  }
}

void add_in_f32(const Sums& c, const Coded& a, const Coded& b, int64_t k) {
  const Workspace memory(static_cast<size_t>((c.rows + c.columns) * (depth + 1) + c.rows * c.columns) * 4);
  float* const left = memory.as<float>();
  float* const right = left + c.rows * depth;
  float *const product = right + c.columns * depth, *const a_scale = product + c.rows * c.columns;
  float* const b_scale = a_scale + c.rows;
  for (int64_t p = 0; p < k; p += depth) {
    const int64_t kp = std::min(depth, k - p);
    for (int64_t i = 0; i < c.rows; ++i) a.lines.to_floats(left + i * kp, a.at(c.row + i, p), kp);
    for (int64_t j = 0; j < c.columns; ++j) b.lines.to_floats(right + j * kp, b.at(c.column + j, p), kp);
    a.scales(a_scale, c.row, c.rows, p / depth);
    b.scales(b_scale, c.column, c.columns, p / depth);
    native_gemm(c.rows, c.columns, kp, Matrix<float>{left, kp, 1}, Matrix<float>{right, 1, kp}, Addend<float>{},
                product, c.columns);
    for (int64_t i = 0; i < c.rows; ++i) {
      for (int64_t j = 0; j < c.columns; ++j) {
        c.data[i * c.stride + j] += product[i * c.columns + j] * a_scale[i] * b_scale[j];
      }
    }
  }
}

/// The sides of tiles, the smaller the fewer there would be.
struct Sides {
  int64_t rows, columns;
};
Sides sides_of(int64_t m, int64_t n) {
  Sides s{std::min(tile_rows, m), std::min(tile_columns, n)};
  const auto tiles = [&] { return ((m + s.rows - 1) / s.rows) * ((n + s.columns - 1) / s.columns); };
  while (tiles() < 8 && s.columns > 128) s.columns = (s.columns / 2 + 31) / 32 * 32;
  while (tiles() < 8 && s.rows > 2 * band) s.rows = (s.rows / 2 + 11) / 12 * 12;
  return s;
}

}  // namespace

void blockwise_matmul(const View& out, const View& start, const View& a, const View& a_scale, const View& b,
                      const View& b_scale, int64_t a_rows, int64_t b_rows) {
  const int64_t m = out.layout.sizes[0], n = out.layout.sizes[1], k = a.layout.sizes[1];
  if (m == 0 || n == 0) return;
  const Coded left(a, a_scale, a_rows), right(b, b_scale, b_rows);
  const Sides tile = sides_of(m, n);
  const int64_t across = (n + tile.columns - 1) / tile.columns, down = (m + tile.rows - 1) / tile.rows;
  const auto line = [](const View& v, int64_t i, int64_t j) {
    return bytes(v) + i * v.layout.strides[0] + j * v.layout.strides[1];
  };
  parallel_for(across * down, 1, [&](int64_t begin, int64_t end) {
    const Workspace memory(static_cast<size_t>(tile.rows * tile.columns) * sizeof(float));
    for (int64_t at = begin; at < end; ++at) {
      const int64_t i = at / across * tile.rows, j = at % across * tile.columns;
      const Sums sums{memory.as<float>(),           tile.columns, i, std::min(tile.rows, m - i), j,
                      std::min(tile.columns, n - j)};
      for (int64_t r = 0; r < sums.rows; ++r) {
        float* const row = sums.data + r * sums.stride;
        if (start.data == nullptr) std::fill_n(row, sums.columns, 0.0f);
        else load_line(row, line(start, i + r, j), start.layout.strides[1], sums.columns, start.layout.dtype);
      }
      if (has_pair_products()) add_by_pairs(sums, left, right, k);
      else add_in_f32(sums, left, right, k);
      for (int64_t r = 0; r < sums.rows; ++r) {
        store_line(line(out, i + r, j), out.layout.strides[1], out.layout.dtype, sums.data + r * sums.stride,
                   sums.columns);
      }
    }
  });
}

}  // namespace weft::cpu
#endif
