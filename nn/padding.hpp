// Padding layers; see <weft/ops/pad.hpp> for definitions and errors.
#pragma once

#include "function_layer.hpp"
#include "../ops/pad.hpp"

namespace weft::nn {

namespace detail {
/// Pads the last `dims` dimensions.
template <int dims, Padding mode>
struct WEFT_API EdgePad : FunctionLayer<EdgePad<dims, mode>> {
  /// One number for all edges, or two per dimension (before and after), last dimension first. Raises ValueError for any
  /// other count.
  explicit EdgePad(const Dims& padding, Location where = {});
};
}  // namespace detail

/// Pads with zeros.
using ZeroPad1d = detail::EdgePad<1, Padding::constant>;
using ZeroPad2d = detail::EdgePad<2, Padding::constant>;
using ZeroPad3d = detail::EdgePad<3, Padding::constant>;
/// Pads by reflection at the outermost element.
using ReflectionPad1d = detail::EdgePad<1, Padding::reflect>;
using ReflectionPad2d = detail::EdgePad<2, Padding::reflect>;
using ReflectionPad3d = detail::EdgePad<3, Padding::reflect>;
/// Pads by repeating the outermost element.
using ReplicationPad1d = detail::EdgePad<1, Padding::replicate>;
using ReplicationPad2d = detail::EdgePad<2, Padding::replicate>;
using ReplicationPad3d = detail::EdgePad<3, Padding::replicate>;
/// Pads with elements of the opposite side.
using CircularPad1d = detail::EdgePad<1, Padding::circular>;
using CircularPad2d = detail::EdgePad<2, Padding::circular>;
using CircularPad3d = detail::EdgePad<3, Padding::circular>;

/// Pads with a constant; `padding` as for the others.
template <int dims>
struct WEFT_API ConstantPad : FunctionLayer<ConstantPad<dims>> {
  ConstantPad(const Dims& padding, Scalar value, Location where = {});
};
using ConstantPad1d = ConstantPad<1>;
using ConstantPad2d = ConstantPad<2>;
using ConstantPad3d = ConstantPad<3>;

}  // namespace weft::nn
