// Mixtures of experts whose experts are sharded over the ranks of a group; each rank has its own tokens.
//
//   ExpertParallelMoE moe(512, 1024, 64, {.moe = {.top_k = 4}, .group = ep});   // 64 / ranks experts here
//   const auto [y, balance, z, counts] = moe.forward_with_losses(x);            // x: this rank's tokens
//   (task(y) + 0.01 * balance).backward();
//   replicas.finish();    // DataParallel(moe.replicated_parameters(), {.group = ep}): not the experts
//
// Every rank of the group calls the same functions in the same order, and all ranks run backward.
#pragma once

#include <optional>

#include "../nn/moe.hpp"
#include "token_dispatcher.hpp"

namespace weft::distributed {

struct ExpertParallelOptions {
  /// capacity_factor applies to each rank's tokens separately.
  nn::MoEOptions moe = {};
  TokenDispatcherOptions::Kind kind = TokenDispatcherOptions::Kind::all_to_all;
  /// If true, gradients of experts are those of the mean of the ranks' losses: the sum over all ranks' tokens, divided
  /// by the number of ranks. This matches replicated_parameters() after DataParallel has averaged them. It also matches
  /// one process on the batches of all ranks, if each rank's loss is a mean over as many tokens. If false, gradients
  /// are those of the sum of the ranks' losses, as for collectives.
  bool mean_of_losses = true;
  Group group = world();
  /// Ranks with the same experts and other tokens, as along "dp" of a mesh with "dp" and "ep". balance_loss, z_loss and
  /// counts include their tokens.
  std::optional<Group> replicas = {};
  /// Ranks with the same experts and other tokens of the same sequences, as along "tp" with sequence_parallel, over
  /// which gradients are summed. balance_loss, z_loss and counts include their tokens; each rank adds the losses to its
  /// own, and they count once in the sum of the gradients.
  std::optional<Group> sequence = {};
};

/// nn::MoE in which rank r of the group has the experts [r · experts / ranks, …): up [experts / ranks, …, width] and
/// down [experts / ranks, width, hidden]. Router, shared experts and expert_bias are the same on every rank. Parameters
/// are initialized as in nn::MoE, and each rank keeps its experts; so ranks with equal generator states together
/// initialize one layer. x [..., width] holds a rank's own tokens; it may have none. balance_loss, z_loss and counts of
/// forward_with_losses cover the tokens of all ranks and all replicas: each rank adds the losses to its own, and they
/// count once in the mean of the ranks' losses. Raises the errors of nn::MoE, and ValueError unless the number of ranks
/// divides `experts`.
class WEFT_API ExpertParallelMoE : public nn::MoE {
 public:
  ExpertParallelMoE(int64_t width, int64_t hidden, int64_t experts, const ExpertParallelOptions& options = {},
                    Location where = {});

  /// This rank's experts. Their gradients include all ranks' tokens, so they must not be averaged over the group.
  std::vector<Tensor> expert_parameters() const { return {up, down}; }
  /// Parameters that all ranks have. Their gradients cover only this rank's tokens.
  std::vector<Tensor> replicated_parameters() const;
};

/// Turns an nn::MoE of a model into an expert-parallel one, in place, for all its copies: each rank keeps its experts;
/// gradients are dropped. `options.moe` is ignored. Raises ValueError for another layer, for one that is already
/// sharded or parametrized, and unless the number of ranks divides the experts; the layer is unchanged then.
WEFT_API void cut_experts(const nn::Module& layer, const ExpertParallelOptions& options = {}, Location where = {});

}  // namespace weft::distributed
