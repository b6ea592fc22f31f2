// The steps of a mixture of experts, shared by layers on one rank and on several. Not public.
#pragma once

#include <vector>

#include "../../ops/moe.hpp"
#include "../config.hpp"
#include "../moe.hpp"

namespace weft::nn::detail {

/// Raises ValueError for invalid sizes and options.
void check_options(const char* layer, int64_t width, int64_t hidden, int64_t experts, const MoEOptions& options,
                   Location where);
Config config_of(int64_t width, int64_t hidden, int64_t experts, const MoEOptions& options);
MoEOptions options_of(const Config& config);

struct Routed {
  /// Tokens grouped by expert; empty if they were not moved.
  MoeGateDispatchOut to;
  /// Weights [T, k], in the compute dtype.
  Tensor weights;
  /// [T, experts]: the logits, and the unnormalised scores.
  Tensor logits, scores;
  /// Per expert: number of rows in `to.y`, and number of tokens that selected it.
  std::vector<int64_t> kept, chosen;
};
/// Routes x [T, width]. Without `moves` the rows of x are not moved.
Routed route(const Tensor& x, const Tensor& router, const Tensor& expert_bias, const MoEOptions& options, bool moves);

/// Sums over tokens for the losses, which are reduced over ranks.
struct RouterSums {
  /// [experts], i64: number of tokens that selected each.
  Tensor counts;
  /// [experts + 1]: the sum of each expert's normalised scores, and the sum of logsumexp².
  Tensor shares;
};
RouterSums router_sums(const Routed& routed, const MoEOptions& options);
/// Computes balance_loss, z_loss and counts.
MoEOutput losses_of(const RouterSums& sums, const MoEOptions& options);

/// Runs rows, grouped by expert, through the experts with stacked weights.
Tensor through_experts(const Tensor& rows, const Tensor& up, const Tensor& down, const std::vector<int64_t>& counts,
                       ExpertKind kind);
/// Runs x [T, width] through one expert.
Tensor through_shared(const Tensor& x, const Tensor& up, const Tensor& down, ExpertKind kind);

/// x as [T, width]. Raises ShapeError for another width.
Tensor as_tokens(const Tensor& x, int64_t width);

/// expert_bias += rate * sign(mean - counts), not recorded.
void update_bias(const Buffer& expert_bias, const Tensor& counts, double rate);

}  // namespace weft::nn::detail
