// Products of matrices that are codes: each code becomes a number where it is read, so no matrix of floats is made.
#pragma once

#include "tile.hpp"

namespace weft::portable {

/// An 8-bit number in the lowest byte.
WEFT_DEVICE float number_of_byte(uint32_t byte, DType t) {
  if (t == DType::u8) return (float)(byte & 255u);
  if (t == DType::i8) return (float)(int8_t)(byte & 255u);
  if (t == DType::f8_e4m3fn) {
    float8_e4m3fn x;
    x.bits = (uint8_t)byte;
    return to_float(x);
  }
  float8_e5m2 x;
  x.bits = (uint8_t)byte;
  return to_float(x);
}

/// Rows of codes, as `form` tells them apart.
struct CodedRows {
  /// Byte offsets of a row's codes, scales and zeros, or of an element's along it.
  struct Place {
    int64_t code, scale, zero;
    int shift;  ///< of a code in its byte
    bool inside;
  };
  typedef Place Row;
  typedef Place Depth;
  In codes, scales, zeros;
  const Codes& form;
  int64_t rows, depth;

  WEFT_DEVICE bool runs_along() const { return form.codes.column <= form.codes.row; }
  WEFT_DEVICE Place row(int64_t i) const {
    const int64_t block = form.scales.scale.present ? quotient(i, form.scales.rows) : 0;
    Place p;
    p.code = i * form.codes.row;
    p.scale = block * form.scales.scale.row;
    p.zero = block * form.zero.row;
    p.shift = 0;
    p.inside = i < rows;
    return p;
  }
  WEFT_DEVICE Place at_depth(int64_t k) const {
    const int64_t block = form.scales.scale.present ? quotient(k, form.scales.columns) : 0;
    Place p;
    p.code = (form.bits == 4 ? k >> 1 : k) * form.codes.column;
    p.scale = block * form.scales.scale.column;
    p.zero = block * form.zero.column;
    p.shift = form.bits == 4 ? (int)(k & 1) * 4 : 0;
    p.inside = k < depth;
    return p;
  }
  WEFT_DEVICE float at(const Place& row, const Place& k) const {
    if (!row.inside || !k.inside) return 0;
    const In from = codes + row.code + k.code;
    const float code =
        form.bits > 8 ? Memory<float>::load(from, form.codes.dtype) : code_of(peek<uint8_t>(from) >> k.shift);
    return number_of(code, row, k);
  }

  /// The type of a code, and its decoded value.
  WEFT_DEVICE float code_of(uint32_t bits) const {
    return form.bits == 4 ? (float)(bits & 15u) : number_of_byte(bits, form.codes.dtype);
  }
  WEFT_DEVICE float number_of(float code, const Place& row, const Place& k) const {
    if (!form.scales.scale.present) return code;
    const float scaled = (code - (float)form.offset) * peek<float>(scales + row.scale + k.scale);
    return form.zero.present ? scaled + peek<float>(zeros + row.zero + k.zero) : scaled;
  }
};

WEFT_DEVICE void put_coded(Out out, In start, const CodedProduct& plan, int64_t row, int64_t column, float value) {
  if (row >= plan.m || column >= plan.n) return;
  if (plan.start.present) {
    value = value + Memory<float>::load(start + row * plan.start.row + column * plan.start.column, plan.start.dtype);
  }
  Memory<float>::store(out + row * plan.out.row + column * plan.out.column, plan.out.dtype, value);
}

WEFT_DEVICE float scale_at(In scales, const BlockScales& at, int64_t i, int64_t j) {
  return peek<float>(scales + quotient(i, at.rows) * at.scale.row + quotient(j, at.columns) * at.scale.column);
}

/// The scales of a segment's sums, for rows of a or b.
struct SumScales {
  In data;
  const BlockScales& at;
  int64_t rows;

