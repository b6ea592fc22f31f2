// Why an op made a NaN or an infinity, in words.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "nan_check.hpp"

namespace weft::detail {

struct NonFiniteCause {
  std::string what, remedy;
};

/// Of a value: `inputs` are what a kernel of the op read, without what it overwrote.
NonFiniteCause cause_of_value(std::string_view op, const View& output, std::span<const View* const> inputs,
                              cpu::NonFinite found);
/// Of a gradient: what arrived at the op, and the tensors that it had kept.
NonFiniteCause cause_of_gradient(std::string_view op, const View& gradient, std::span<const View> arrived,
                                 std::span<const View> kept, cpu::NonFinite found);

}  // namespace weft::detail
