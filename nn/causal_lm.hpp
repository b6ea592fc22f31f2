// Decoder-only language models: one module for GPT-2, Llama, Mistral, Qwen 2 and Qwen 3, which differ in their options.
// Names are those of the checkpoints of the Llama family.
//
//   nn::CausalLM model({.vocabulary = 32000, .width = 512, .layers = 8, .heads = 8, .kv_heads = 2});   // like Llama
//   Tensor logits = model(tokens);                                       // [batch, length, vocabulary], for training
//   nn::CausalLMCache cache(model.options(), 1, 2048);
//   Tensor next = model.read(tokens, counts, cache);                     // for generation, token by token
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "../ops/kv_cache.hpp"
#include "../ops/rotary.hpp"
#include "config.hpp"
#include "layers.hpp"

namespace weft::nn {

/// Position encoding: rotary embedding of queries and keys, or a learned vector added to the token embedding.
enum class CausalLMPositions : uint8_t { rotary, learned };
enum class CausalLMNorm : uint8_t { rms, layer };
/// down(silu(gate(x)) * up(x)), or down(gelu(up(x))) with the tanh approximation of gelu.
enum class CausalLMMlp : uint8_t { swiglu, gelu };

/// The defaults are Llama's.
struct CausalLMOptions {
  int64_t vocabulary = 0, width = 0, layers = 0, heads = 0;
  /// 0 means the same as heads.
  int64_t kv_heads = 0;
  /// Size of a head; 0 means width / heads.
  int64_t head_dim = 0;
  /// Width of the feed-forward layers; 0 means 4 · width.
  int64_t hidden = 0;
  /// Maximum number of tokens in a sequence.
  int64_t context = 2048;
  CausalLMPositions positions = CausalLMPositions::rotary;
  RopeOptions rope = {};
  CausalLMNorm norm = CausalLMNorm::rms;
  double norm_eps = 1e-5;
  CausalLMMlp mlp = CausalLMMlp::swiglu;
  /// Biases of queries, keys and values; of the output projection of attention; of the feed-forward layers.
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  /// Normalise the heads of queries and keys before the rotary embedding (Qwen 3).
  bool qk_norm = false;
  /// The output layer shares the weight of the embedding.
  bool tied = false;
  /// Number of tokens that a token attends to, itself included; 0 means all earlier tokens.
  int64_t window = 0;
};

/// Reads the options from a model file's config. The names are those of the fields; fields of rope have the prefix
/// rope_. Raises ValueError for invalid options.
WEFT_API CausalLMOptions causal_lm_options(const Config& config, Location where = {});

/// A norm of either type, with `weight` [width]; a layer norm also has `bias`.
class WEFT_API DecoderNorm : public Layer<DecoderNorm> {
 public:
  DecoderNorm(int64_t width, CausalLMNorm kind, double eps, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  double eps_;
};

/// Arguments of one call that all layers share.
struct DecoderStep {
  /// cos and sin of each token's position, as rope_table; undefined without rotary embedding.
  Tensor rope = {};
  /// Attention of q [B, S, H, D] to k and v [B, S, Hkv, D] and to the cached tokens before them: [B, S, H, D].
  Callback<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)> attend = {};
};

class WEFT_API DecoderAttention : public Layer<DecoderAttention> {
 public:
  explicit DecoderAttention(const CausalLMOptions& options, Location where = {});
  Tensor forward(const Tensor& x, const DecoderStep& step, Location where) const;

  Linear q_proj, k_proj, v_proj, o_proj;
  std::optional<DecoderNorm> q_norm, k_norm;

 private:
  int64_t head_dim_;
};

class WEFT_API DecoderMlp : public Layer<DecoderMlp> {
 public:
  explicit DecoderMlp(const CausalLMOptions& options, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;

  std::optional<Linear> gate_proj;
  Linear up_proj, down_proj;
};

/// x + self_attn(input_layernorm(x)), then y + mlp(post_attention_layernorm(y)).
class WEFT_API DecoderLayer : public Layer<DecoderLayer> {
 public:
  explicit DecoderLayer(const CausalLMOptions& options, Location where = {});
  Tensor forward(const Tensor& x, const DecoderStep& step, Location where) const;

  DecoderNorm input_layernorm;
  DecoderAttention self_attn;
  DecoderNorm post_attention_layernorm;
  DecoderMlp mlp;
};

/// Embeddings, layers and the final norm.
class WEFT_API DecoderModel : public Layer<DecoderModel> {
 public:
  explicit DecoderModel(const CausalLMOptions& options, Location where = {});
  /// tokens [B, S] at `positions` [B or 1, S], both i64.
  Tensor forward(const Tensor& tokens, const Tensor& positions, const DecoderStep& step, Location where) const;

  Embedding embed_tokens;
  std::optional<Embedding> embed_positions;
  ModuleList<DecoderLayer> layers;
  DecoderNorm norm;
};

/// Cached keys and values of unfinished sequences, for each layer.
class WEFT_API CausalLMCache : public LayeredKvCache {
 public:
  /// For this number of sequences of at most `capacity` tokens, with the dtype and device of `tensors`.
  CausalLMCache(const CausalLMOptions& options, int64_t sequences, int64_t capacity, TensorOptions tensors = {},
                Location where = {});
};

/// Raises ValueError for sizes that are not positive, numbers of heads that do not divide, and an odd head size with
/// rotary embedding.
class WEFT_API CausalLM : public Layer<CausalLM> {
 public:
  explicit CausalLM(const CausalLMOptions& options, Location where = {});

  /// tokens [B, S], i64, to logits [B, S, vocabulary] of the token after each. Raises ShapeError for another rank,
  /// ValueError for more tokens than the context.
  Tensor forward(const Tensor& tokens, Location where) const;
  /// Reads the next counts[i] tokens of each sequence i of the cache and appends them to the cache. `tokens` [sum of
  /// counts] contains the sequences one after the other. Returns logits [sum of counts, vocabulary], or with
  /// `only_last` those of each sequence's last token [sequences, vocabulary]. Not recorded. Raises IndexError, before
  /// anything is written, if a sequence exceeds its capacity.
  Tensor read(const Tensor& tokens, std::span<const int64_t> counts, CausalLMCache& cache, bool only_last = false,
              Location where = {}) const;

  /// Hidden states from which `logits` are computed: [B, S, width]. Tokens and errors as `forward`.
  Tensor hidden(const Tensor& tokens, Location where = {}) const;
  /// As `read`, but returns hidden states [sum of counts, width].
  Tensor read_hidden(const Tensor& tokens, std::span<const int64_t> counts, CausalLMCache& cache,
                     Location where = {}) const;
  /// Computes logits [..., vocabulary] from hidden states [..., width].
  Tensor logits(const Tensor& hidden, Location where = {}) const;

  /// The options, with derived sizes. `tied` is false once merge_and_unload_lora has untied the head.
  CausalLMOptions options() const;

  DecoderModel model;
  /// Empty if the model was constructed tied. An adapter of the head makes it a child "lm_head" of such a model, too,
  /// and all copies of the model compute with that child.
  std::optional<Linear> lm_head;

 private:
  CausalLMOptions options_;
};

}  // namespace weft::nn
