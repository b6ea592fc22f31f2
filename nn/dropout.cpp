#include "dropout.hpp"

#include <array>

#include "../ops/dropout.hpp"
#include "description-inl.hpp"

namespace weft::nn {

namespace {

using Drop = Tensor (*)(const Tensor& x, double p, bool training, Generator* generator, Location where);

auto dropping(Drop op, double p) {
  return [op, p](const Tensor& x, bool training, Location where) { return op(x, p, training, nullptr, where); };
}

/// Python's classes have "inplace" too.
auto described_as(std::string name, std::string function) {
  return described(std::move(name), std::move(function), option("p", 0.5).between(0, 1), constant("inplace", false));
}

}  // namespace

static auto describe(Of<Dropout>) { return described_as("Dropout", "dropout"); }
template <int dims>
static auto describe(Of<ChannelDropout<dims>>) {
  return described_as(name_for("Dropout", dims), name_for("dropout", dims));
}
static auto describe(Of<AlphaDropout>) { return described_as("AlphaDropout", "alpha_dropout"); }
static auto describe(Of<FeatureAlphaDropout>) { return described_as("FeatureAlphaDropout", "feature_alpha_dropout"); }

Dropout::Dropout(double p, Location where) {
  set_function(dropping(dropout, p));
  set_options(*this, where, p);
}

template <int dims>
ChannelDropout<dims>::ChannelDropout(double p, Location where) {
  this->set_function(dropping(std::array{dropout1d, dropout2d, dropout3d}[dims - 1], p));
  set_options(*this, where, p);
}
WEFT_FOR_DIMS(ChannelDropout)

AlphaDropout::AlphaDropout(double p, Location where) {
  set_function(dropping(alpha_dropout, p));
  set_options(*this, where, p);
}

FeatureAlphaDropout::FeatureAlphaDropout(double p, Location where) {
  set_function(dropping(feature_alpha_dropout, p));
  set_options(*this, where, p);
}

void detail::describe_dropouts(LayerList& list) {
  list.add<Dropout, Dropout1d, Dropout2d, Dropout3d, AlphaDropout, FeatureAlphaDropout>();
}

}  // namespace weft::nn
