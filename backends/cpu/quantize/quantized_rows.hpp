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

  int64_t groups() const { return columns / group + (columns % group != 0); }
  int64_t half() const { return columns / 2 + columns % 2; }
  const uint8_t* row(int64_t i) const { return codes + i * stride; }
  float scale_at(int64_t i, int64_t g) const { return scale[i * groups() + g]; }
  /// The value of code 0.
  float zero_at(int64_t i, int64_t g) const {
    if (zero != nullptr) return zero[i * groups() + g];
    return bits == 4 ? -8 * scale_at(i, g) : 0.0f;
  }
};

/// Rows of x in whole numbers, a high byte and a low one: number = scale · (256 high + low). A row has planes of
/// `plane_size` bytes, those of high bytes and of low ones, where codes have 4 bits of even columns and then of odd
/// ones; 64 bytes behind the last may be read.
struct IntegerInputs {
  const int8_t* planes;
  int64_t plane_size, row;  ///< bytes
  const float* scales;      ///< [rows, groups]
  const float* sums;        ///< the same: sums of x
  const int32_t* starts;    ///< [rows, groups, 16]: of sums, since codes are taken without their sign

  IntegerInputs from(int64_t m, const QuantizedRows& w) const {
    const int64_t at = m * w.groups();
    return {planes + m * row, plane_size, row, scales + at, sums + at, starts + 16 * at};
  }
};
struct WholeNumbers {
  float scale = 0;  ///< 0 where a number was not finite
  float sum = 0;    ///< of what the numbers stand for
};
/// One group of x, n numbers, to bytes from `to` on in planes `apart` bytes apart; up to 15 zeros follow in each.
/// Writes 16 starts.
WholeNumbers to_whole_numbers(const QuantizedRows& w, const float* x, int64_t n, int8_t* to, int64_t apart,
                              int32_t* starts);
bool takes_integers(const QuantizedRows& w);
/// out[i, r] for four rows of the weight and m of x.
void multiply_integers(const QuantizedRows& w, int64_t row, int64_t m, const IntegerInputs& x, float* out,
                       int64_t out_row);

}  // namespace weft::cpu
