// Activations as layers, for Sequential. Each calls the op of the same name with its parameters, and raises the op's
// errors; those that follow from the parameters alone are raised by the constructor.
#pragma once

#include "function_layer.hpp"
#include "../ops/pointwise.hpp"

namespace weft::nn {

// clang-format off
struct WEFT_API ReLU : FunctionLayer<ReLU> { ReLU(); };
struct WEFT_API ReLU6 : FunctionLayer<ReLU6> { ReLU6(); };
struct WEFT_API SELU : FunctionLayer<SELU> { SELU(); };
struct WEFT_API SiLU : FunctionLayer<SiLU> { SiLU(); };
struct WEFT_API Mish : FunctionLayer<Mish> { Mish(); };
struct WEFT_API Tanh : FunctionLayer<Tanh> { Tanh(); };
struct WEFT_API Sigmoid : FunctionLayer<Sigmoid> { Sigmoid(); };
struct WEFT_API LogSigmoid : FunctionLayer<LogSigmoid> { LogSigmoid(); };
struct WEFT_API Hardsigmoid : FunctionLayer<Hardsigmoid> { Hardsigmoid(); };
struct WEFT_API Hardswish : FunctionLayer<Hardswish> { Hardswish(); };
struct WEFT_API Softsign : FunctionLayer<Softsign> { Softsign(); };
struct WEFT_API Tanhshrink : FunctionLayer<Tanhshrink> { Tanhshrink(); };
// clang-format on

struct WEFT_API GELU : FunctionLayer<GELU> {
  explicit GELU(Approximate approximate = Approximate::none);
};
struct WEFT_API ELU : FunctionLayer<ELU> {
  explicit ELU(double alpha = 1);
};
struct WEFT_API CELU : FunctionLayer<CELU> {
  explicit CELU(double alpha = 1, Location where = {});
};
struct WEFT_API LeakyReLU : FunctionLayer<LeakyReLU> {
  explicit LeakyReLU(double negative_slope = 0.01);
};
struct WEFT_API Softplus : FunctionLayer<Softplus> {
  explicit Softplus(double beta = 1, double threshold = 20);
};
struct WEFT_API Softshrink : FunctionLayer<Softshrink> {
  explicit Softshrink(double lambd = 0.5, Location where = {});
};
struct WEFT_API Hardshrink : FunctionLayer<Hardshrink> {
  explicit Hardshrink(double lambd = 0.5);
};
struct WEFT_API Hardtanh : FunctionLayer<Hardtanh> {
  explicit Hardtanh(double min_val = -1, double max_val = 1, Location where = {});
};
/// x if it is above the threshold, else the value.
struct WEFT_API Threshold : FunctionLayer<Threshold> {
  Threshold(Scalar threshold, Scalar value);
};
/// Draws the slopes from the default generator of x's device in training.
struct WEFT_API RReLU : FunctionLayer<RReLU> {
  explicit RReLU(double lower = 1. / 8, double upper = 1. / 3, Location where = {});
};
struct WEFT_API GLU : FunctionLayer<GLU> {
  explicit GLU(int dim = -1, Location where = {});
};
struct WEFT_API Softmax : FunctionLayer<Softmax> {
  explicit Softmax(int dim, Location where = {});
};
struct WEFT_API LogSoftmax : FunctionLayer<LogSoftmax> {
  explicit LogSoftmax(int dim, Location where = {});
};

/// x where it is above 0, else x * weight. weight has one element, or one per channel (dimension 1), and is initialised
/// to `init`. Raises ValueError for a num_parameters below 1.
class WEFT_API PReLU : public Layer<PReLU> {
 public:
  explicit PReLU(int64_t num_parameters = 1, double init = 0.25, Location where = {});
  Tensor forward(const Tensor& x, Location where) const {
    return prelu(Operand(x, where), borrowed(weight, where).get());
  }

  Parameter weight;
};

}  // namespace weft::nn
