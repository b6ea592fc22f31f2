// Pooling layers; see <weft/ops/pool.hpp> for definitions and errors. Constructors raise the errors that follow from
// their options. A list of sizes has one value for each spatial dimension, or one for all.
#pragma once

#include "function_layer.hpp"
#include "../ops/pool.hpp"

namespace weft::nn {

/// The maximum of each window.
template <int dims>
class WEFT_API MaxPool : public Layer<MaxPool<dims>> {
 public:
  explicit MaxPool(const Dims& kernel_size, const MaxPoolOptions& options = {}, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;
  /// As a call, and returns the indices of the maxima, for MaxUnpool. Does not run hooks.
  ValuesAndIndices forward_with_indices(const Tensor& x, Location where = {}) const;

 private:
  Dims kernel_size_;
  MaxPoolOptions options_;
};
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;

/// Places the elements of x at the indices that MaxPool returned, and zeros elsewhere.
template <int dims>
class WEFT_API MaxUnpool : public Layer<MaxUnpool<dims>> {
 public:
  explicit MaxUnpool(const Dims& kernel_size, const UnpoolOptions& options = {}, Location where = {});
  Tensor forward(const Tensor& x, const Tensor& indices, Location where) const {
    return forward(x, indices, options_.output_size, where);
  }
  /// With the output_size of this call.
  Tensor forward(const Tensor& x, const Tensor& indices, const Dims& output_size, Location where) const;

 private:
  Dims kernel_size_;
  UnpoolOptions options_;
};
using MaxUnpool1d = MaxUnpool<1>;
using MaxUnpool2d = MaxUnpool<2>;
using MaxUnpool3d = MaxUnpool<3>;

/// The maximum of windows at random positions.
template <int dims>
class WEFT_API FractionalMaxPool : public Layer<FractionalMaxPool<dims>> {
 public:
  FractionalMaxPool(const Dims& kernel_size, const FractionalPoolOptions& options, Location where = {});
  Tensor forward(const Tensor& x, Location where) const { return forward_with_indices(x, where).values; }
  /// As a call, and returns the indices of the maxima. Does not run hooks.
  ValuesAndIndices forward_with_indices(const Tensor& x, Location where = {}) const;

 private:
  Dims kernel_size_;
  FractionalPoolOptions options_;
};
using FractionalMaxPool2d = FractionalMaxPool<2>;
using FractionalMaxPool3d = FractionalMaxPool<3>;

/// The mean of each window.
template <int dims>
struct WEFT_API AvgPool : FunctionLayer<AvgPool<dims>> {
  explicit AvgPool(const Dims& kernel_size, const AveragePoolOptions& options = {}, Location where = {});
};
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;

/// sum(x^norm_type)^(1 / norm_type) of each window. By default windows do not overlap.
template <int dims>
struct WEFT_API LPPool : FunctionLayer<LPPool<dims>> {
  LPPool(double norm_type, const Dims& kernel_size, const Dims& stride = {}, bool ceil_mode = false,
         Location where = {});
};
using LPPool1d = LPPool<1>;
using LPPool2d = LPPool<2>;
using LPPool3d = LPPool<3>;

/// The means of output_size windows that cover x evenly.
template <int dims>
struct WEFT_API AdaptiveAvgPool : FunctionLayer<AdaptiveAvgPool<dims>> {
  explicit AdaptiveAvgPool(const Dims& output_size, Location where = {});
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

/// The maxima of output_size windows that cover x evenly.
template <int dims>
class WEFT_API AdaptiveMaxPool : public Layer<AdaptiveMaxPool<dims>> {
 public:
  explicit AdaptiveMaxPool(const Dims& output_size, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;
  /// As a call, and returns the indices of the maxima. Does not run hooks.
  ValuesAndIndices forward_with_indices(const Tensor& x, Location where = {}) const;

 private:
  Dims output_size_;
};
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

}  // namespace weft::nn
