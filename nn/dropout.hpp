// Dropout layers. In training they draw from the default generator of x's device; in evaluation they return x itself.
// They raise ValueError unless 0 <= p <= 1.
#pragma once

#include "function_layer.hpp"

namespace weft::nn {

/// Zeroes each element with probability p and scales the rest by 1 / (1 - p).
struct WEFT_API Dropout : FunctionLayer<Dropout> {
  explicit Dropout(double p = 0.5, Location where = {});
};

/// Zeroes each channel with probability p and scales the others by 1 / (1 - p): weft::dropout1d and so on.
template <int dims>
struct WEFT_API ChannelDropout : FunctionLayer<ChannelDropout<dims>> {
  explicit ChannelDropout(double p = 0.5, Location where = {});
};
using Dropout1d = ChannelDropout<1>;
using Dropout2d = ChannelDropout<2>;
using Dropout3d = ChannelDropout<3>;

/// Dropout of elements, and of channels, that preserves mean 0 and variance 1.
struct WEFT_API AlphaDropout : FunctionLayer<AlphaDropout> {
  explicit AlphaDropout(double p = 0.5, Location where = {});
};
struct WEFT_API FeatureAlphaDropout : FunctionLayer<FeatureAlphaDropout> {
  explicit FeatureAlphaDropout(double p = 0.5, Location where = {});
};

}  // namespace weft::nn
