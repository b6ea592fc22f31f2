// Products with weights of 8 or 4 bits. A few rows are multiplied with codes as they are read, so that the call is
// limited by reading the weight; for more rows, panels of the weight are converted to floats.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/quantize/quantized_matmul.cpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "../kernels.hpp"
#include "../lines.hpp"
#include "../matmul/gemm.hpp"
#include "../../row_products.hpp"
#include "../thread_pool.hpp"
#include "quantized_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
using Ints = hn::RebindToSigned<D>;
constexpr int64_t width = static_cast<int64_t>(hn::MaxLanes(D()));

/// Sixteen codes of a group, decoded to weights. `Code` is int8_t or uint8_t.
template <class Code>
struct Bytes {
  V scale, zero;
  HWY_INLINE Bytes(float s, float z) : scale(hn::Set(D(), s)), zero(hn::Set(D(), z)) {}
  HWY_INLINE V weights(const uint8_t* codes) const {
    const auto wide = hn::PromoteTo(Ints(), hn::LoadU(hn::Rebind<Code, D>(), reinterpret_cast<const Code*>(codes)));
    return hn::MulAdd(hn::ConvertTo(D(), wide), scale, zero);
  }
};

/// Pairs of 4 bits: the weights of even columns, and of odd ones.
struct Nibbles {
#if HWY_TARGET == HWY_AVX3
  V table;
  HWY_INLINE Nibbles(float s, float z) : table(hn::MulAdd(hn::Iota(D(), 0.0f), hn::Set(D(), s), hn::Set(D(), z))) {}
  HWY_INLINE void weights(const uint8_t* codes, V& even, V& odd) const {
    const auto wide = hn::PromoteTo(Ints(), hn::LoadU(hn::Rebind<uint8_t, D>(), codes));
    even.raw = _mm512_permutexvar_ps(wide.raw, table.raw);  // reads the lowest four bits
    odd.raw = _mm512_permutexvar_ps(hn::ShiftRight<4>(wide).raw, table.raw);
  }
#else
  V scale, zero;
  HWY_INLINE Nibbles(float s, float z) : scale(hn::Set(D(), s)), zero(hn::Set(D(), z)) {}
  HWY_INLINE void weights(const uint8_t* codes, V& even, V& odd) const {
    const auto wide = hn::PromoteTo(Ints(), hn::LoadU(hn::Rebind<uint8_t, D>(), codes));
    even = hn::MulAdd(hn::ConvertTo(D(), hn::And(wide, hn::Set(Ints(), 15))), scale, zero);
    odd = hn::MulAdd(hn::ConvertTo(D(), hn::ShiftRight<4>(wide)), scale, zero);
  }
#endif
};

/// One weight, for the remainder of a group.
HWY_INLINE float weight_at(const QuantizedRows& w, const uint8_t* row, int64_t j, float scale, float zero) {
  if (w.bits == 4) return static_cast<float>(row[j / 2] >> (j % 2 * 4) & 15) * scale + zero;
  const float code = w.is_signed ? static_cast<float>(static_cast<int8_t>(row[j])) : static_cast<float>(row[j]);
  return code * scale + zero;
}

/// Sums of products of a row of the weight, one after the other as memory is read fastest, with `count` rows of x.
template <int count, class Code>
struct RowProducts {
  static constexpr bool nibbles = std::is_void_v<Code>;
  static constexpr int parts = 4;
  V sum[count][parts];
  float rest[count] = {};

