// Attention.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "../tensor/index.hpp"

namespace weft {

struct AttentionOptions {
  /// Broadcasts to [..., L, S]: bool, where true takes part, or a float that is added to the scores.
  Tensor mask = {};
  /// Of the weights.
  double dropout_p = 0;
  /// Query i sees keys 0 … i, in addition to the mask.
  bool causal = false;
  /// 1 / sqrt(E) unless given.
  std::optional<double> scale = {};
  /// The heads of k and v, their third dimension from the end, may be a divisor of q's.
  bool enable_gqa = false;
};
/// softmax(scale · q · kᵀ + mask) · v, as PyTorch's function of that name. q is [..., L, E], k [..., S, E] and v
/// [..., S, Ev] with batch dimensions that broadcast; the result is [..., L, Ev] in q's dtype. A query that sees no key
/// gives zeros and zero gradients. Scores of 16-bit floats are computed in f32. ShapeError, DTypeError, ValueError.
[[nodiscard]] WEFT_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                                           const AttentionOptions& options = {}, Location where = {});

/// The slopes of `n` heads (Press et al. 2022): 2^(-8i/n) for i = 1 … n where n is a power of two; else those of the
/// largest power of two c below n, and the first n - c of every second one of 2c. ValueError where n < 1.
WEFT_API std::vector<double> alibi_slopes(int64_t n, Location where = {});

/// How attention is computed: by the fastest way that is eligible; by public ops, with all weights in memory; or by one
/// kernel without them, forward and backward.
enum class AttentionBackend : uint8_t { automatic, math, fused };
/// Returns "auto", "math" or "fused".
WEFT_API const char* name(AttentionBackend backend);

/// The number of keys that a query sees before and after its own position; -1: all.
struct AttentionWindow {
  int64_t left = -1, right = -1;
  bool operator==(const AttentionWindow&) const = default;
};

struct AttentionArguments {
  /// Broadcasts to [B, H, Sq, Sk]: bool, where true takes part, or a float that is added to the scores.
  Tensor mask = {};
  /// Query i sees keys 0 … i + Sk - Sq: the last query sees all.
  bool causal = false;
  /// 1 / sqrt(D) unless given.
  std::optional<double> scale = {};
  /// Of the weights.
  double dropout = 0;
  /// [H] or [B, H], floating: slope * (j - (i + Sk - Sq)) is added to the score of query i and key j.
  Tensor alibi_slopes = {};
  /// Around i + Sk - Sq.
  AttentionWindow window = {};
  AttentionBackend backend = AttentionBackend::automatic;
};
/// softmax(scale · q · kᵀ + alibi + mask) · v: [B, Sq, H, Dv] in q's dtype. q is [B, Sq, H, D], k [B, Sk, Hkv, D] and v
/// [B, Sk, Hkv, Dv], where Hkv divides H. Each head of k and v serves H / Hkv consecutive heads of q. The mathematics
/// is the same on every backend; scores of 16-bit floats are computed in f32. A query that sees no key gives zeros and
/// zero gradients. ShapeError, DTypeError; ValueError, with all reasons, for a backend that is not eligible.
[[nodiscard]] WEFT_API Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const AttentionArguments& arguments = {}, Location where = {});

struct WeightedAttention {
  /// [B, Sq, H, Dv]
  Tensor output;
  /// [B, H, Sq, Sk] in q's dtype: the factors of v, after dropout.
  Tensor weights;
  auto tensors() { return std::tie(output, weights); }
};
/// attention() and its weights, which only the math backend computes. Errors as attention(): ValueError for `fused`.
WEFT_API WeightedAttention attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const AttentionArguments& arguments = {}, Location where = {});

struct AttentionBackendState {
  AttentionBackend backend;
  /// Why it is not eligible; empty where it is.
  std::vector<std::string> reasons;
};
/// Each backend for this call, the fastest first. Errors of arguments as attention().
WEFT_API std::vector<AttentionBackendState> attention_backends(const Tensor& q, const Tensor& k, const Tensor& v,
                                                               const AttentionArguments& arguments = {},
                                                               bool return_weights = false, Location where = {});

struct PackedAttentionArguments {
  /// Within each sequence as in attention().
  bool causal = false;
  std::optional<double> scale = {};
  double dropout = 0;
  /// [H] or [sequences, H]
  Tensor alibi_slopes = {};
  AttentionWindow window = {};
  AttentionBackend backend = AttentionBackend::automatic;
};
/// attention() of each of several concatenated sequences: q [Tq, H, D], k [Tk, Hkv, D] and v [Tk, Hkv, Dv] give [Tq, H,
/// Dv]. cu_seqlens_q and cu_seqlens_k, integers [sequences + 1] ascending from 0 to Tq and Tk, are the start of each
/// sequence. The host reads them, and waits for them if they are on a device. Raises ValueError if they do not ascend,
/// and the errors of attention().
[[nodiscard]] WEFT_API Tensor attention_varlen(const Tensor& q, const Tensor& k, const Tensor& v,
                                               const Tensor& cu_seqlens_q, const Tensor& cu_seqlens_k,
                                               const PackedAttentionArguments& arguments = {}, Location where = {});

/// The weights of multi_head_attention_forward; undefined if there are none.
struct HeadsParameters {
  /// [3 * width, width], or one weight each for keys and values of other widths.
  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight;
  /// [3 * width]
  Tensor in_proj_bias;
  /// [1, 1, width]: a key and a value appended to the others.
  Tensor bias_k, bias_v;
  /// [width, width] and [width]
  Tensor out_proj_weight, out_proj_bias;
  /// Appends a key and a value of zeros.
  bool add_zero_attn = false;
};
/// Of one call. Masks are bool, where true is NOT attended to, or floats that are added to the scores.
struct HeadsCall {
  /// [batch, keys], or [keys] without a batch.
  Tensor key_padding_mask = {};
  /// Whether the weights are wanted, which takes the slow way.
  bool need_weights = true;
  /// [queries, keys] or [batch * heads, queries, keys].
  Tensor attn_mask = {};
  /// Over the heads.
  bool average_attn_weights = true;
  /// Query i sees keys 0 … i; where there is an attn_mask, that one says it.
  bool is_causal = false;
};
/// weights are [batch, queries, keys], or [batch, heads, queries, keys] where they are no average; undefined where they
/// are not wanted.
struct HeadsResult {
  Tensor output, weights;
  auto tensors() { return std::tie(output, weights); }
};
/// Attention of several heads (Vaswani et al. 2017), as PyTorch's function of that name: query [length, batch, width],
/// key [keys, batch, any], value [keys, batch, any], or all without the batch, are projected, split over the heads,
/// attended to and joined. A query that sees no key gets zeros, where PyTorch has NaN. ValueError unless num_heads
/// divides the width; ShapeError and DTypeError for operands and masks that do not fit.
[[nodiscard]] WEFT_API HeadsResult multi_head_attention_forward(const Tensor& query, const Tensor& key,
                                                                const Tensor& value, int64_t num_heads,
                                                                const HeadsParameters& parameters,
                                                                const HeadsCall& call = {}, double dropout_p = 0,
                                                                Location where = {});

}  // namespace weft
