#include "bilinear.hpp"

#include "../ops/bilinear.hpp"
#include "layer-inl.hpp"

namespace weft::nn {

Bilinear::Bilinear(int64_t in1, int64_t in2, int64_t out, bool with_bias, Location where) {
  check_size("nn::Bilinear", "in1", in1, where);
  check_size("nn::Bilinear", "in2", in2, where);
  check_size("nn::Bilinear", "out", out, where);
  weight = uniform_by_width({out, in1, in2}, in1, where);
  if (with_bias) bias = uniform_by_width(out, in1, where);
  WEFT_REGISTER(weight, bias);
  set_config({{"in1_features", in1}, {"in2_features", in2}, {"out_features", out}, {"bias", with_bias}});
}

Tensor Bilinear::forward(const Tensor& x1, const Tensor& x2, Location where) const {
  return bilinear(x1, x2, borrowed(weight, where), borrowed(bias, where), where);
}

}  // namespace weft::nn
