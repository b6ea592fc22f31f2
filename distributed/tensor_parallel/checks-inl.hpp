// Checks of layers and losses in parts. Not public.
#pragma once

#include <fmt/format.h>

#include "../../ops/detail/common.hpp"

namespace weft::distributed::detail {

inline void check_integers(const Tensor& t) {
  if (is_integer(checked(t).dtype())) return;
  raise<DTypeError>({.problem = fmt::format("integers are needed, not {}", name(t.dtype()))});
}

}  // namespace weft::distributed::detail