  HWY_INLINE RowProducts() {
    for (auto& line : sum)
      for (V& v : line) v = hn::Zero(D());
  }
  /// x's even columns come before its odd ones where codes are of 4 bits.
  HWY_INLINE void add_group(const QuantizedRows& w, int64_t row, const float* x, int64_t x_row, int64_t group) {
    const int64_t begin = group * w.group, end = std::min(w.columns, begin + w.group);
    constexpr int64_t step = nibbles ? 2 * width : width;
    const int64_t whole = begin + (end - begin) / step * step;
    const float scale = w.scale_at(row, group), zero = w.zero_at(row, group);
    const uint8_t* const codes = w.row(row);
    if constexpr (nibbles) add_nibbles(codes, {scale, zero}, x, x_row, w.half(), begin / 2, whole / 2);
    else add_bytes(codes, Bytes<Code>(scale, zero), x, x_row, begin, whole);
    for (int64_t j = whole; j < end; ++j) {
      const float weight = weight_at(w, codes, j, scale, zero);
      const int64_t at = nibbles ? j / 2 + j % 2 * w.half() : j;
      for (int m = 0; m < count; ++m) rest[m] += x[m * x_row + at] * weight;
    }
  }
  HWY_INLINE void add(int part, V weights, const float* x, int64_t x_row) {
#pragma GCC unroll 4
    for (int m = 0; m < count; ++m) sum[m][part] = hn::MulAdd(hn::LoadU(D(), x + m * x_row), weights, sum[m][part]);
  }
  template <class Weights>
  HWY_INLINE void add_bytes(const uint8_t* codes, const Weights& of, const float* x, int64_t x_row, int64_t begin,
                            int64_t end) {
    int64_t j = begin;
    for (; j + parts * width <= end; j += parts * width) {
#pragma GCC unroll 4
      for (int p = 0; p < parts; ++p) add(p, of.weights(codes + j + p * width), x + j + p * width, x_row);
    }
    for (; j < end; j += width) add(0, of.weights(codes + j), x + j, x_row);
  }
  HWY_INLINE void add_nibbles(const uint8_t* codes, const Nibbles& of, const float* x, int64_t x_row, int64_t half,
                              int64_t begin, int64_t end) {
    const auto add_pair = [&](int part, int64_t j) HWY_ATTR {
      V even, odd;
      of.weights(codes + j, even, odd);
      add(part, even, x + j, x_row);
      add(part + 1, odd, x + half + j, x_row);
    };
    int64_t j = begin;
    for (; j + 2 * width <= end; j += 2 * width) {
      add_pair(0, j);
      add_pair(2, j + width);
    }
    if (j < end) add_pair(0, j);
  }
  HWY_INLINE float total(int m) const {
    const V all = hn::Add(hn::Add(sum[m][0], sum[m][1]), hn::Add(sum[m][2], sum[m][3]));
    return hn::GetLane(hn::SumOfLanes(D(), all)) + rest[m];
  }
};

/// out[m, r] for four rows of the weight.
template <int count, class Code>
void multiply_block(const QuantizedRows& w, int64_t row, const float* x, int64_t x_row, float* out, int64_t out_row) {
  const int64_t groups = w.groups();
  for (int r = 0; r < 4; ++r) {
    RowProducts<count, Code> products;
    for (int64_t g = 0; g < groups; ++g) products.add_group(w, row + r, x, x_row, g);
    for (int m = 0; m < count; ++m) out[m * out_row + r] = products.total(m);
  }
}

template <class Code>
void multiply_some(int count, const QuantizedRows& w, int64_t row, const float* x, int64_t x_row, float* out,
                   int64_t out_row) {
  switch (count) {
    case 1:
      return multiply_block<1, Code>(w, row, x, x_row, out, out_row);
    case 2:
      return multiply_block<2, Code>(w, row, x, x_row, out, out_row);
    case 3:
      return multiply_block<3, Code>(w, row, x, x_row, out, out_row);
    default:
      return multiply_block<4, Code>(w, row, x, x_row, out, out_row);
  }
}

/// Four rows of the weight from `row` on, of which some may be past the end of a copy, by rows of x.
void multiply_rows(const QuantizedRows& w, int64_t row, int64_t m, const float* x, int64_t x_row, float* out,
                   int64_t out_row) {
  for (int64_t i = 0; i < m; i += 4) {
    const int count = static_cast<int>(std::min<int64_t>(4, m - i));
    const auto multiply = w.bits == 4   ? multiply_some<void>
                          : w.is_signed ? multiply_some<int8_t>
                                        : multiply_some<uint8_t>;
    multiply(count, w, row, x + i * x_row, x_row, out + i * out_row, out_row);
  }
}

