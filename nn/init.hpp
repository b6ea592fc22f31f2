// Initialisation of parameters, in place and outside of the graph, with PyTorch's names.
//
//   nn::init::kaiming_normal_(layer.weight, {.nonlinearity = nn::init::Nonlinearity::relu});
//   nn::init::zeros_(layer.bias);
//
// Each function returns its tensor, of a floating-point dtype on any device. Without a generator it uses the default
// generator of the tensor's device; a seed gives the same values on every device. A weight is [out, in, ...]: fan_in is
// in times the product of the remaining sizes, fan_out is out times that product.
#pragma once

#include "../tensor/generator.hpp"
#include "../tensor/index.hpp"

namespace weft::nn::init {

/// Uniform in [low, high). Raises ValueError if low > high.
WEFT_API const Tensor& uniform_(const Tensor& x, double low = 0, double high = 1, Generator* generator = nullptr,
                                Location where = {});
/// Normal distribution. Raises ValueError for a negative deviation.
WEFT_API const Tensor& normal_(const Tensor& x, double mean = 0, double deviation = 1, Generator* generator = nullptr,
                               Location where = {});
WEFT_API const Tensor& constant_(const Tensor& x, Scalar value, Location where = {});
WEFT_API const Tensor& ones_(const Tensor& x, Location where = {});
WEFT_API const Tensor& zeros_(const Tensor& x, Location where = {});
/// Identity matrix. Raises ShapeError unless x is 2-d.
WEFT_API const Tensor& eye_(const Tensor& x, Location where = {});
/// Initialises the weight [out, in, d1, ...] of a convolution as identity: channel i of each group passes to channel i.
/// Raises ShapeError unless it has 3, 4 or 5 dimensions; ValueError unless `groups` divides out.
WEFT_API const Tensor& dirac_(const Tensor& x, int64_t groups = 1, Location where = {});

/// The nonlinearity after the layer.
enum class Nonlinearity : uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// Gain of a nonlinearity: 1, 1, 5/3, √2, √(2 / (1 + slope²)), 3/4. `slope` is the slope of leaky_relu.
WEFT_API double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01);

/// Uniform in ±gain · √(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16). This and the functions below
/// raise ShapeError for fewer than two dimensions.
WEFT_API const Tensor& xavier_uniform_(const Tensor& x, double gain = 1, Generator* generator = nullptr,
                                       Location where = {});
/// Normal with standard deviation gain · √(2 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 12).
WEFT_API const Tensor& xavier_normal_(const Tensor& x, double gain = 1, Generator* generator = nullptr,
                                      Location where = {});

/// Preserve the variance in forward (in) or in backward (out).
enum class Fan : uint8_t { in, out };
struct KaimingOptions {
  /// Slope of leaky_relu.
  double a = 0;
  Fan mode = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
  Generator* generator = nullptr;
};
/// Uniform in ±gain · √(3 / fan) (He et al. 2015, equations 10 and 14).
WEFT_API const Tensor& kaiming_uniform_(const Tensor& x, KaimingOptions options = {}, Location where = {});
/// Normal with standard deviation gain / √fan (He et al. 2015).
WEFT_API const Tensor& kaiming_normal_(const Tensor& x, KaimingOptions options = {}, Location where = {});

struct TruncatedOptions {
  double mean = 0, deviation = 1;
  /// Absolute bounds, not multiples of the deviation.
  double low = -2, high = 2;
  Generator* generator = nullptr;
};
/// Normal within [low, high], by the inverse of the distribution function. Raises ValueError unless low < high and
/// deviation > 0, and if the probability of the interval is negligible.
WEFT_API const Tensor& trunc_normal_(const Tensor& x, TruncatedOptions options = {}, Location where = {});

/// A random matrix with orthonormal rows or columns, whichever are fewer, times `gain`; later dimensions are flattened
/// (Saxe et al. 2014). Uniformly distributed over all such matrices (Mezzadri 2007). Computed in f64 on the CPU.
WEFT_API const Tensor& orthogonal_(const Tensor& x, double gain = 1, Generator* generator = nullptr,
                                   Location where = {});

/// Normal, with a fraction `sparsity` of each column of a matrix set to zero, at random rows (Martens 2010). Raises
/// ShapeError unless 2-d; ValueError unless 0 <= sparsity <= 1.
WEFT_API const Tensor& sparse_(const Tensor& x, double sparsity, double deviation = 0.01,
                               Generator* generator = nullptr, Location where = {});

}  // namespace weft::nn::init
