#include "bilinear.hpp"

#include "../ops/bilinear.hpp"
#include "description-inl.hpp"

namespace weft::nn {

static auto describe(Of<Bilinear>) {
  return described("Bilinear", "", required<int64_t>("in1_features").at_least(0),
                   required<int64_t>("in2_features").at_least(0), required<int64_t>("out_features").at_least(0),
                   option("bias", true));
}

Bilinear::Bilinear(int64_t in1, int64_t in2, int64_t out, bool with_bias, Location where) {
  set_options(*this, where, in1, in2, out, with_bias);
  weight = uniform_by_width({out, in1, in2}, in1, where);
  if (with_bias) bias = uniform_by_width(out, in1, where);
  WEFT_REGISTER(weight, bias);
}

Tensor Bilinear::forward(const Tensor& x1, const Tensor& x2, Location where) const {
  return bilinear(x1, x2, borrowed(weight, where), borrowed(bias, where), where);
}

void detail::describe_bilinear(LayerList& list) { list.add<Bilinear>(); }

}  // namespace weft::nn