/// One row of the weight as floats.
void expand_row(const QuantizedRows& w, int64_t row, float* to) {
  const uint8_t* const codes = w.row(row);
  for (int64_t begin = 0, g = 0; begin < w.columns; begin += w.group, ++g) {
    const int64_t end = std::min(w.columns, begin + w.group);
    const float scale = w.scale_at(row, g), zero = w.zero_at(row, g);
    int64_t j = begin;
    if (w.bits == 4) {
      const Nibbles table(scale, zero);
      for (; j + 2 * width <= end; j += 2 * width) {
        V even, odd;
        table.weights(codes + j / 2, even, odd);
        hn::StoreInterleaved2(even, odd, D(), to + j);
      }
    } else if (w.is_signed) {
      const Bytes<int8_t> bytes(scale, zero);
      for (; j + width <= end; j += width) hn::StoreU(bytes.weights(codes + j), D(), to + j);
    } else {
      const Bytes<uint8_t> bytes(scale, zero);
      for (; j + width <= end; j += width) hn::StoreU(bytes.weights(codes + j), D(), to + j);
    }
    for (; j < end; ++j) to[j] = weight_at(w, codes, j, scale, zero);
  }
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(multiply_rows);
HWY_EXPORT(expand_row);

namespace {

/// As many rows of x are multiplied with codes.
constexpr int64_t few = 8;
constexpr int64_t panel_rows = 128;

/// x as f32, rows `row` apart: in place, or a copy; even columns before odd ones where `splits`.
class Inputs {
 public:
  Inputs(const View& x, bool splits, int64_t row)
      : row_(row), memory_(static_cast<size_t>(x.layout.sizes[0] * row) * 4 + 64) {
    const int64_t m = x.layout.sizes[0], k = x.layout.sizes[1];
    const Workspace line(static_cast<size_t>(k) * 4 + 64);
    for (int64_t i = 0; i < m; ++i) {
      float* const to = memory_.as<float>() + i * row;
      float* const from = splits ? line.as<float>() : to;
      load_line(from, bytes(x) + i * x.layout.strides[0], x.layout.strides[1], k, x.layout.dtype);
      if (!splits) continue;
      for (int64_t j = 0; j < k; ++j) to[j / 2 + j % 2 * (row / 2)] = from[j];
    }
  }
  const float* data() const { return memory_.as<float>(); }
  int64_t row() const { return row_; }

 private:
  int64_t row_;
  Workspace memory_;
};

void store_row(const View& out, int64_t i, int64_t j, float* sums, int64_t n, const View& bias) {
  if (bias.data != nullptr) {
    float added[panel_rows];
    load_line(added, bytes(bias) + j * bias.layout.strides[0], bias.layout.strides[0], n, bias.layout.dtype);
    for (int64_t c = 0; c < n; ++c) sums[c] += added[c];
  }
  store_line(bytes(out) + i * out.layout.strides[0] + j * out.layout.strides[1], out.layout.strides[1],
             out.layout.dtype, sums, n);
}

/// The last rows of a weight with a number of rows that is no multiple of four, repeated.
class LastRows {
 public:
  LastRows(const QuantizedRows& w, int64_t row, int64_t count)
      : memory_(static_cast<size_t>(4 * w.stride) + 64),
        scales_(static_cast<size_t>(8 * w.groups()) * 4 + 64),
        rows(w) {
    const int64_t groups = w.groups();
    float *const scale = scales_.as<float>(), *const zero = scale + 4 * groups;
    for (int64_t r = 0; r < 4; ++r) {
      const int64_t from = row + std::min(r, count - 1);
      std::memcpy(memory_.as<uint8_t>() + r * w.stride, w.row(from), static_cast<size_t>(w.stride));
      std::copy_n(w.scale + from * groups, groups, scale + r * groups);
      if (w.zero != nullptr) std::copy_n(w.zero + from * groups, groups, zero + r * groups);
    }
    rows.codes = memory_.as<uint8_t>();
    rows.scale = scale;
    if (w.zero != nullptr) rows.zero = zero;
  }

 private:
  Workspace memory_, scales_;

 public:
  QuantizedRows rows;
};

/// multiply(w, row, sums) writes the products of four rows of the weight for each panel's columns.
template <class Multiply>
void multiply_panels(const View& out, const QuantizedRows& w, const View& bias, Multiply&& multiply) {
  const int64_t m = out.layout.sizes[0], n = out.layout.sizes[1];
  const int64_t chunk = std::max<int64_t>(rows_per_chunk(w.columns) / panel_rows, 1);
  parallel_for((n + panel_rows - 1) / panel_rows, chunk, [&](int64_t begin, int64_t end) {
    float sums[few * panel_rows];
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * panel_rows, count = std::min(panel_rows, n - first), whole = count / 4 * 4;
      for (int64_t j = 0; j < whole; j += 4) multiply(w, first + j, sums + j);
      if (whole < count) {
        const LastRows last(w, first + whole, count - whole);
        multiply(last.rows, 0, sums + whole);
      }
      for (int64_t i = 0; i < m; ++i) store_row(out, i, first, sums + i * panel_rows, count, bias);
    }
  });
}

void multiply_few(const View& out, const View& x, const QuantizedRows& w, const View& bias) {
  const Inputs in(x, w.bits == 4, w.bits == 4 ? 2 * w.half() : w.columns);
  multiply_panels(out, w, bias, [&](const QuantizedRows& rows, int64_t row, float* sums) {
    HWY_DYNAMIC_DISPATCH(multiply_rows)(rows, row, x.layout.sizes[0], in.data(), in.row(), sums, panel_rows);
  });
}

/// x for products of integers.
class Integers {
 public:
  Integers(const View& x, const QuantizedRows& w)
      : plane_size_((w.bits == 4 ? w.half() : w.columns) + 64),
        row_(plane_size_ * (w.bits == 4 ? 4 : 2)),
        memory_(static_cast<size_t>(x.layout.sizes[0]) * static_cast<size_t>(row_ + w.groups() * 72) + 64) {
    const int64_t m = x.layout.sizes[0], groups = w.groups();
    scales_ = memory_.as<float>();
    sums_ = scales_ + m * groups;
    starts_ = reinterpret_cast<int32_t*>(sums_ + m * groups);
    planes_ = reinterpret_cast<int8_t*>(starts_ + 16 * m * groups);
    std::fill_n(planes_, m * row_, int8_t{0});
    const Workspace line(static_cast<size_t>(w.columns) * 4 + 64);
    float* const numbers = line.as<float>();
    for (int64_t i = 0; i < m; ++i) {
      load_line(numbers, bytes(x) + i * x.layout.strides[0], x.layout.strides[1], w.columns, x.layout.dtype);
      for (int64_t g = 0; g < groups && finite_; ++g) {
        const int64_t begin = g * w.group;
        set_group(w, i, g, numbers + begin, begin, std::min(w.group, w.columns - begin));
      }
    }
  }
  bool finite() const { return finite_; }
  IntegerInputs inputs() const { return {planes_, plane_size_, row_, scales_, sums_, starts_}; }

 private:
  void set_group(const QuantizedRows& w, int64_t i, int64_t g, const float* x, int64_t column, int64_t n) {
    int8_t* const to = planes_ + i * row_ + (w.bits == 4 ? column / 2 : column);
    const int64_t entry = i * w.groups() + g;
    const WholeNumbers numbers = to_whole_numbers(w, x, n, to, plane_size_, starts_ + 16 * entry);
    finite_ = finite_ && numbers.scale > 0;
    scales_[entry] = numbers.scale;
    sums_[entry] = numbers.sum;
  }

  int64_t plane_size_, row_;
  Workspace memory_;
  float *scales_, *sums_;
  int32_t* starts_;
  int8_t* planes_;
  bool finite_ = true;
};

/// False where a number is not finite.
bool multiply_few_integers(const View& out, const View& x, const QuantizedRows& w, const View& bias) {
  const Integers in(x, w);
  if (!in.finite()) return false;
  multiply_panels(out, w, bias, [&](const QuantizedRows& rows, int64_t row, float* sums) {
    multiply_integers(rows, row, x.layout.sizes[0], in.inputs(), sums, panel_rows);
  });
  return true;
}

/// Some rows of out and x.
View rows_from(const View& view, int64_t first, int64_t count) {
  View rows = view;
  Layout& l = rows.layout;
  rows.data = static_cast<char*>(view.data) + first * l.strides[0];
  l.numel = l.numel / l.sizes[0] * count;
  l.sizes[0] = count;
  return rows;
}

/// As few at a time as the codes are read for. A row that is not finite leaves the others as they are without it.
void multiply_by_rows(const View& out, const View& x, const QuantizedRows& w, const View& bias, int64_t at_once) {
  const int64_t m = x.layout.sizes[0];
  const bool is_integer = itemsize(x.layout.dtype) == 2 && takes_integers(w);
  for (int64_t i = 0; i < m; i += at_once) {
    const int64_t count = std::min(at_once, m - i);
    const View to = rows_from(out, i, count), from = rows_from(x, i, count);
    if (is_integer && multiply_few_integers(to, from, w, bias)) continue;
    if (is_integer && count > 1) multiply_by_rows(to, from, w, bias, 1);
    else multiply_few(to, from, w, bias);
  }
}

/// Rows [first, first + count) of w as bfloat16.
void expand_to_bf16(const QuantizedRows& w, int64_t first, int64_t count, float* line, uint16_t* to) {
  for (int64_t r = 0; r < count; ++r) {
    HWY_DYNAMIC_DISPATCH(expand_row)(w, first + r, line);
    store_line(reinterpret_cast<char*>(to + r * w.columns), 2, DType::bf16, line, w.columns);
  }
}

void multiply_bf16(const View& out, const View& x, const QuantizedRows& w, const View& bias) {
  const int64_t m = x.layout.sizes[0], n = out.layout.sizes[1], k = w.columns;
  const auto* const a = static_cast<const uint16_t*>(x.data);
  const auto* const added = static_cast<const uint16_t*>(bias.data);
  parallel_for((n + panel_rows - 1) / panel_rows, 1, [&](int64_t begin, int64_t end) {
    const Workspace memory(static_cast<size_t>(panel_rows * k) * 2 + static_cast<size_t>(k) * 4 + 64);
    float* const line = memory.as<float>();
    auto* const panel = reinterpret_cast<uint16_t*>(line + k);
    for (int64_t p = begin; p < end; ++p) {
      const int64_t j = p * panel_rows, count = std::min(panel_rows, n - j);
      expand_to_bf16(w, j, count, line, panel);
      bf16_gemm(m, count, k, {a, x.layout.strides[0] / 2, 1}, {panel, 1, k}, added != nullptr ? added + j : nullptr,
                static_cast<uint16_t*>(out.data) + j, out.layout.strides[0] / 2);
    }
  });
}

void multiply_f32(const View& out, const View& x, const QuantizedRows& w, const View& bias) {
  const int64_t m = x.layout.sizes[0], n = out.layout.sizes[1], k = w.columns;
  std::optional<Inputs> copy;
  if (x.layout.dtype != DType::f32) copy.emplace(x, false, k);
  const Matrix<float> a = copy ? Matrix<float>{copy->data(), k, 1}
                               : Matrix<float>{static_cast<const float*>(x.data), x.layout.strides[0] / 4, 1};
  const GemmCode code = choose_gemm<float>(m, panel_rows, k);
  parallel_for((n + panel_rows - 1) / panel_rows, 1, [&](int64_t begin, int64_t end) {
    const Workspace memory(static_cast<size_t>(panel_rows * (k + m)) * 4);
    float *const panel = memory.as<float>(), *const sums = panel + panel_rows * k;
    for (int64_t p = begin; p < end; ++p) {
      const int64_t j = p * panel_rows, count = std::min(panel_rows, n - j);
      for (int64_t r = 0; r < count; ++r) HWY_DYNAMIC_DISPATCH(expand_row)(w, j + r, panel + r * k);
      gemm<float>(code, m, count, k, a, {panel, 1, k}, {}, sums, count);
      for (int64_t i = 0; i < m; ++i) store_row(out, i, j, sums + i * count, count, bias);
    }
  });
}

}  // namespace

void quantized_matmul(const View& out, const View& x, const View& codes, const View& scale, const View& zero,
                      const View& bias, int64_t bits, int64_t group) {
  if (out.layout.numel == 0) return;
  const int64_t m = x.layout.sizes[0];
  const QuantizedRows w{static_cast<const uint8_t*>(codes.data),
                        codes.layout.strides[0],
                        static_cast<const float*>(scale.data),
                        static_cast<const float*>(zero.data),
                        x.layout.sizes[1],
                        group,
                        bits,
                        codes.layout.dtype == DType::i8};
  const bool dense_bias = bias.data == nullptr || bias.layout.strides[0] == 2 || bias.layout.sizes[0] == 1;
  if (m <= few || detail::products_by_rows) multiply_by_rows(out, x, w, bias, few);
  else if (x.layout.dtype == DType::bf16 && dense_bias && has_fast_bf16_gemm(m, panel_rows))
    multiply_bf16(out, x, w, bias);
  else multiply_f32(out, x, w, bias);
}

}  // namespace weft::cpu
#endif
