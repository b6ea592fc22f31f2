// The blocks that slide over an image as columns, and back. Each op is the other's gradient.
//
// A list has one value for each of the two dimensions, or one for both (else ValueError). There are
// L = (size + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1 blocks along a dimension; ShapeError where there
// is none.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

struct ColumnOptions {
  /// Between the elements of one block.
  Dims dilation = 1;
  /// Places around the image, which hold 0.
  Dims padding = 0;
  /// From one block to the next.
  Dims stride = 1;
};

/// x [N, C, H, W] or [C, H, W] as [N, C * block, L] or [C * block, L]: a column for each block, in row-major order.
/// Raises ShapeError for other ranks, ValueError for a kernel size, dilation or stride below 1 and a negative padding.
[[nodiscard]] WEFT_API Tensor im2col(const Tensor& x, const Dims& kernel_size, const ColumnOptions& options = {},
                                     Location where = {});
/// The image [N, C, H, W] of output_size [H, W]. Each element is the sum of its entries in the columns x [N, C * block,
/// L] or [C * block, L]. 16-bit floats are summed in f32. Raises ShapeError if x does not fit, DTypeError for bool.
[[nodiscard]] WEFT_API Tensor col2im(const Tensor& x, const Dims& output_size, const Dims& kernel_size,
                                     const ColumnOptions& options = {}, Location where = {});

}  // namespace weft
