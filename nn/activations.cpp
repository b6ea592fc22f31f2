#include "activations.hpp"

#include "../ops/create.hpp"
#include "../ops/dropout.hpp"
#include "../ops/softmax.hpp"
#include "layer-inl.hpp"

namespace weft::nn {

namespace {

auto forward_of(Tensor (*op)(const Operand& x)) {
  return [op](const Tensor& x, bool, Location where) { return op(Operand(x, where)); };
}
auto forward_of(Tensor (*op)(const Operand& x, const Operand& a), Scalar a) {
  return [=](const Tensor& x, bool, Location where) { return op(Operand(x, where), Operand(a, where)); };
}
auto forward_of(Tensor (*op)(const Operand& x, const Operand& a, const Operand& b), Scalar a, Scalar b) {
  return [=](const Tensor& x, bool, Location where) {
    return op(Operand(x, where), Operand(a, where), Operand(b, where));
  };
}

}  // namespace

ReLU::ReLU() { set_function(forward_of(relu)); }
ReLU6::ReLU6() { set_function(forward_of(relu6)); }
SELU::SELU() { set_function(forward_of(selu)); }
SiLU::SiLU() { set_function(forward_of(silu)); }
Mish::Mish() { set_function(forward_of(mish)); }
Tanh::Tanh() { set_function(forward_of(tanh)); }
Sigmoid::Sigmoid() { set_function(forward_of(sigmoid)); }
LogSigmoid::LogSigmoid() { set_function(forward_of(logsigmoid)); }
Hardsigmoid::Hardsigmoid() { set_function(forward_of(hardsigmoid)); }
Hardswish::Hardswish() { set_function(forward_of(hardswish)); }
Softsign::Softsign() { set_function(forward_of(softsign)); }
Tanhshrink::Tanhshrink() { set_function(forward_of(tanhshrink)); }

GELU::GELU(Approximate approximate) {
  set_function([=](const Tensor& x, bool, Location where) { return gelu(Operand(x, where), approximate); },
               {{"approximate", gelu_approximations[static_cast<size_t>(approximate)]}});
}
ELU::ELU(double alpha) { set_function(forward_of(elu, alpha), {{"alpha", alpha}}); }
CELU::CELU(double alpha, Location where) {
  set_function(forward_of(celu, alpha), {{"alpha", alpha}});
  forward(empty_batch(0), where);
}
LeakyReLU::LeakyReLU(double negative_slope) {
  set_function(forward_of(leaky_relu, negative_slope), {{"negative_slope", negative_slope}});
}
Softplus::Softplus(double beta, double threshold) {
  set_function([=](const Tensor& x, bool, Location where) { return softplus(Operand(x, where), beta, threshold); },
               {{"beta", beta}, {"threshold", threshold}});
}
Softshrink::Softshrink(double lambd, Location where) {
  set_function(forward_of(softshrink, lambd), {{"lambd", lambd}});
  forward(empty_batch(0), where);
  set_extra_repr(python_float(lambd));
}
Hardshrink::Hardshrink(double lambd) {
  set_function(forward_of(hardshrink, lambd), {{"lambd", lambd}});
  set_extra_repr(python_float(lambd));
}
Hardtanh::Hardtanh(double min_val, double max_val, Location where) {
  set_function(forward_of(hardtanh, min_val, max_val), {{"min_val", min_val}, {"max_val", max_val}});
  forward(empty_batch(0), where);
}
Threshold::Threshold(Scalar threshold, Scalar value) {
  set_function(forward_of(weft::threshold, threshold, value), {{"threshold", threshold}, {"value", value}});
}
RReLU::RReLU(double lower, double upper, Location where) {
  set_function(
      [=](const Tensor& x, bool training, Location where) { return rrelu(x, lower, upper, training, nullptr, where); },
      {{"lower", lower}, {"upper", upper}});
  (void)rrelu(empty_batch(0), lower, upper, false, nullptr, where);
  if (std::isfinite(lower) && std::isfinite(upper)) return;
  raise<ValueError>({.op = "nn::RReLU", .problem = fmt::format("expected finite slopes, got [{}, {}]", lower, upper)},
                    where);
}
GLU::GLU(int dim, Location where) {
  set_function([dim](const Tensor& x, bool, Location place) { return glu(Operand(x, place), dim); }, {{"dim", dim}});
  forward(with_dim(dim), where);
}
Softmax::Softmax(int dim, Location where) {
  set_function([dim](const Tensor& x, bool, Location place) { return softmax(x, dim, {}, place); }, {{"dim", dim}});
  forward(with_dim(dim), where);
}
LogSoftmax::LogSoftmax(int dim, Location where) {
  set_function([dim](const Tensor& x, bool, Location place) { return log_softmax(x, dim, {}, place); }, {{"dim", dim}});
  forward(with_dim(dim), where);
}

PReLU::PReLU(int64_t num_parameters, double init, Location where) {
  if (num_parameters < 1) {
    raise<ValueError>(
        {.op = "nn::PReLU", .problem = fmt::format("num_parameters is {}: expected at least 1", num_parameters)},
        where);
  }
  weight = full(num_parameters, init, {.dtype = default_dtype()}, where);
  register_parameter("weight", weight);
  set_config({{"num_parameters", num_parameters}, {"init", init}});
  set_extra_repr(fmt::format("num_parameters={}", num_parameters));
}

}  // namespace weft::nn
