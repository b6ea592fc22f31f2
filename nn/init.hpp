// First values of parameters, in place and outside the graph, under PyTorch's names.
//
//   nn::init::kaiming_normal_(layer.weight, {.nonlinearity = nn::init::Nonlinearity::relu});
//   nn::init::zeros_(layer.bias);
//
// Each returns its tensor, of a floating-point dtype on any device. Where no generator is given, the default one of the
// tensor's device is used; the same seed gives the same numbers on every device. A weight is [out, in, ...]: fan_in is
// in times the sizes that follow, fan_out is out times them.
#pragma once

#include "../tensor/generator.hpp"
#include "../tensor/index.hpp"

namespace weft::nn::init {

/// Uniform in [low, high). ValueError for low > high.
WEFT_API const Tensor& uniform_(const Tensor& x, double low = 0, double high = 1, Generator* generator = nullptr,
                                Location where = {});
/// Normal. ValueError for a negative deviation.
WEFT_API const Tensor& normal_(const Tensor& x, double mean = 0, double deviation = 1, Generator* generator = nullptr,
                               Location where = {});
WEFT_API const Tensor& constant_(const Tensor& x, Scalar value, Location where = {});
WEFT_API const Tensor& ones_(const Tensor& x, Location where = {});
WEFT_API const Tensor& zeros_(const Tensor& x, Location where = {});
/// Ones on the diagonal of a matrix, else zeros. ShapeError unless 2-d.
WEFT_API const Tensor& eye_(const Tensor& x, Location where = {});
/// The weight [out, in, d1, ...] of a convolution that hands its input on: channel i of each group to channel i.
/// ShapeError unless it has 3, 4 or 5 dimensions; ValueError unless `groups` divides out.
WEFT_API const Tensor& dirac_(const Tensor& x, int64_t groups = 1, Location where = {});

/// What follows the layer.
enum class Nonlinearity : uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// The factor by which a nonlinearity asks for larger weights: 1, 1, 5/3, √2, √(2 / (1 + slope²)), 3/4. `slope` is
/// leaky_relu's.
WEFT_API double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01);

/// Uniform in ±gain · √(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16). ShapeError for less than two
/// dimensions, here and below.
WEFT_API const Tensor& xavier_uniform_(const Tensor& x, double gain = 1, Generator* generator = nullptr,
                                       Location where = {});
/// Normal with the deviation gain · √(2 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 12).
WEFT_API const Tensor& xavier_normal_(const Tensor& x, double gain = 1, Generator* generator = nullptr,
                                      Location where = {});

/// Whether variances are kept in forward or in backward.
enum class Fan : uint8_t { in, out };
struct KaimingOptions {
  /// leaky_relu's slope.
  double a = 0;
  Fan mode = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
  Generator* generator = nullptr;
};
/// Uniform in ±gain · √(3 / fan) (He et al. 2015, equations 10 and 14).
WEFT_API const Tensor& kaiming_uniform_(const Tensor& x, KaimingOptions options = {}, Location where = {});
/// Normal with the deviation gain / √fan (He et al. 2015).
WEFT_API const Tensor& kaiming_normal_(const Tensor& x, KaimingOptions options = {}, Location where = {});

struct TruncatedOptions {
  double mean = 0, deviation = 1;
  /// The bounds themselves, not in deviations.
  double low = -2, high = 2;
  Generator* generator = nullptr;
};
/// Normal within [low, high], by the inverse of its distribution function. ValueError unless low < high and the
/// deviation is above 0, and where the normal distribution has next to nothing between the bounds.
WEFT_API const Tensor& trunc_normal_(const Tensor& x, TruncatedOptions options = {}, Location where = {});

/// A random matrix with orthonormal rows or columns, whichever are fewer, times `gain`; later dimensions are flattened
/// (Saxe et al. 2014). All such matrices are equally likely (Mezzadri 2007). Computed in f64 on the CPU.
WEFT_API const Tensor& orthogonal_(const Tensor& x, double gain = 1, Generator* generator = nullptr,
                                   Location where = {});

/// Normal, with the share `sparsity` of each column of a matrix set to zero, at random rows (Martens 2010). ShapeError
/// unless 2-d; ValueError unless 0 <= sparsity <= 1.
WEFT_API const Tensor& sparse_(const Tensor& x, double sparsity, double deviation = 0.01,
                               Generator* generator = nullptr, Location where = {});

}  // namespace weft::nn::init
