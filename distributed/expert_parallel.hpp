// Mixtures of experts whose experts lie on the ranks of a group, each of which has tokens of its own.
//
//   ExpertParallelMoE moe(512, 1024, 64, {.moe = {.top_k = 4}, .group = ep});   // 64 / ranks experts here
//   const auto [y, balance, z, counts] = moe.forward_with_losses(x);            // x is this rank's
//   (task(y) + 0.01 * balance).backward();
//   replicas.finish();    // DataParallel(moe.replicated_parameters(), {.group = ep}): not the experts
//
// Every rank of the group calls the same functions in the same order, and all run backward.
#pragma once

#include <optional>

#include "../nn/moe.hpp"
#include "token_dispatcher.hpp"

namespace weft::distributed {

struct ExpertParallelOptions {
  /// capacity_factor counts each rank's tokens by themselves.
  nn::MoEOptions moe = {};
  TokenDispatcherOptions::Kind kind = TokenDispatcherOptions::Kind::all_to_all;
  /// Gradients of experts are those of the mean of the ranks' losses: the sum over all ranks' tokens, divided by the
  /// number of ranks. That is what replicated_parameters() have once DataParallel has averaged them, and what one
  /// process has on the batches of all ranks together, where each rank's loss is a mean over as many tokens. Otherwise
  /// they are those of the sum of the ranks' losses, as collectives have them.
  bool mean_of_losses = true;
  Group group = world();
  /// Ranks that have the same experts and other tokens, as along "dp" of a mesh with "dp" and "ep": balance_loss,
  /// z_loss and counts are of their tokens, too.
  std::optional<Group> replicas = {};
};

/// nn::MoE of which rank r of the group has the experts [r · experts / ranks, …): up [experts / ranks, …, width] and
/// down [experts / ranks, width, hidden]. Router, shared experts and expert_bias are the same on every rank. First
/// values are those of nn::MoE, of which each rank keeps its experts, so that ranks whose generators stand alike make
/// one layer together. x [..., width] are a rank's own tokens; it may have none. balance_loss, z_loss and counts of
/// forward_with_losses are of all ranks' tokens, and of all replicas': each rank adds the losses to its own, and in the
/// mean of the ranks' losses they count once. Errors as nn::MoE; ValueError unless the number of ranks divides
/// `experts`.
class WEFT_API ExpertParallelMoE : public nn::MoE {
 public:
  ExpertParallelMoE(int64_t width, int64_t hidden, int64_t experts, const ExpertParallelOptions& options = {},
                    Location where = {});

  /// This rank's experts, whose gradients come from all ranks' tokens: none are to be averaged over the group.
  std::vector<Tensor> expert_parameters() const { return {up, down}; }
  /// What all ranks have, whose gradients come from this rank's tokens alone.
  std::vector<Tensor> replicated_parameters() const;
};

/// The same of an nn::MoE of a model, in place, for all its copies: each rank keeps its experts; gradients are dropped.
/// `options.moe` says nothing here. ValueError for another layer, one that is in parts or parametrized, and unless the
/// number of ranks divides the experts; then it is as it was.
WEFT_API void cut_experts(const nn::Module& layer, const ExpertParallelOptions& options = {}, Location where = {});

}  // namespace weft::distributed
