// The norm of gradients that lie on several ranks.
#pragma once

#include <span>
#include <vector>

#include "../../tensor/tensor.hpp"
#include "../group.hpp"

namespace weft::distributed::detail {

/// ValueError for a negative one.
void check_max_norm(double max_norm);
/// The 2-norm of what the ranks of all these groups count, one group's sums after the other's; `all` gradients here are
/// scaled so that it is at most max_norm.
double clip_over(std::span<const Group> groups, std::span<const Tensor> counted, std::span<const Tensor> all,
                 double max_norm);

}  // namespace weft::distributed::detail
