// Language models that read from left to right: one module for GPT-2, Llama, Mistral, Qwen 2 and Qwen 3, whose options
// say what differs. Names are those of the checkpoints of the Llama family.
//
//   nn::CausalLM model({.vocabulary = 32000, .width = 512, .layers = 8, .heads = 8, .kv_heads = 2});   // as Llama is
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

/// How a token's place is told: its query and key are turned, or a vector that is learned is added to its embedding.
enum class CausalLMPositions : uint8_t { rotary, learned };
enum class CausalLMNorm : uint8_t { rms, layer };
/// down(silu(gate(x)) * up(x)), or down(gelu(up(x))) with gelu's tanh form.
enum class CausalLMMlp : uint8_t { swiglu, gelu };

/// The defaults are Llama's.
struct CausalLMOptions {
  int64_t vocabulary = 0, width = 0, layers = 0, heads = 0;
  /// 0: as many as heads.
  int64_t kv_heads = 0;
  /// Of a head; 0: width / heads.
  int64_t head_dim = 0;
  /// Of the feed-forward layers; 0: 4 · width.
  int64_t hidden = 0;
  /// As many tokens as a sequence may have.
  int64_t context = 2048;
  CausalLMPositions positions = CausalLMPositions::rotary;
  RopeOptions rope = {};
  CausalLMNorm norm = CausalLMNorm::rms;
  double norm_eps = 1e-5;
  CausalLMMlp mlp = CausalLMMlp::swiglu;
  /// Biases of queries, keys and values; of what attention ends with; of the feed-forward layers.
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  /// Heads of queries and keys are normalised before they are turned (Qwen 3).
  bool qk_norm = false;
  /// The head has the weight of the embedding.
  bool tied = false;
  /// A token sees so many before it and itself alone; 0: all.
  int64_t window = 0;
};

/// Options by the names that a file of a model has: as the fields, those of rope with rope_ before them. ValueError.
WEFT_API CausalLMOptions causal_lm_options(const Config& config, Location where = {});

/// A norm of one kind or the other: `weight` [width], and of a layer norm `bias`.
class WEFT_API DecoderNorm : public Layer<DecoderNorm> {
 public:
  DecoderNorm(int64_t width, CausalLMNorm kind, double eps, Location where = {});
  Tensor forward(const Tensor& x, Location where) const;

  Parameter weight, bias;

 private:
  double eps_;
};

/// What the layers of one call share.
struct DecoderStep {
  /// cos and sin of each token's place, as rope_table; undefined where none is turned.
  Tensor rope = {};
  /// Attention of q [B, S, H, D] to k and v [B, S, Hkv, D], and to what came before them: [B, S, H, D].
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

/// Embeddings, layers and the last norm.
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

/// Keys and values of sequences under way, layer by layer.
class WEFT_API CausalLMCache : public LayeredKvCache {
 public:
  /// For so many sequences of at most `capacity` tokens, in the dtype and on the device of `tensors`.
  CausalLMCache(const CausalLMOptions& options, int64_t sequences, int64_t capacity, TensorOptions tensors = {},
                Location where = {});
};

/// ValueError for sizes that are not positive, heads that do not divide, and odd heads that are turned.
class WEFT_API CausalLM : public Layer<CausalLM> {
 public:
  explicit CausalLM(const CausalLMOptions& options, Location where = {});

  /// tokens [B, S], i64, to logits [B, S, vocabulary] behind each. ShapeError for another rank, ValueError for more
  /// tokens than the context has.
  Tensor forward(const Tensor& tokens, Location where) const;
  /// Reads the next counts[i] tokens of each of the cache's sequences, which lie one after the other in `tokens`
  /// [sum of counts], and keeps them in the cache: logits [sum of counts, vocabulary], or with `only_last`
  /// [sequences, vocabulary] behind each sequence's last one. Nothing is recorded. IndexError, before anything is
  /// written, where a sequence has no room.
  Tensor read(const Tensor& tokens, std::span<const int64_t> counts, CausalLMCache& cache, bool only_last = false,
              Location where = {}) const;

  /// What logits are made of: [B, S, width] behind each token; tokens and errors as of a call.
  Tensor hidden(const Tensor& tokens, Location where = {}) const;
  /// The same of `read`: [sum of counts, width].
  Tensor read_hidden(const Tensor& tokens, std::span<const int64_t> counts, CausalLMCache& cache,
                     Location where = {}) const;
  /// hidden [..., width] to logits [..., vocabulary].
  Tensor logits(const Tensor& hidden, Location where = {}) const;

  const CausalLMOptions& options() const { return options_; }

  DecoderModel model;
  /// Undefined weight where it is tied.
  std::optional<Linear> lm_head;

 private:
  CausalLMOptions options_;
};

}  // namespace weft::nn
