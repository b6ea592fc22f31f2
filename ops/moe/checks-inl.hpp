// Common checks of mixture-of-experts ops. Not public.
#pragma once

#include <string>

#include <fmt/format.h>

#include "../detail/common.hpp"

namespace weft {

inline void check_integers(const char* what, const Tensor& t) {
  if (is_integer(t.dtype())) return;
  raise<DTypeError>({.problem = fmt::format("{} holds integers, not {}", what, name(t.dtype()))});
}

inline void check_shape(const char* what, const std::string& expected, const Tensor& t, bool fits) {
  if (fits) return;
  raise<ShapeError>({.problem = fmt::format("{} is {}, not {}", what, expected, t.shape().text())});
}

inline void check_expert(int64_t e, int64_t experts) {
  if (e < -1 || e >= experts) raise<IndexError>({.problem = fmt::format("expert {} of {}", e, experts)});
}

}  // namespace weft
