// Images in other sizes, and sampled where a grid says. Sampling is separable: along each dimension an element of the
// result is a weighted sum of a few elements. Results are new contiguous tensors; 16-bit floats are computed in f32.
#pragma once

#include <optional>
#include <vector>

#include "../tensor/index.hpp"

namespace weft {

/// linear is for one spatial dimension, bilinear and bicubic for two, trilinear for three, the others for any.
enum class Interpolation : uint8_t { nearest, nearest_exact, linear, bilinear, bicubic, trilinear, area };

struct InterpolateOptions {
  /// The spatial sizes of the result, or factors from x's: one for each dimension, or one for all.
  Dims size = {};
  std::vector<double> scale_factor = {};
  Interpolation mode = Interpolation::nearest;
  /// Corner elements stay at the corners, rather than the outer edges of corner elements. Not for nearest and area.
  std::optional<bool> align_corners = {};
  /// Takes the factor from the sizes rather than as it was given, which differs where a size is rounded.
  bool recompute_scale_factor = false;
  /// Widens the filter where the image shrinks; for bilinear and bicubic.
  bool antialias = false;
};
/// x [N, C, spatial...] resized, with one to three spatial dimensions; sizes from factors are rounded down. The nearest
/// element (any dtype; PyTorch's `nearest` takes the one before, `nearest_exact` is right), or a polynomial between two
/// or four elements along each dimension (Keys 1981, with -0.75, or -0.5 with antialias), or the mean of an area
/// (adaptive_avg_pool). Raises ShapeError for other shapes and empty sizes, DTypeError for integers in modes other than
/// nearest, ValueError for contradictory options.
[[nodiscard]] WEFT_API Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Location where = {});

enum class GridPadding : uint8_t { zeros, border, reflection };
enum class GridMode : uint8_t { bilinear, nearest, bicubic };
struct GridSampleOptions {
  GridMode mode = GridMode::bilinear;
  /// Values outside of x: 0, the nearest element, or the mirror image.
  GridPadding padding_mode = GridPadding::zeros;
  /// Whether -1 and 1 are the centres of the corner elements or their outer edges.
  bool align_corners = false;
};
/// The elements of x [N, C, H, W] (or [N, C, D, H, W]) at the positions grid [N, H', W', 2] (or [N, D', H', W', 3]),
/// which are (column, row) from -1 to 1: [N, C, H', W']. nearest rounds halves to even, and gives the grid no gradient.
/// NaN positions give 0. Raises ShapeError if shapes do not fit, DTypeError unless both have one floating dtype.
[[nodiscard]] WEFT_API Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions options = {},
                                          Location where = {});

/// The grid for grid_sample of the affine maps theta [N, 2, 3], for a result of `size` [N, C, H, W]; or of theta [N, 3,
/// 4] for [N, C, D, H, W]. Raises ShapeError if they do not fit, DTypeError unless theta is floating.
[[nodiscard]] WEFT_API Tensor affine_grid(const Tensor& theta, const Dims& size, bool align_corners = false,
                                          Location where = {});

}  // namespace weft
