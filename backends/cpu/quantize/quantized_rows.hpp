// A weight of 8 or 4 bits as kernels read it.
#pragma once

#include <cstdint>

namespace weft::cpu {

struct QuantizedRows {
  const uint8_t* codes;
  int64_t stride;      ///< bytes of a row
  const float* scale;  ///< [rows, groups]
  const float* zero;   ///< the same, or null
  int64_t columns, group, bits;
  bool is_signed;

  int64_t groups() const { return (columns + group - 1) / group; }
  int64_t half() const { return (columns + 1) / 2; }
  const uint8_t* row(int64_t i) const { return codes + i * stride; }
  float scale_at(int64_t i, int64_t g) const { return scale[i * groups() + g]; }
  /// What code 0 stands for.
  float zero_at(int64_t i, int64_t g) const {
    if (zero != nullptr) return zero[i * groups() + g];
    return bits == 4 ? -8 * scale_at(i, g) : 0.0f;
  }
};

/// Rows of bfloat16, `row` numbers apart, with zeros up to a multiple of 32: even columns, which the low halves of
/// codes are multiplied with, and odd ones; and the sums of each group.
struct PairInputs {
  const uint16_t *low, *high;
  int64_t row;
  const float* sums;  ///< [rows, groups]
};
bool takes_pairs(const QuantizedRows& w);
/// out[i, r] for four rows of the weight and m of x, which are finite.
void multiply_pairs(const QuantizedRows& w, int64_t row, int64_t m, const PairInputs& x, float* out, int64_t out_row);

}  // namespace weft::cpu
