// Decimal numbers with a single rounding. Internal to io/.
#pragma once

#include <string>
#include <string_view>

#include "../../tensor/dtype.hpp"

namespace weft::io {

/// Returns the double nearest to a JSON number, rounded to odd: if the number is not a double, the neighbour with an
/// odd mantissa. A second rounding to at most 50 bits then equals rounding the number itself once. Infinite beyond the
/// range.
double odd_double(std::string_view number);

/// Returns the fewest digits that round-trip through `odd_double` and a rounding to `dtype`, with a point or an
/// exponent. `value` must be finite and a value of `dtype`.
std::string shortest_decimal(double value, DType dtype);

}  // namespace weft::io
