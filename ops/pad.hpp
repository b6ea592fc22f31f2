// Edges put around a tensor, and cut off.
#pragma once

#include <initializer_list>
#include <span>

#include "../tensor/index.hpp"

namespace weft {

/// The values of padding elements: a constant, the elements mirrored at the outermost one, the outermost one, or the
/// elements of the other side.
enum class Padding : uint8_t { constant, reflect, replicate, circular };

/// A new tensor: x with padding[0] elements more before and padding[1] after its last dimension, padding[2] and
/// padding[3] around the one before, and so on; a negative number removes elements. Padding has the value `value`
/// (ValueError if an integer dtype does not hold it).
///
/// The other modes pad the last one, two or three dimensions of a tensor with one or two further dimensions; padded
/// dimensions must not be empty, and `value` must be 0 (ValueError). reflect pads by less than the size of a dimension
/// and circular by at most the size, after removed elements.
///
/// ShapeError where that is not so, for an odd number of numbers, for more than x has dimensions, and where a size
/// would be negative.
[[nodiscard]] WEFT_API Tensor pad(const Tensor& x, std::span<const int64_t> padding, Padding mode = Padding::constant,
                                  Scalar value = 0, Location where = {});
[[nodiscard]] WEFT_API Tensor pad(const Tensor& x, std::initializer_list<int64_t> padding,
                                  Padding mode = Padding::constant, Scalar value = 0, Location where = {});

}  // namespace weft
