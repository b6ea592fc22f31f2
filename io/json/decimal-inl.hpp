// Decimals, rounded once. Internal to io/.
#pragma once

#include <string>
#include <string_view>

#include "../../tensor/dtype.hpp"

namespace weft::io {

/// The double next to a JSON number, rounded to odd: where the number is no double, the one of its two neighbours whose
/// last bit is set. Rounded once more, to at most 50 bits, it gives what the number itself would. Infinite beyond the
/// range.
double odd_double(std::string_view number);

/// The fewest digits that `odd_double` and a rounding to `dtype` lead back to `value`, which is finite and of that
/// dtype, with a point or an exponent.
std::string shortest_decimal(double value, DType dtype);

}  // namespace weft::io
