#include "../detail/clip.hpp"

#include <cmath>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../optim/clip_grad.hpp"
#include "../../tensor/error.hpp"
#include "../collectives.hpp"

namespace weft::distributed::detail {

void check_max_norm(double max_norm) {
  if (!(max_norm >= 0)) raise<ValueError>({.problem = fmt::format("max_norm is {}", max_norm)});
}

double clip_over(std::span<const Group> groups, std::span<const Tensor> counted, std::span<const Tensor> all,
                 double max_norm) {
  const NoGradGuard unrecorded;
  const double here = optim::total_grad_norm({counted.begin(), counted.end()}).item<double>();
  Tensor squares = tensor(here * here, f64);
  for (const Group& group : groups) squares = all_reduce(squares, group);
  const double norm = std::sqrt(squares.item<double>()), factor = max_norm / (norm + 1e-6);
  for (const Tensor& p : all) {
    if (p.grad().defined() && !(factor >= 1)) p.grad().mul_(factor);
  }
  return norm;
}

}  // namespace weft::distributed::detail
