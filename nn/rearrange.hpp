// Other shapes and other sizes as layers: each is the op of its name, and raises what that raises; constructors raise
// what follows from their options.
#pragma once

#include "function_layer.hpp"
#include "../ops/columns.hpp"
#include "../ops/interpolate.hpp"

namespace weft::nn {

/// x itself.
struct WEFT_API Identity : FunctionLayer<Identity> {
  Identity();
};
/// Dimensions start_dim to end_dim as one.
struct WEFT_API Flatten : FunctionLayer<Flatten> {
  explicit Flatten(int start_dim = 1, int end_dim = -1);
};
/// Dimension dim as several.
struct WEFT_API Unflatten : FunctionLayer<Unflatten> {
  Unflatten(int dim, const Dims& unflattened_size);
};
/// weft::interpolate.
struct WEFT_API Upsample : FunctionLayer<Upsample> {
  explicit Upsample(const InterpolateOptions& options, Location where = {});
};
/// [..., channels * r * r, rows, columns] as [..., channels, rows * r, columns * r].
struct WEFT_API PixelShuffle : FunctionLayer<PixelShuffle> {
  explicit PixelShuffle(int64_t upscale_factor, Location where = {});
};
/// [..., channels, rows * r, columns * r] as [..., channels * r * r, rows, columns].
struct WEFT_API PixelUnshuffle : FunctionLayer<PixelUnshuffle> {
  explicit PixelUnshuffle(int64_t downscale_factor, Location where = {});
};
/// The channels, seen as [groups, channels / groups], transposed.
struct WEFT_API ChannelShuffle : FunctionLayer<ChannelShuffle> {
  explicit ChannelShuffle(int64_t groups, Location where = {});
};
/// weft::im2col: the blocks that slide over an image as columns.
struct WEFT_API Unfold : FunctionLayer<Unfold> {
  explicit Unfold(const Dims& kernel_size, const ColumnOptions& options = {}, Location where = {});
};
/// weft::col2im: the image that columns sum up to.
struct WEFT_API Fold : FunctionLayer<Fold> {
  Fold(const Dims& output_size, const Dims& kernel_size, const ColumnOptions& options = {}, Location where = {});
};

}  // namespace weft::nn
