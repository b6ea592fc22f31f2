// Common checks of mixture-of-experts ops. Not public.
#pragma once

#include <string>

#include <fmt/format.h>

#include "../detail/common.hpp"

namespace weft {

inline void check_expert(int64_t e, int64_t experts) {
  if (e < -1 || e >= experts) raise<IndexError>({.problem = fmt::format("expert {} of {}", e, experts)});
}

}  // namespace weft
