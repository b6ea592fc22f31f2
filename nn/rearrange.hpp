// Layers that reshape or resize. Each calls the op of the same name and raises its errors; constructors raise the
// errors that follow from their options.
#pragma once

#include "function_layer.hpp"
#include "../ops/columns.hpp"
#include "../ops/interpolate.hpp"

namespace weft::nn {

/// Returns x itself.
struct WEFT_API Identity : FunctionLayer<Identity> {
  Identity();
};
/// Merges dimensions start_dim to end_dim.
struct WEFT_API Flatten : FunctionLayer<Flatten> {
  explicit Flatten(int start_dim = 1, int end_dim = -1, Location where = {});
};
/// Splits dimension dim into several.
struct WEFT_API Unflatten : FunctionLayer<Unflatten> {
  Unflatten(int dim, const Dims& unflattened_size, Location where = {});
};
/// weft::interpolate.
struct WEFT_API Upsample : FunctionLayer<Upsample> {
  explicit Upsample(const InterpolateOptions& options, Location where = {});
};
/// [..., channels * r * r, rows, columns] -> [..., channels, rows * r, columns * r].
struct WEFT_API PixelShuffle : FunctionLayer<PixelShuffle> {
  explicit PixelShuffle(int64_t upscale_factor, Location where = {});
};
/// [..., channels, rows * r, columns * r] -> [..., channels * r * r, rows, columns].
struct WEFT_API PixelUnshuffle : FunctionLayer<PixelUnshuffle> {
  explicit PixelUnshuffle(int64_t downscale_factor, Location where = {});
};
/// Transposes the channels viewed as [groups, channels / groups].
struct WEFT_API ChannelShuffle : FunctionLayer<ChannelShuffle> {
  explicit ChannelShuffle(int64_t groups, Location where = {});
};
/// weft::im2col: the sliding blocks of an image as columns.
struct WEFT_API Unfold : FunctionLayer<Unfold> {
  explicit Unfold(const Dims& kernel_size, const ColumnOptions& options = {}, Location where = {});
};
/// weft::col2im: the sum of columns as an image.
struct WEFT_API Fold : FunctionLayer<Fold> {
  Fold(const Dims& output_size, const Dims& kernel_size, const ColumnOptions& options = {}, Location where = {});
};

}  // namespace weft::nn
