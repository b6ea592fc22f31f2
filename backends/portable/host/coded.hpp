// Matrices of codes, as kernels take them.
#pragma once

#include "launch.hpp"

namespace weft::portable::host {

/// Codes or floats, with the addresses of their scales and zeros.
struct CodedMatrix {
  View codes, scale, zero;
  portable::Codes form;
};

/// Columns of a block of blockwise_matmul's.
inline constexpr int64_t block_columns = 128;

/// 8-bit floats with one scale per block of rows x columns.
CodedMatrix coded(const View& codes, const View& scale, int64_t rows, int64_t columns);
/// Integers of 8 or 4 bits, as quantized_matmul has them.
CodedMatrix grouped(const View& codes, const View& scale, const View& zero, int64_t bits, int64_t group);

/// out [m, n] = the decoded values, rounded once.
void decode(const View& out, const CodedMatrix& codes);

}  // namespace weft::portable::host
