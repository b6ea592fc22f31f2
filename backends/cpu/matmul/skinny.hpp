// Products of a few rows with a large matrix, which is read once and in place: 16-bit numbers are widened in registers.
#pragma once

#include <cstdint>

#include "../../../tensor/dtype.hpp"

namespace weft::cpu {

/// The most rows that skinny_product takes.
inline constexpr int64_t skinny_rows = 8;

/// A matrix of f16, bf16 or f32; `row` and `column` count elements, and one of them is 1.
struct WideMatrix {
  const void* data;
  DType dtype;
  int64_t row, column;

  WideMatrix from(int64_t i, int64_t j) const {
    const char* at = static_cast<const char*>(data) + (i * row + j * column) * itemsize(dtype);
    return {at, dtype, row, column};
  }
};

/// c [m, n] = a [m, k] · b [k, n] in f32. Rows of a are dense, those of c `stride` apart; m is at most skinny_rows, and
/// a row of c does not depend on it.
void skinny_product(int64_t m, int64_t n, int64_t k, const float* a, const WideMatrix& b, float* c, int64_t stride);

}  // namespace weft::cpu
