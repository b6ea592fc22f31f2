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

}  // namespace weft::cpu
