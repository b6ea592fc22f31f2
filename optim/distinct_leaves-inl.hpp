// Checks of parameter lists. Not public.
#pragma once

#include <set>
#include <vector>

#include <fmt/format.h>

#include "../tensor/error.hpp"
#include "../tensor/tensor.hpp"

namespace weft::optim::detail {

/// Raises ValueError for a tensor that is undefined, not a leaf, or given twice.
inline void check_distinct_leaves(const std::vector<Tensor>& parameters) {
  std::set<const TensorImpl*> seen;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    const char* const fault = !p.defined()                    ? "is undefined"
                              : !p.is_leaf()                  ? "is not a leaf"
                              : !seen.insert(p.impl()).second ? "is given twice"
                                                              : nullptr;
    if (fault != nullptr) raise<ValueError>({.problem = fmt::format("parameter {} {}", i, fault)});
  }
}

}  // namespace weft::optim::detail
