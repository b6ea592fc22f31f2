#include "../detail/clip.hpp"

#include <cmath>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../optim/gradients-inl.hpp"
#include "../../tensor/error.hpp"
#include "../collectives.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed::detail {

void check_max_norm(double max_norm) { expect_at_least("max_norm", max_norm, 0); }

double norm_over(std::span<const Group> groups, double norm) {
  double over_ranks = norm;
  for (const double scale : {1.0, 0x1p-520}) {  // the second scale is used if squares overflow
    const double scaled = norm * scale;
    Tensor squares = tensor(scaled * scaled, f64);
    for (const Group& group : groups) squares = all_reduce(squares, group);
    over_ranks = std::sqrt(squares.item<double>()) / scale;
    if (std::isfinite(squares.item<double>())) break;
  }
  return over_ranks;
}

double clip_over(std::span<const Group> groups, std::span<const Tensor> counted, std::span<const Tensor> all,
                 double max_norm) {
  const NoGradGuard unrecorded;
  const double norm = norm_over(groups, optim::detail::gradient_length(counted));
  const double factor = max_norm / (norm + 1e-6);
  if (!(factor >= 1)) optim::detail::scale_gradients(all, factor);
  return norm;
}

}  // namespace weft::distributed::detail
