// Weights of micro-batches. Not public.
#pragma once

#include <vector>

#include "../../tensor/callback.hpp"

namespace weft::distributed::detail {

/// Raises ValueError for a weight that is negative or not finite.
void check_micro_batch_weights(const std::vector<double>& weights);

/// Returns each weight divided by the mean weight of all replicas' micro-batches: 1 for equal weights. Losses and
/// auxiliary losses of micro-batch m are multiplied by shares[m] / micro-batches. `mean_weight` maps this replica's sum
/// of weights to the mean over replicas; empty if there is one replica. Raises ValueError for a weight that is negative
/// or not finite.
std::vector<double> micro_batch_shares(std::vector<double> weights, const Callback<double(double)>& mean_weight = {});

}  // namespace weft::distributed::detail
