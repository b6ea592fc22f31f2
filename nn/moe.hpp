// Mixture of experts: a router selects a few of many feed-forward networks for each token.
//
//   nn::MoE moe(512, 1024, 64, {.top_k = 4, .balance_weight = 0.01});
//   Tensor y = moe(x);                                     // weighted sum of each token's experts
//   task(y).backward();                                    // includes the balance loss of the router
#pragma once

#include <optional>
#include <tuple>

#include "module.hpp"

namespace weft::nn {

/// Scores from the router's logits: softmax over all experts, or sigmoid of each (DeepSeek-V3).
enum class RouterScores : uint8_t { softmax, sigmoid };
/// Formula of an expert, without biases: down(silu(gate(x)) * up(x)), or down(gelu(up(x))).
enum class ExpertKind : uint8_t { swiglu, gelu };

struct MoEOptions {
  /// Number of experts per token.
  int64_t top_k = 2;
  RouterScores scores = RouterScores::softmax;
  /// Divide the weights of a token's experts by their sum. With top_k = 1 the weight is then always 1, so that the
  /// router gets no gradient from the output; a warning is given.
  bool normalize = true;
  ExpertKind kind = ExpertKind::swiglu;
  /// Number of shared experts, computed as one wider expert: they process every token with weight 1.
  int64_t shared_experts = 0;
  /// Limits each expert to ⌈capacity_factor * tokens * top_k / experts⌉ tokens per call, first choices before second
  /// ones; dropped tokens add nothing. If empty, no token is dropped, and exactly the selected rows are computed.
  std::optional<double> capacity_factor = {};
  /// Adds a buffer `expert_bias` [experts], which is added to the scores for selecting experts but not for weighting
  /// them. See update_expert_bias.
  bool expert_bias = false;
  /// In training, adds balance_loss and z_loss with these weights to the loss, as auxiliary losses of the output
  /// (nn/auxiliary_loss.hpp). forward_with_losses returns them instead.
  double balance_weight = 0, z_weight = 0;
};

/// The result of MoE::forward_with_losses.
struct MoEOutput {
  Tensor output;        ///< x's shape and dtype
  Tensor balance_loss;  ///< 0-d: experts * Σ f p, 1 if experts are balanced (Fedus et al. 2021)
  Tensor z_loss;        ///< 0-d: the mean of logsumexp(logits)² (Zoph et al. 2022)
  Tensor counts;        ///< [experts], i64: tokens that selected each expert, including dropped ones
  auto tensors() { return std::tie(output, balance_loss, z_loss, counts); }
};

/// x [..., width] -> the same shape: for each token the sum of its experts' outputs, weighted by their scores. The
/// router computes in f32, or f64. In balance_loss, f is each expert's fraction of the selections and p its mean score
/// over all tokens; sigmoid scores are divided by their sum there. The router gets gradients through weights and
/// losses. The experts' weights are stacked: `up` [experts, 2 hidden, width] with the gates first, or [experts, hidden,
/// width] for gelu, and `down` [experts, width, hidden]. Shared experts have `shared_up` and `shared_down`. All are
/// initialised uniformly in ±1/√in. On a device a call synchronizes. Raises ValueError for negative sizes, unless 0 <
/// top_k <= experts, and for a capacity_factor that is not above 0. A call raises ShapeError for another width,
/// DTypeError for another dtype than the weights'.
class WEFT_API MoE : public Layer<MoE> {
 public:
  MoE(int64_t width, int64_t hidden, int64_t experts, MoEOptions options = {}, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;
  /// As `forward`, and returns the router's losses, in f32 or f64. Does not run forward hooks.
  MoEOutput forward_with_losses(const Tensor& x, Location where = {}) const;
  /// Balances experts without a loss (Wang et al. 2024): adds `rate` to the bias of each expert with fewer tokens than
  /// the mean of `counts` [experts], subtracts it for those with more. `counts` are from one call or a sum of calls.
  /// Called after an optimizer step. Raises ValueError without expert_bias, ShapeError for another shape.
  void update_expert_bias(const Tensor& counts, double rate = 1e-3, Location where = {});

  const MoEOptions& options() const { return options_; }

  Parameter router, up, down, shared_up, shared_down;
  Buffer expert_bias;

 private:
  MoEOptions options_;
};

}  // namespace weft::nn
