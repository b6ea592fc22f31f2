// The steps of a mixture of experts, which a layer on one rank and one on many put together. Not public.
#pragma once

#include <vector>

#include "../../ops/moe.hpp"
#include "../config.hpp"
#include "../moe.hpp"

namespace weft::nn::detail {

/// ValueError for sizes and options that make no mixture of experts.
void check_options(const char* layer, int64_t width, int64_t hidden, int64_t experts, const MoEOptions& options,
                   Location where);
Config config_of(int64_t width, int64_t hidden, int64_t experts, const MoEOptions& options);
MoEOptions options_of(const Config& config);

/// Where tokens go.
struct Routed {
  /// Tokens by expert, or without elements where they were not to be moved.
  MoeGateDispatchOut to;
  /// [T, k], in the compute type.
  Tensor weights;
  /// [T, experts], and the scores of choice, as they are.
  Tensor logits, scores;
  /// How many rows each expert has in `to.y`, and how many chose it.
  std::vector<int64_t> kept, chosen;
};
/// Of x [T, width]. Without `moves` rows of x are not moved.
Routed route(const Tensor& x, const Tensor& router, const Tensor& expert_bias, const MoEOptions& options, bool moves);

/// What losses are made of, in sums over tokens, which ranks add up.
struct RouterSums {
  /// [experts], i64: how many chose each.
  Tensor counts;
  /// [experts + 1]: the sum of each one's share of the scores, and that of logsumexp².
  Tensor shares;
};
RouterSums router_sums(const Routed& routed, const MoEOptions& options);
/// balance_loss, z_loss and counts.
MoEOutput losses_of(const RouterSums& sums, const MoEOptions& options);

/// Rows by expert through the experts of stacked weights.
Tensor through_experts(const Tensor& rows, const Tensor& up, const Tensor& down, const std::vector<int64_t>& counts,
                       ExpertKind kind);
/// x [T, width] through one expert.
Tensor through_shared(const Tensor& x, const Tensor& up, const Tensor& down, ExpertKind kind);

/// x as [T, width]; ShapeError for another width.
Tensor as_tokens(const Tensor& x, int64_t width);

/// expert_bias += rate * sign(mean - counts), not recorded.
void update_bias(const Buffer& expert_bias, const Tensor& counts, double rate);

}  // namespace weft::nn::detail
