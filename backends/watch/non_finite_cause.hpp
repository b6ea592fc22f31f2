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

/// Cause of a value: `inputs` are the inputs of the op's kernel, without overwritten ones.
NonFiniteCause cause_of_value(std::string_view op, const View& output, std::span<const View* const> inputs,
                              cpu::NonFinite found);
/// Cause of a gradient: from the incoming gradient and the op's saved tensors.
NonFiniteCause cause_of_gradient(std::string_view op, const View& gradient, std::span<const View> arrived,
                                 std::span<const View> kept, cpu::NonFinite found);

}  // namespace weft::detail
