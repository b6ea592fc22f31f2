// Quantisation to blocks of 8-bit floats by kernels or by ops. Not public.
#pragma once

#include <string>

#include <fmt/format.h>

#include "../detail/common.hpp"
#include "../quantize.hpp"

namespace weft {

inline constexpr int64_t block_size = 128;
inline int64_t blocks_of(int64_t n, int64_t size = block_size) { return n / size + (n % size != 0); }

/// Sides of a block in a matrix [m, n], at least 1.
struct BlockSides {
  int64_t rows, columns;
};
BlockSides sides_of(QuantBlock block, int64_t m, int64_t n);
Dims scale_shape(BlockSides sides, int64_t m, int64_t n);

inline bool is_fp8(DType t) { return t == DType::f8_e4m3fn || t == DType::f8_e5m2; }

/// Of 8 bits [m, n] with f32 scales of one shape.
void require_codes(const char* what, const Tensor& codes, const Tensor& scale, BlockSides sides);

/// The input: numbers, or codes with scales in blocks of `sides`, which count as bf16.
struct Source {
  Tensor x, scale;
  BlockSides sides = {1, 1};
};
/// Writes codes [m, n] with a dense last dimension, and the two-dimensional scale.
void quantize_into(const Tensor& codes, const Tensor& scale, const Source& source, BlockSides sides, double eps,
                   bool pow2);
/// codes · scale, scale two-dimensional.
Tensor dequantized(const Tensor& codes, const Tensor& scale, BlockSides sides, DType dtype);

}  // namespace weft
