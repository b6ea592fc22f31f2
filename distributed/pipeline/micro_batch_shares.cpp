#include "../detail/micro_batch_shares.hpp"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "../../tensor/error.hpp"

namespace weft::distributed::detail {

void check_micro_batch_weights(const std::vector<double>& weights) {
  for (size_t m = 0; m < weights.size(); ++m) {
    if (weights[m] >= 0 && std::isfinite(weights[m])) continue;
    raise<ValueError>(
        {.problem = fmt::format("the weight of micro-batch {} is {}, expected a finite number from 0", m, weights[m])});
  }
}

std::vector<double> micro_batch_shares(std::vector<double> weights, const Callback<double(double)>& mean_weight) {
  check_micro_batch_weights(weights);
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (mean_weight) {
    const OutsideCalls user;
    sum = mean_weight(sum);
  }
  const double mean = sum / static_cast<double>(weights.size());
  for (double& weight : weights) weight = weight == 0 ? 0 : weight / mean;
  return weights;
}

}  // namespace weft::distributed::detail
