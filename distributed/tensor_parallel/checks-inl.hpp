// Checks of sharded layers and losses. Not public.
#pragma once

#include <fmt/format.h>

#include "../../ops/detail/common.hpp"
#include "../../ops/reduce.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed::detail {

inline void check_integers(const Tensor& t) { expect_integers("", checked(t)); }

/// Raises IndexError if `outside` is true anywhere.
inline void check_none(const Tensor& outside, const std::string& problem) {
  if (is_meta(outside)) return;
  check_elements([=] {
    if (any(outside).item<bool>()) raise<IndexError>({.problem = problem});
  });
}

}  // namespace weft::distributed::detail
