#include "padding.hpp"

#include "description-inl.hpp"
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

template <int dims, Padding mode>
static auto describe(Of<detail::EdgePad<dims, mode>>) {
  constexpr const char* families[] = {"ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"};
  return described(name_for(families[static_cast<int>(mode)], dims), "pad",
                   required<Dims>("padding").tuple_of(2 * dims).bare());
}
template <int dims>
static auto describe(Of<ConstantPad<dims>>) {
  return described(name_for("ConstantPad", dims), "pad", required<Dims>("padding").tuple_of(2 * dims),
                   required<Scalar>("value"));
}

namespace detail {

template <int dims, Padding mode>
EdgePad<dims, mode>::EdgePad(const Dims& padding, Location where) {
  const Dims edges = all_edges(describe(Of<EdgePad>()).name, padding, dims, where);
  this->set_function([edges](const Tensor& x, bool, Location call) { return pad(x, edges, mode, 0, call); });
  set_options(*this, where, edges);
  this->forward(image_for(edges), where);
}

}  // namespace detail

template <int dims>
ConstantPad<dims>::ConstantPad(const Dims& padding, Scalar value, Location where) {
  const Dims edges = all_edges(describe(Of<ConstantPad>()).name, padding, dims, where);
  this->set_function(
      [edges, value](const Tensor& x, bool, Location call) { return pad(x, edges, Padding::constant, value, call); });
  set_options(*this, where, edges, value);
  this->forward(image_for(edges), where);
}

WEFT_FOR_DIMS(ConstantPad)
WEFT_FOR_DIMS(detail::EdgePad, Padding::constant)
WEFT_FOR_DIMS(detail::EdgePad, Padding::reflect)
WEFT_FOR_DIMS(detail::EdgePad, Padding::replicate)
WEFT_FOR_DIMS(detail::EdgePad, Padding::circular)

template <int dims>
static void add_paddings(LayerList& list) {
  list.add<detail::EdgePad<dims, Padding::constant>, detail::EdgePad<dims, Padding::reflect>,
           detail::EdgePad<dims, Padding::replicate>, detail::EdgePad<dims, Padding::circular>, ConstantPad<dims>>();
}
void detail::describe_paddings(LayerList& list) { add_paddings<1>(list), add_paddings<2>(list), add_paddings<3>(list); }

}  // namespace weft::nn
