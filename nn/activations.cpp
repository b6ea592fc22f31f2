#include "activations.hpp"

#include "../ops/create.hpp"
#include "../ops/dropout.hpp"
#include "../ops/softmax.hpp"
#include "description-inl.hpp"

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

static auto describe(Of<ReLU>) { return described("ReLU", "relu", inplace()); }
static auto describe(Of<ReLU6>) { return described("ReLU6", "relu6", inplace()); }
static auto describe(Of<SELU>) { return described("SELU", "selu", inplace()); }
static auto describe(Of<SiLU>) { return described("SiLU", "silu", inplace()); }
static auto describe(Of<Mish>) { return described("Mish", "mish", inplace()); }
static auto describe(Of<Tanh>) { return described("Tanh", "tanh"); }
static auto describe(Of<Sigmoid>) { return described("Sigmoid", "sigmoid"); }
static auto describe(Of<LogSigmoid>) { return described("LogSigmoid", "logsigmoid"); }
static auto describe(Of<Hardsigmoid>) { return described("Hardsigmoid", "hardsigmoid", inplace()); }
static auto describe(Of<Hardswish>) { return described("Hardswish", "hardswish", inplace().hidden()); }
static auto describe(Of<Softsign>) { return described("Softsign", "softsign"); }
static auto describe(Of<Tanhshrink>) { return described("Tanhshrink", "tanhshrink"); }
static auto describe(Of<GELU>) {
  return described("GELU", "gelu", choice("approximate", gelu_approximations, Approximate::none));
}
static auto describe(Of<ELU>) { return described("ELU", "elu", option("alpha", 1.0), inplace()); }
static auto describe(Of<CELU>) { return described("CELU", "celu", option("alpha", 1.0), inplace()); }
static auto describe(Of<LeakyReLU>) {
  return described("LeakyReLU", "leaky_relu", option("negative_slope", 0.01), inplace());
}
static auto describe(Of<Softplus>) {
  return described("Softplus", "softplus", option("beta", 1.0), option("threshold", 20.0));
}
static auto describe(Of<Softshrink>) { return described("Softshrink", "softshrink", option("lambd", 0.5).bare()); }
static auto describe(Of<Hardshrink>) { return described("Hardshrink", "hardshrink", option("lambd", 0.5).bare()); }
static auto describe(Of<Hardtanh>) {
  return described("Hardtanh", "hardtanh", option("min_val", -1.0), option("max_val", 1.0), inplace());
}
static auto describe(Of<Threshold>) {
  return described("Threshold", "threshold", required<Scalar>("threshold"), required<Scalar>("value"), inplace());
}
static auto describe(Of<RReLU>) {
  return described("RReLU", "rrelu", option("lower", 1.0 / 8), option("upper", 1.0 / 3), inplace());
}
static auto describe(Of<GLU>) { return described("GLU", "glu", option("dim", -1)); }
static auto describe(Of<Softmax>) { return described("Softmax", "softmax", required<int>("dim").none_in_python()); }
static auto describe(Of<LogSoftmax>) {
  return described("LogSoftmax", "log_softmax", required<int>("dim").none_in_python());
}
static auto describe(Of<PReLU>) {
  return described("PReLU", "", option("num_parameters", int64_t{1}).at_least(1), option("init", 0.25).hidden());
}

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
  set_function([=](const Tensor& x, bool, Location where) { return gelu(Operand(x, where), approximate); });
  set_options(*this, {}, approximate);
}
ELU::ELU(double alpha) {
  set_function(forward_of(elu, alpha));
  set_options(*this, {}, alpha);
}
CELU::CELU(double alpha, Location where) {
  set_function(forward_of(celu, alpha));
  set_options(*this, where, alpha);
  forward(empty_batch(0), where);
}
LeakyReLU::LeakyReLU(double negative_slope) {
  set_function(forward_of(leaky_relu, negative_slope));
  set_options(*this, {}, negative_slope);
}
Softplus::Softplus(double beta, double threshold) {
  set_function([=](const Tensor& x, bool, Location where) { return softplus(Operand(x, where), beta, threshold); });
  set_options(*this, {}, beta, threshold);
}
Softshrink::Softshrink(double lambd, Location where) {
  set_function(forward_of(softshrink, lambd));
  set_options(*this, where, lambd);
  forward(empty_batch(0), where);
}
Hardshrink::Hardshrink(double lambd) {
  set_function(forward_of(hardshrink, lambd));
  set_options(*this, {}, lambd);
}
Hardtanh::Hardtanh(double min_val, double max_val, Location where) {
  set_function(forward_of(hardtanh, min_val, max_val));
  set_options(*this, where, min_val, max_val);
  forward(empty_batch(0), where);
}
Threshold::Threshold(Scalar threshold, Scalar value) {
  set_function(forward_of(weft::threshold, threshold, value));
  set_options(*this, {}, threshold, value);
}
RReLU::RReLU(double lower, double upper, Location where) {
  set_function(
      [=](const Tensor& x, bool training, Location where) { return rrelu(x, lower, upper, training, nullptr, where); });
  set_options(*this, where, lower, upper);
  (void)rrelu(empty_batch(0), lower, upper, false, nullptr, where);
  if (std::isfinite(lower) && std::isfinite(upper)) return;
  raise<ValueError>({.op = "nn::RReLU", .problem = fmt::format("expected finite slopes, got [{}, {}]", lower, upper)},
                    where);
}
GLU::GLU(int dim, Location where) {
  set_function([dim](const Tensor& x, bool, Location place) { return glu(Operand(x, place), dim); });
  set_options(*this, where, dim);
  forward(with_dim(dim), where);
}
Softmax::Softmax(int dim, Location where) {
  set_function([dim](const Tensor& x, bool, Location place) { return softmax(x, dim, {}, place); });
  set_options(*this, where, dim);
  forward(with_dim(dim), where);
}
LogSoftmax::LogSoftmax(int dim, Location where) {
  set_function([dim](const Tensor& x, bool, Location place) { return log_softmax(x, dim, {}, place); });
  set_options(*this, where, dim);
  forward(with_dim(dim), where);
}

PReLU::PReLU(int64_t num_parameters, double init, Location where) {
  set_options(*this, where, num_parameters, init);
  weight = full(num_parameters, init, {.dtype = default_dtype()}, where);
  register_parameter("weight", weight);
}

void detail::describe_activations(LayerList& list) {
  list.add<ReLU, ReLU6, SELU, SiLU, Mish, Tanh, Sigmoid, LogSigmoid, Hardsigmoid, Hardswish, Softsign, Tanhshrink, GELU,
           ELU, CELU, LeakyReLU, Softplus, Softshrink, Hardshrink, Hardtanh, Threshold, RReLU, GLU, Softmax, LogSoftmax,
           PReLU>();
}

}  // namespace weft::nn
