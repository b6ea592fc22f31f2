#include "dropout.hpp"

#include <array>

#include "../ops/dropout.hpp"
#include "layer-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

using Drop = Tensor (*)(const Tensor& x, double p, bool training, Generator* generator, Location where);

auto dropping(Drop op, double p) {
  return [op, p](const Tensor& x, bool training, Location where) { return op(x, p, training, nullptr, where); };
}

Config checked_config(const std::string& layer, double p, Location where) {
  if (p >= 0 && p <= 1) return {{"p", p}, {"inplace", false}};
  raise<ValueError>({.op = ("nn::" + layer).c_str(), .problem = mismatch_text("p", "a number in [0, 1]", p)}, where);
}

}  // namespace

Dropout::Dropout(double p, Location where) { set_function(dropping(dropout, p), checked_config("Dropout", p, where)); }

template <int dims>
ChannelDropout<dims>::ChannelDropout(double p, Location where) {
  const std::string name = name_for("Dropout", dims);
  this->set_function(dropping(std::array{dropout1d, dropout2d, dropout3d}[dims - 1], p), checked_config(name, p, where),
                     name);
}
WEFT_FOR_DIMS(ChannelDropout)

AlphaDropout::AlphaDropout(double p, Location where) {
  set_function(dropping(alpha_dropout, p), checked_config("AlphaDropout", p, where));
}

FeatureAlphaDropout::FeatureAlphaDropout(double p, Location where) {
  set_function(dropping(feature_alpha_dropout, p), checked_config("FeatureAlphaDropout", p, where));
}

}  // namespace weft::nn
