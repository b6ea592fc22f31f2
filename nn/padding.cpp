#include "padding.hpp"

#include "layer-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

/// Two numbers for each of `dims` dimensions.
Dims all_edges(const std::string& layer, const Dims& padding, int dims, Location where) {
  if (padding.size() == 1) return Dims::filled(2 * dims, padding[0]);
  if (padding.size() == 2 * dims) return padding;
  raise<ValueError>({.op = ("nn::" + layer).c_str(),
                     .problem = mismatch_text("padding", fmt::format("1 or {} numbers", 2 * dims), padding.text())},
                    where);
}

/// The smallest image that can be padded so.
Tensor image_for(const Dims& edges) {
  Dims shape{0, 1};
  for (int i = edges.size() - 2; i >= 0; i -= 2) {
    Checked size = 1;
    for (const int64_t edge : {edges[i], edges[i + 1]}) size += edge < 0 ? Checked(0) - edge : Checked(edge);
    shape.push_back(size.fits() ? size.value() : 1);
  }
  return on_meta(shape);
}

}  // namespace

namespace detail {

template <int dims, Padding mode>
EdgePad<dims, mode>::EdgePad(const Dims& padding, Location where) {
  constexpr const char* families[] = {"ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"};
  const std::string name = name_for(families[static_cast<int>(mode)], dims);
  const Dims edges = all_edges(name, padding, dims, where);
  this->set_function([edges](const Tensor& x, bool, Location call) { return pad(x, edges, mode, 0, call); },
                     {{"padding", edges}}, name);
  this->set_extra_repr(python_tuple(edges));
  this->forward(image_for(edges), where);
}

}  // namespace detail

template <int dims>
ConstantPad<dims>::ConstantPad(const Dims& padding, Scalar value, Location where) {
  const std::string name = name_for("ConstantPad", dims);
  const Dims edges = all_edges(name, padding, dims, where);
  this->set_function(
      [edges, value](const Tensor& x, bool, Location call) { return pad(x, edges, Padding::constant, value, call); },
      {{"padding", edges}, {"value", value}}, name);
  this->forward(image_for(edges), where);
}

WEFT_FOR_DIMS(ConstantPad)
WEFT_FOR_DIMS(detail::EdgePad, Padding::constant)
WEFT_FOR_DIMS(detail::EdgePad, Padding::reflect)
WEFT_FOR_DIMS(detail::EdgePad, Padding::replicate)
WEFT_FOR_DIMS(detail::EdgePad, Padding::circular)

}  // namespace weft::nn
