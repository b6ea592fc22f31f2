// Mixtures of experts: of many feed-forward networks each token goes through a few, which a router chooses.
//
//   nn::MoE moe(512, 1024, 64, {.top_k = 4, .balance_weight = 0.01});
//   Tensor y = moe(x);                                     // what the experts of each token make of it
//   task(y).backward();                                    // and the router keeps from choosing the same ones
#pragma once

#include <optional>
#include <tuple>

#include "module.hpp"

namespace weft::nn {

/// What makes scores of the router's logits: over all experts, or of each by itself (DeepSeek-V3).
enum class RouterScores : uint8_t { softmax, sigmoid };
/// What an expert computes: down(silu(gate(x)) * up(x)), or down(gelu(up(x))). Without biases.
enum class ExpertKind : uint8_t { swiglu, gelu };

struct MoEOptions {
  /// How many experts a token goes through.
  int64_t top_k = 2;
  RouterScores scores = RouterScores::softmax;
  /// The weights of a token's experts are divided by their sum. With top_k = 1 that is 1, and the output has no
  /// gradient for the router: a warning says so.
  bool normalize = true;
  ExpertKind kind = ExpertKind::swiglu;
  /// So many experts, as one that is as much wider, get every token, and are added with weight 1.
  int64_t shared_experts = 0;
  /// An expert takes ⌈capacity_factor * tokens * top_k / experts⌉ tokens of a call at most, first choices before second
  /// ones; what is dropped adds nothing. Left out, none is dropped, and as many rows are computed as are chosen.
  std::optional<double> capacity_factor = {};
  /// There is a buffer `expert_bias` [experts] that is added to scores where experts are chosen, and not where they are
  /// weighed: see update_expert_bias.
  bool expert_bias = false;
  /// In training what the layer gives carries its balance_loss and z_loss with these weights (nn/auxiliary_loss.hpp):
  /// gradients are those of a loss to which they were added. forward_with_losses leaves that to its caller.
  double balance_weight = 0, z_weight = 0;
};

/// What a call of a mixture of experts gives.
struct MoEOutput {
  Tensor output;        ///< of x's shape and dtype
  Tensor balance_loss;  ///< 0-d: experts * Σ f p, 1 where experts are chosen alike (Fedus et al. 2021)
  Tensor z_loss;        ///< 0-d: the mean of logsumexp(logits)² (Zoph et al. 2022)
  Tensor counts;        ///< [experts], i64: how many tokens chose each, dropped ones too
  auto tensors() { return std::tie(output, balance_loss, z_loss, counts); }
};

/// x [..., width] -> the same shape: for each token the sum of its experts' results, times their scores. The router
/// computes in f32, or f64. f of balance_loss is each expert's share of what was chosen, p the mean of its score in
/// all; sigmoids are divided by their sum there. Gradients reach the router by weights and losses. The experts' weights
/// lie one behind the other: `up` [experts, 2 hidden, width], gates first, or of gelu [experts, hidden, width], and
/// `down` [experts, width, hidden]; of shared ones `shared_up` and `shared_down` likewise. All first values are uniform
/// in ±1/√in. ValueError for negative sizes, unless 0 < top_k <= experts, and for a capacity_factor that is not above
/// 0; a call raises ShapeError for another width, DTypeError for another dtype than the weights'. On a device a call
/// waits.
class WEFT_API MoE : public Layer<MoE> {
 public:
  MoE(int64_t width, int64_t hidden, int64_t experts, MoEOptions options = {}, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;
  /// The same with the router's losses, in f32 or f64. Hooks on forward do not see it.
  MoEOutput forward_with_losses(const Tensor& x, Location where = {}) const;
  /// Balances without a loss (Wang et al. 2024): adds `rate` to the bias of each expert that fewer tokens chose than
  /// the mean of `counts` [experts], as a call or a sum of calls gave them, and takes it from those that more chose.
  /// Called behind an optimizer's step. ValueError without expert_bias, ShapeError.
  void update_expert_bias(const Tensor& counts, double rate = 1e-3, Location where = {});

  const MoEOptions& options() const { return options_; }

  Parameter router, up, down, shared_up, shared_down;
  Buffer expert_bias;

 private:
  MoEOptions options_;
};

}  // namespace weft::nn
