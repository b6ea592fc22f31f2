// Pooling. x is [C, spatial...] or [N, C, spatial...] with one, two or three spatial dimensions, as the name says (else
// ShapeError); results have the same leading dimensions. A list of sizes has one value for each spatial dimension, or
// one for all (else ValueError). Windows of x are products of one window per spatial dimension. Raises ShapeError if
// windows do not fit x or if it has a spatial dimension of size 0.
//
// Averages are of floating tensors (else DTypeError), 16-bit floats are summed in f32; maxima take any numeric dtype.
// NaN counts as the maximum. The first of equal maxima in row-major order gets the whole gradient. Their indices (i64)
// count x's spatial elements in row-major order.
#pragma once

#include <optional>
#include <vector>

#include "reduce.hpp"
#include "../tensor/generator.hpp"

namespace weft {

struct MaxPoolOptions {
  /// From a window's begin to the next; kernel_size where it is empty.
  Dims stride = {};
  /// Padding with -infinity on both sides of x, at most half of kernel_size.
  Dims padding = 0;
  /// Between the elements of one window.
  Dims dilation = 1;
  /// A last window may reach beyond the padding.
  bool ceil_mode = false;
};

struct AveragePoolOptions {
  Dims stride = {};
  /// Padding with 0 on both sides of x.
  Dims padding = 0;
  bool ceil_mode = false;
  /// Whether padding counts in the divisor.
  bool count_include_pad = true;
  /// Divides every sum in place of the number of elements; not 0.
  std::optional<int64_t> divisor_override = {};
};

struct FractionalPoolOptions {
  /// The result's spatial sizes, or as shares of x's.
  Dims output_size = {};
  std::vector<double> output_ratio = {};
  /// [N, C, number of spatial dimensions], of x's dtype, in [0, 1): where the windows of each plane begin. Drawn from
  /// the generator where it is left out.
  Tensor random_samples = {};
  Generator* generator = nullptr;
};

struct UnpoolOptions {
  Dims stride = {};
  Dims padding = 0;
  /// The spatial sizes, or the whole shape, of the result, less than a stride away from the smallest that fits.
  Dims output_size = {};
};

#define WEFT_POOLS(Result, name, suffix, ...)                         \
  WEFT_API Result name##1d##suffix(__VA_ARGS__, Location where = {}); \
  WEFT_API Result name##2d##suffix(__VA_ARGS__, Location where = {}); \
  WEFT_API Result name##3d##suffix(__VA_ARGS__, Location where = {});

/// The largest element of each window. ValueError where padding and dilation leave a window without an element of x.
WEFT_POOLS(Tensor, max_pool, , const Tensor& x, const Dims& kernel_size, const MaxPoolOptions& options = {})
/// The same, and where each was found.
WEFT_POOLS(ValuesAndIndices, max_pool, _with_indices, const Tensor& x, const Dims& kernel_size,
           const MaxPoolOptions& options = {})
/// The mean of each window.
WEFT_POOLS(Tensor, avg_pool, , const Tensor& x, const Dims& kernel_size, const AveragePoolOptions& options = {})
/// sum(x^norm_type)^(1 / norm_type) of each window; the largest or smallest magnitude if norm_type is infinite. In a
/// window that ceil_mode truncates, missing elements count with the mean of the others. Raises ValueError for a
/// norm_type of 0.
WEFT_POOLS(Tensor, lp_pool, , const Tensor& x, double norm_type, const Dims& kernel_size, const Dims& stride = {},
           bool ceil_mode = false)

/// The mean, or the largest element, of output_size windows that cover x evenly: window i of O over I elements is
/// [floor(i I / O), ceil((i + 1) I / O)).
WEFT_POOLS(Tensor, adaptive_avg_pool, , const Tensor& x, const Dims& output_size)
WEFT_POOLS(Tensor, adaptive_max_pool, , const Tensor& x, const Dims& output_size)
WEFT_POOLS(ValuesAndIndices, adaptive_max_pool, _with_indices, const Tensor& x, const Dims& output_size)

/// Zeros with the elements of x at the indices that max_pool gave; of several for one place the last stays. ShapeError
/// unless indices have x's shape, IndexError for one outside the result.
WEFT_POOLS(Tensor, max_unpool, , const Tensor& x, const Tensor& indices, const Dims& kernel_size,
           const UnpoolOptions& options = {})
#undef WEFT_POOLS

/// The largest elements of windows that begin at random, increasing places (Graham 2014), and where each was found.
/// ValueError unless there is an output_size or an output_ratio. ShapeError where kernel_size + output_size - 1 is more
/// than x's size.
[[nodiscard]] WEFT_API ValuesAndIndices fractional_max_pool2d(const Tensor& x, const Dims& kernel_size,
                                                              const FractionalPoolOptions& options,
                                                              Location where = {});
[[nodiscard]] WEFT_API ValuesAndIndices fractional_max_pool3d(const Tensor& x, const Dims& kernel_size,
                                                              const FractionalPoolOptions& options,
                                                              Location where = {});

}  // namespace weft