  WEFT_DEVICE float of(int64_t row, int64_t k) const {
    return at.scale.present && row < rows ? scale_at(data, at, row, k) : 1;
  }
};

/// The operands of a product.
struct CodedOperands {
  CodedRows a, b;
  SumScales a_sums, b_sums;
};
WEFT_DEVICE CodedOperands coded_operands(In a, In a_scales, In b, In b_scales, In b_zeros, const CodedProduct& plan) {
  const CodedOperands in = {{a, a_scales, 0, plan.a, plan.m, plan.k},
                            {b, b_scales, b_zeros, plan.b, plan.n, plan.k},
                            {a_scales, plan.a_sums, plan.m},
                            {b_scales, plan.b_sums, plan.n}};
  return in;
}

template <int T>
WEFT_DEVICE void coded_tile(Out out, In start, const CodedOperands& in, const CodedProduct& plan,
                            WEFT_LOCAL float* left, WEFT_LOCAL float* right) {
  enum { edge = tile_edge * T };
  const int64_t columns = (plan.n + edge - 1) / edge, number = tile_number(), line = quotient(number, columns);
  const int64_t first_row = line * edge, first_column = (number - line * columns) * edge;
  float sum[T][T];
  clear_tile<float, T>(sum);
  for (int64_t k = 0; k < plan.k; k += plan.segment) {
    const int64_t end = k + plan.segment < plan.k ? k + plan.segment : plan.k;
    float part[T][T];
    multiply_rows<float, T>(part, in.a, in.b, first_row, first_column, k, end, left, right);
    for (int i = 0; i < T; ++i) {
      const float a_scale = in.a_sums.of(first_row + tile_row(i), k);
      for (int j = 0; j < T; ++j) {
        sum[i][j] = sum[i][j] + part[i][j] * a_scale * in.b_sums.of(first_column + tile_column(j), k);
      }
    }
  }
  for (int i = 0; i < T; ++i) {
    for (int j = 0; j < T; ++j) {
      put_coded(out, start, plan, first_row + tile_row(i), first_column + tile_column(j), sum[i][j]);
    }
  }
}

/// A team for a column and a few rows, so that each code of b is read once for them; a lane takes `run` codes, which
/// are a word where there are several.
WEFT_DEVICE void coded_lines(Out out, In start, const CodedOperands& in, const CodedProduct& plan,
                             WEFT_LOCAL float* shared) {
  const Team team = team_here(false);
  const int64_t block = quotient(team.number, plan.n), column = team.number - block * plan.n;
  const int64_t first = block * coded_rows_together;
  const bool active = first < plan.m;
  CodedRows::Place rows[coded_rows_together];
  float sum[coded_rows_together];
  for (int r = 0; r < coded_rows_together; ++r) {
    rows[r] = in.a.row(first + r);
    sum[r] = 0;
  }
  const CodedRows::Place codes = in.b.row(column);
  for (int64_t k = (int64_t)team.lane * plan.run; active && k < plan.k; k += (int64_t)team.lanes * plan.run) {
    const CodedRows::Place begin = in.b.at_depth(k);
    const In from = in.b.codes + codes.code + begin.code;
    const uint32_t word = plan.run > 1 ? peek<uint32_t>(from) : (uint32_t)peek<uint8_t>(from) >> begin.shift;
    float part[coded_rows_together];
    for (int r = 0; r < coded_rows_together; ++r) part[r] = 0;
    for (int t = 0; t < plan.run; ++t) {
      const float weight = in.b.number_of(in.b.code_of(word >> (t * plan.b.bits)), codes, begin);
      const CodedRows::Place depth = in.a.at_depth(k + t);
      for (int r = 0; r < coded_rows_together; ++r) part[r] = part[r] + in.a.at(rows[r], depth) * weight;
    }
    const float b_scale = in.b_sums.of(column, k);
    for (int r = 0; r < coded_rows_together; ++r) {
      sum[r] = sum[r] + part[r] * in.a_sums.of(first + r, k) * b_scale;
    }
  }
  for (int r = 0; r < coded_rows_together; ++r) {
    const float all = combine_team<Plus>(team, shared, sum[r]);
    if (active && team.lane == 0) put_coded(out, start, plan, first + r, column, all);
  }
}

}  // namespace weft::portable
