// Mixtures of experts whose experts lie on the ranks of a group, each of which has tokens of its own.
//
//   ExpertParallelMoE moe(512, 1024, 64, {.moe = {.top_k = 4}, .group = ep});   // 64 / ranks experts here
//   const auto [y, balance, z, counts] = moe.forward_with_losses(x);            // x is this rank's
//   (task(y) + 0.01 * balance).backward();
//   replicas.finish();    // DataParallel(moe.replicated_parameters(), {.group = ep}): not the experts
//
// Every rank of the group calls the same functions in the same order, and all run backward.
#pragma once

#include "../io/sharded_state.hpp"
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
};

/// nn::MoE of which rank r of the group has the experts [r · experts / ranks, …): up [experts / ranks, …, width] and
/// down [experts / ranks, width, hidden]. Router, shared experts and expert_bias are the same on every rank, and so is
/// what the losses are: those of all ranks' tokens together. First values are those of nn::MoE, of which each rank
/// keeps its experts, so that ranks whose generators stand alike make one layer together. A rank may have no tokens.
/// Errors as nn::MoE; ValueError unless the number of ranks divides `experts`.
class WEFT_API ExpertParallelMoE : public nn::Layer<ExpertParallelMoE> {
 public:
  ExpertParallelMoE(int64_t width, int64_t hidden, int64_t experts, ExpertParallelOptions options = {},
                    Location where = {});
  /// x [..., width] are this rank's tokens.
  Tensor forward(const Tensor& x, Location where) const;
  /// balance_loss, z_loss and counts are of all ranks' tokens. Each rank adds the losses to its own: in the mean of the
  /// ranks' losses they count once.
  nn::MoEOutput forward_with_losses(const Tensor& x, Location where = {}) const;
  /// As nn::MoE's; every rank gives the same counts.
  void update_expert_bias(const Tensor& counts, double rate = 1e-3, Location where = {});

  /// This rank's experts, whose gradients come from all ranks' tokens: none are to be averaged over the group.
  std::vector<Tensor> expert_parameters() const { return {up, down}; }
  /// What all ranks have, whose gradients come from this rank's tokens alone.
  std::vector<Tensor> replicated_parameters() const;
  /// This rank's experts and what all have, by name, behind `prefix`, for states that other numbers of ranks and
  /// nn::MoE load. Shares the memory.
  io::ShardedState sharded_state(const std::string& prefix = {}) const;

  nn::Parameter router, up, down, shared_up, shared_down;
  nn::Buffer expert_bias;

 private:
  ExpertParallelOptions options_;
  TokenDispatcher dispatcher_;
};

}  // namespace weft::distributed
