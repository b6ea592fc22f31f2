#include "layers.hpp"

#include "../ops/create.hpp"
#include "../ops/index.hpp"
#include "../ops/matmul.hpp"
#include "../ops/norm.hpp"
#include "../ops/random.hpp"
#include "layer-inl.hpp"

namespace weft::nn {

Linear::Linear(int64_t in, int64_t out, bool with_bias, Location where) {
  check_size("nn::Linear", "in", in, where);
  check_size("nn::Linear", "out", out, where);
  weight = uniform_by_width({out, in}, in, where);
  if (with_bias) bias = uniform_by_width(out, in, where);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  set_extra_repr(fmt::format("in_features={}, out_features={}, bias={}", in, out, python_bool(with_bias)));
}

Tensor Linear::forward(const Tensor& x, Location where) const { return linear(x, weight, bias, where); }

Embedding::Embedding(int64_t count, int64_t width, double deviation, int64_t padding, Location where)
    : padding_(padding) {
  check_size("nn::Embedding", "count", count, where);
  check_size("nn::Embedding", "width", width, where);
  if (padding < no_padding || padding >= count) {
    raise<ValueError>({.op = "nn::Embedding", .problem = fmt::format("padding {} is none of {} rows", padding, count)},
                      where);
  }
  weight = normal_(empty({count, width}, {}, where), 0, deviation, nullptr, where);
  if (padding != no_padding) weight.detach()[padding] = 0;
  register_parameter("weight", weight);
  set_extra_repr(padding == no_padding ? fmt::format("{}, {}", count, width)
                                       : fmt::format("{}, {}, padding_idx={}", count, width, padding));
}

Tensor Embedding::forward(const Tensor& indices, Location where) const {
  return embedding(weight, indices, padding_, where);
}

LayerNorm::LayerNorm(const Dims& shape, double eps, bool affine, bool with_bias, Location where)
    : shape_(shape), eps_(eps) {
  with_bias = with_bias && affine;
  if (affine) weight = ones(shape, {}, where);
  if (with_bias) bias = zeros(shape, {}, where);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  set_extra_repr(fmt::format("{}, eps={}, elementwise_affine={}, bias={}", python_tuple(shape), python_float(eps),
                             python_bool(affine), python_bool(with_bias)));
}

Tensor LayerNorm::forward(const Tensor& x, Location where) const {
  return layer_norm(x, shape_, weight, bias, eps_, where);
}

RMSNorm::RMSNorm(const Dims& shape, std::optional<double> eps, bool affine, Location where) : shape_(shape), eps_(eps) {
  if (affine) weight = ones(shape, {}, where);
  register_parameter("weight", weight);
  set_extra_repr(fmt::format("{}, eps={}, elementwise_affine={}", python_tuple(shape),
                             eps ? python_float(*eps) : "None", python_bool(affine)));
}

Tensor RMSNorm::forward(const Tensor& x, Location where) const {
  return rms_norm(x, shape_, weight, eps_, RmsCast::once, where);
}

}  // namespace weft::nn
