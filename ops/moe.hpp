// Mixtures of experts: permutes tokens by expert, and combines the experts' outputs per token.
//
//   const auto [y, weights, scatter, offset, expert_id] = moe_gate_dispatch(x, softmax(logits), {}, 2, x.size(0),
//   false); Tensor out = moe_combine(grouped_linear(y, weight, counts), weights, scatter);
//
// Row counts have 64 bits, row indices are i32, and no float sum depends on the order of threads. The host reads the
// routing, and waits for it on a device.
#pragma once

#include <optional>
#include <span>
#include <tuple>

#include "../backends/activation.hpp"
#include "../tensor/index.hpp"

namespace weft {

struct MoePermuteOut {
  Tensor tokens;  ///< [R, H], of x's dtype; [0, H] where nothing was gathered
  Tensor rowmap;  ///< [S, experts], i32: the row of each token's copy for each expert, or -1
  Tensor probs;   ///< [R], f32, or f64 where probs are
  Tensor scale;   ///< [R, …], of scale's dtype; [R, 0] where none was given
};

/// Groups the tokens x [S, H] by expert: R rows, ordered by expert, then by token. Each expert's block is zero-padded
/// to a multiple of `align`. routing [S, K], i32 or i64 in [-1, num_experts), lists the experts of each token, with -1
/// for none; probs [S, K], floating, are permuted alike. tokens_per_expert counts the tokens of each expert. x is f16,
/// bf16, f32, f64 or an 8-bit float. An 8-bit float needs a scale: [S, ⌈H / 128⌉] in f32, or [S, ⌈H / 512⌉] in i32 with
/// four power-of-two exponents packed in each; scales move with their rows. Without `gather`, rows of x are not moved.
/// The gradient of x is the sum over its rows in f32, in ascending order of expert. Raises ShapeError if shapes do not
/// fit; DTypeError; IndexError for an expert that does not exist. Raises ValueError for a repeated expert of a token,
/// for counts that differ from routing's, for align below 1 and beyond 2^31 - 1 rows.
WEFT_API MoePermuteOut moe_permute(const Tensor& x, const std::optional<Tensor>& scale, const Tensor& routing,
                                   const Tensor& probs, int64_t num_experts, std::span<const int64_t> tokens_per_expert,
                                   int64_t align, bool gather = true, Location where = {});

/// Takes the rows back: y [S, H], for each token the sum of its rows of `tokens` [R, H] by rowmap [S, E] in ascending
/// order of expert, 0 where it has none; and [S, K], the probs [R] of the rows that routing [S, K] names, 0 where it
/// names none. Nothing is multiplied. 16-bit floats are summed in f32 and rounded once or, without f32_accumulate,
/// rounded after each row.
/// ShapeError where shapes do not fit; DTypeError; IndexError for a row or an expert that is not there; ValueError for
/// a row that two tokens have.
WEFT_API std::tuple<Tensor, Tensor> moe_unpermute(const Tensor& tokens, const Tensor& rowmap, const Tensor& routing,
                                                  const Tensor& probs, int64_t S, int64_t E, bool f32_accumulate = true,
                                                  Location where = {});

struct MoeGateDispatchOut {
  Tensor y;          ///< [rows, H], of x's dtype
  Tensor weights;    ///< [S, k], f32, or f64 where scores are: the scores of those chosen, 0 where one was dropped
  Tensor scatter;    ///< [k, S], i32: the row in y of each choice, or -1 where it was dropped
  Tensor offset;     ///< [E], i64: how many chose this expert and those before, dropped ones too
  Tensor expert_id;  ///< [S, k], i32, the best first
};

/// Chooses for each token x [S, H] the k experts with the largest scores [S, E], floating, plus bias [E]; ties go to
/// the first, and NaN ranks highest. Each expert takes up to `capacity` tokens: its first choices in order, then second
/// choices, and so on; further tokens are dropped. With `pad`, y is [E * capacity, H] with row e * capacity + i for
/// token i of expert e, and 0 in unused rows; else unused rows are left out. Weights are scores without bias. Only kept
/// tokens contribute to the gradients of x and scores. Raises ShapeError if shapes do not fit; DTypeError; ValueError
/// unless 0 <= k <= E and capacity is at least 0, and beyond 2^31 - 1 rows.
WEFT_API MoeGateDispatchOut moe_gate_dispatch(const Tensor& x, const Tensor& scores, const std::optional<Tensor>& bias,
                                              int64_t k, int64_t capacity, bool pad, Location where = {});

/// [S, H], of y's dtype: for each token the sum over j of weights[s, j] * y[scatter[j, s]], in f32 or f64; terms with a
/// scatter of -1 are skipped, also if y or weights are NaN. y [rows, H], weights [S, k], floating, scatter [k, S],
/// integers. Raises ShapeError, DTypeError; IndexError for a row that does not exist.
[[nodiscard]] WEFT_API Tensor moe_combine(const Tensor& y, const Tensor& weights, const Tensor& scatter,
                                          Location where = {});

/// linear with a weight for each block of rows: rows [counts[0] + …, + counts[e]) of x [R, in] times the transpose of
/// weight[e], of weight [E, out, in]: [R, out]. Only rows that are there are computed. DTypeError; ShapeError unless
/// counts are E numbers of rows that add up to R.
[[nodiscard]] WEFT_API Tensor grouped_linear(const Tensor& x, const Tensor& weight, std::span<const int64_t> counts,
                                             Location where = {});

/// How experts' weights are stored.
enum class ExpertQuantisation : uint8_t { none, per_tensor, block };

struct MoeOptions {
  /// silu, gelu, which is its tanh approximation here, relu or selu.
  Activation activation = Activation::silu;
  /// Each weight is stored [out, in].
  bool transposed_weights = false;
  /// Which of all experts the weights are of, both ends included; the last one follows from their number.
  int64_t experts_min = 0;
  std::optional<int64_t> experts_max = {};
  /// How many experts there are, these and those of others: ids from it on are errors. Where neither this nor
  /// experts_max is given, the experts here are all; where experts_max alone is, ids have no bound.
  std::optional<int64_t> total_experts = {};
  bool measure_amax = false;
  ExpertQuantisation quantisation = ExpertQuantisation::none;
};

/// (out, amax): out [T, H'], for each token of h [T, H] the sum over k of weights[t, k] * E(h[t]), E the expert
/// routing[t, k], (activation(h gate) ⊙ (h up)) down, with the products of fused_mlp. routing [T, K], integers. Experts
/// of other slices, and -1, are skipped, so the outputs of all slices of the experts add up to the whole. gate_up has a
/// weight [H, 2 F] for each of N experts, the gate first, or N gates and then N ups [H, F]; down [F, H'] N of them.
/// Sums are made in f32 (f64 for f64) in ascending order of expert and rounded once. amax [N] is the largest
/// |activation(gate) up| of each expert in f32 (f64), and 0 for an expert without tokens; [0] if it is not measured.
/// Gradients of h, weights, gate_up and down. ShapeError and DTypeError where operands do not fit, IndexError for ids
/// beyond total_experts or below -1. ValueError for other activations and for ranges that the weights do not fill,
/// NotImplementedError for quantised weights. Routing is read on the host.
WEFT_API std::tuple<Tensor, Tensor> mixture_of_experts(const Tensor& h, const Tensor& routing, const Tensor& weights,
                                                       std::span<const Tensor> gate_up, std::span<const Tensor> down,
                                                       const MoeOptions& options = {}, Location where = {});

/// (weights, ids), [T, top_k] in f32 (f64 for f64) and i32: with p the softmax of gate_out [T, E] in f32, the top_k
/// experts with the largest p + bias [E], in descending order; ties go to the first. Weights are p without bias;
/// `norm_topk` divides them by their sum, and a sum of 0 gives 0. Gradients of gate_out flow through the weights only.
/// ValueError unless 0 <= top_k <= E.
WEFT_API std::tuple<Tensor, Tensor> moe_topk_gate(const Tensor& gate_out, const std::optional<Tensor>& bias,
                                                  int64_t top_k, bool norm_topk, Location where = {});

/// mixture_of_experts by the gate's choice: (out, amax). gate_out [T, E] has all experts, of which the weights may be a
/// slice.
WEFT_API std::tuple<Tensor, Tensor> fused_gate_moe(const Tensor& h, const Tensor& gate_out,
                                                   const std::optional<Tensor>& bias, std::span<const Tensor> gate_up,
                                                   std::span<const Tensor> down, int64_t top_k, bool norm_topk,
                                                   const MoeOptions& options = {}, Location where = {});

}  // namespace weft
