// Norms of gradients that are distributed over ranks.
#pragma once

#include <span>
#include <vector>

#include "../../tensor/tensor.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// Raises ValueError if max_norm is negative.
void check_max_norm(double max_norm);
/// The square root of the sum of norm² over the ranks of all groups, also if the squares overflow in float64.
double norm_over(std::span<const Group> groups, double norm);
/// The 2-norm of `counted` over the ranks of all groups: sums of squares are reduced over one group after the other.
/// Scales the gradients of `all` so that the norm is at most max_norm.
double clip_over(std::span<const Group> groups, std::span<const Tensor> counted, std::span<const Tensor> all,
                 double max_norm);

}  // namespace weft::distributed::detail
