#include "../causal_lm.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../backends/row_products.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/detail/rope_lengths.hpp"
#include "../../ops/index.hpp"
#include "../../ops/join.hpp"
#include "../../ops/matmul.hpp"
#include "../../ops/norm.hpp"
#include "../../ops/pointwise.hpp"
#include "../../tensor/checked.hpp"
#include "../layer-inl.hpp"
#include "../lora/low_rank-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

constexpr const char* layer = "nn::CausalLM";

/// Validates the options and fills in the derived sizes.
CausalLMOptions filled(CausalLMOptions o, Location where) {
  const auto refuse = [&](std::string problem) {
    raise<ValueError>({.op = layer, .problem = std::move(problem)}, where);
  };
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  if (o.head_dim == 0 && o.heads > 0) o.head_dim = o.width / o.heads;
  const Checked hidden = Checked(4) * o.width;
  if (o.hidden == 0) o.hidden = hidden.fits() ? hidden.value() : 0;
  for (const auto& [name, size] : {std::pair("vocabulary", o.vocabulary),
                                   {"width", o.width},
                                   {"heads", o.heads},
                                   {"kv_heads", o.kv_heads},
                                   {"head_dim", o.head_dim},
                                   {"hidden", o.hidden},
                                   {"context", o.context}}) {
    if (size < 1) refuse(mismatch_text(name, "at least 1", size));
  }
  if (!(Checked(o.heads) * o.head_dim).fits()) refuse(fmt::format("{} heads of {} features", o.heads, o.head_dim));
  if (o.layers < 0 || o.window < 0) refuse(fmt::format("{} layers, a window of {}", o.layers, o.window));
  if (o.heads % o.kv_heads != 0) refuse(fmt::format("{} heads cannot share {}", o.heads, o.kv_heads));
  if (o.positions == CausalLMPositions::rotary && o.head_dim % 2 != 0) {
    refuse(fmt::format("heads of {} features cannot be turned in pairs", o.head_dim));
  }
  if (o.positions == CausalLMPositions::rotary) {
    const CallScope call(layer, where);
    (void)rope_frequencies(2, o.rope, o.context);
  }
  return o;
}

AttentionWindow window_of(const CausalLMOptions& o) {
  return o.window > 0 ? AttentionWindow{o.window - 1, 0} : AttentionWindow{};
}

constexpr std::string_view positions[] = {"rotary", "learned"}, norms[] = {"rms", "layer"}, mlps[] = {"swiglu", "gelu"};

Config config_of(const CausalLMOptions& o) {
  return {{"vocabulary", o.vocabulary},
          {"width", o.width},
          {"layers", o.layers},
          {"heads", o.heads},
          {"kv_heads", o.kv_heads},
          {"head_dim", o.head_dim},
          {"hidden", o.hidden},
          {"context", o.context},
          {"positions", positions[static_cast<size_t>(o.positions)]},
          {"rope_theta", o.rope.theta},
          {"rope_scaling", name(o.rope.scaling)},
          {"rope_factor", o.rope.factor},
          {"rope_original_length", o.rope.original_length},
          {"rope_low_frequency", o.rope.low_frequency},
          {"rope_high_frequency", o.rope.high_frequency},
          {"rope_beta_fast", o.rope.beta_fast},
          {"rope_beta_slow", o.rope.beta_slow},
          {"rope_attention_factor", o.rope.attention_factor},
          {"norm", norms[static_cast<size_t>(o.norm)]},
          {"norm_eps", o.norm_eps},
          {"mlp", mlps[static_cast<size_t>(o.mlp)]},
          {"qkv_bias", o.qkv_bias},
          {"out_bias", o.out_bias},
          {"mlp_bias", o.mlp_bias},
          {"qk_norm", o.qk_norm},
          {"tied", o.tied},
          {"window", o.window}};
}

}  // namespace

CausalLMOptions causal_lm_options(const Config& c, Location where) {
  const CallScope call("causal_lm_options", where);
  const CausalLMOptions otherwise;
  const RopeOptions& rope = otherwise.rope;
  return {.vocabulary = c.get<int64_t>("vocabulary"),
          .width = c.get<int64_t>("width"),
          .layers = c.get<int64_t>("layers"),
          .heads = c.get<int64_t>("heads"),
          .kv_heads = c.get_or("kv_heads", otherwise.kv_heads),
          .head_dim = c.get_or("head_dim", otherwise.head_dim),
          .hidden = c.get_or("hidden", otherwise.hidden),
          .context = c.get_or("context", otherwise.context),
          .positions = enumerator(c, "positions", positions, otherwise.positions),
          .rope = {.theta = c.get_or("rope_theta", rope.theta),
                   .scaling = rope_scaling_named(c.get_or<std::string>("rope_scaling", name(rope.scaling))),
                   .factor = c.get_or("rope_factor", rope.factor),
                   .original_length = c.get_or("rope_original_length", rope.original_length),
                   .low_frequency = c.get_or("rope_low_frequency", rope.low_frequency),
                   .high_frequency = c.get_or("rope_high_frequency", rope.high_frequency),
                   .beta_fast = c.get_or("rope_beta_fast", rope.beta_fast),
                   .beta_slow = c.get_or("rope_beta_slow", rope.beta_slow),
                   .attention_factor = c.get_or("rope_attention_factor", rope.attention_factor)},
          .norm = enumerator(c, "norm", norms, otherwise.norm),
          .norm_eps = c.get_or("norm_eps", otherwise.norm_eps),
          .mlp = enumerator(c, "mlp", mlps, otherwise.mlp),
          .qkv_bias = c.get_or("qkv_bias", false),
          .out_bias = c.get_or("out_bias", false),
          .mlp_bias = c.get_or("mlp_bias", false),
          .qk_norm = c.get_or("qk_norm", false),
          .tied = c.get_or("tied", false),
          .window = c.get_or("window", otherwise.window)};
}

// ---- layers ---------------------------------------------------------------------------------------------------------

DecoderNorm::DecoderNorm(int64_t width, CausalLMNorm kind, double eps, Location where) : eps_(eps) {
  weight = ones(width, {}, where);
  if (kind == CausalLMNorm::layer) bias = zeros(width, {}, where);
  WEFT_REGISTER(weight, bias);
}

Tensor DecoderNorm::forward(const Tensor& x, Location where) const {
  const Tensor own = borrowed(weight, where);
  if (!bias.defined()) return rms_norm(x, own.shape(), own, eps_);
  return layer_norm(x, own.shape(), own, borrowed(bias, where), eps_, where);
}

DecoderAttention::DecoderAttention(const CausalLMOptions& o, Location where)
    : q_proj(o.width, o.heads * o.head_dim, o.qkv_bias, where),
      k_proj(o.width, o.kv_heads * o.head_dim, o.qkv_bias, where),
      v_proj(o.width, o.kv_heads * o.head_dim, o.qkv_bias, where),
      o_proj(o.heads * o.head_dim, o.width, o.out_bias, where),
      head_dim_(o.head_dim) {
  WEFT_REGISTER(q_proj, k_proj, v_proj, o_proj);
  if (!o.qk_norm) return;
  register_module("q_norm", q_norm.emplace(o.head_dim, CausalLMNorm::rms, o.norm_eps, where));
  register_module("k_norm", k_norm.emplace(o.head_dim, CausalLMNorm::rms, o.norm_eps, where));
}

Tensor DecoderAttention::forward(const Tensor& x, const DecoderStep& step, Location where) const {
  const auto heads = [&](const Linear& projection) {
    const Tensor all = projection(Input(x, where));  // this process's heads, if they are sharded
    return all.view({all.size(0), all.size(1), all.size(2) / head_dim_, head_dim_}, where);
  };
  const auto turned = [&](Tensor t, const std::optional<DecoderNorm>& norm) {
    if (norm) t = (*norm)(Input(t, where));
    return step.rope.defined() ? rotary_embedding(t, step.rope, false, where) : t;
  };
  const Tensor mixed = step.attend(turned(heads(q_proj), q_norm), turned(heads(k_proj), k_norm), heads(v_proj));
  return o_proj(Input(mixed.flatten(2, 3), where));
}

DecoderMlp::DecoderMlp(const CausalLMOptions& o, Location where)
    : up_proj(o.width, o.hidden, o.mlp_bias, where), down_proj(o.hidden, o.width, o.mlp_bias, where) {
  if (o.mlp == CausalLMMlp::swiglu)
    register_module("gate_proj", gate_proj.emplace(o.width, o.hidden, o.mlp_bias, where));
  WEFT_REGISTER(up_proj, down_proj);
}

Tensor DecoderMlp::forward(const Tensor& x, Location where) const {
  const Tensor up = up_proj(Input(x, where));
  const Tensor hidden =
      gate_proj ? swiglu((*gate_proj)(Input(x, where)), up) : gelu(Operand(up, where), Approximate::tanh);
  return down_proj(Input(hidden, where));
}

DecoderLayer::DecoderLayer(const CausalLMOptions& o, Location where)
    : input_layernorm(o.width, o.norm, o.norm_eps, where),
      self_attn(o, where),
      post_attention_layernorm(o.width, o.norm, o.norm_eps, where),
      mlp(o, where) {
  WEFT_REGISTER(input_layernorm, self_attn, post_attention_layernorm, mlp);
}

Tensor DecoderLayer::forward(const Tensor& x, const DecoderStep& step, Location where) const {
  const Tensor y = x + self_attn(Input(input_layernorm(Input(x, where)), where), step);
  return y + mlp(Input(post_attention_layernorm(Input(y, where)), where));
}

DecoderModel::DecoderModel(const CausalLMOptions& o, Location where)
    : embed_tokens(o.vocabulary, o.width, {}, 0.02, where), norm(o.width, o.norm, o.norm_eps, where) {
  WEFT_REGISTER(embed_tokens);
  if (o.positions == CausalLMPositions::learned) {
    register_module("embed_positions", embed_positions.emplace(o.context, o.width, EmbeddingOptions(), 0.02, where));
  }
  for (int64_t i = 0; i < o.layers; ++i) layers.append(DecoderLayer(o, where), where);
  WEFT_REGISTER(layers, norm);
}

Tensor DecoderModel::forward(const Tensor& tokens, const Tensor& positions, const DecoderStep& step,
                             Location where) const {
  Tensor x = embed_tokens(Input(tokens, where));
  if (embed_positions) x = x + (*embed_positions)(Input(positions, where));
  for (const DecoderLayer& each : layers) x = each(Input(x, where), step);
  return norm(Input(x, where));
}

// ---- the model ------------------------------------------------------------------------------------------------------

CausalLM::CausalLM(const CausalLMOptions& options, Location where)
    : model(filled(options, where), where), options_(filled(options, where)) {
  WEFT_REGISTER(model);
  if (!options_.tied) register_module("lm_head", lm_head.emplace(options_.width, options_.vocabulary, false, where));
  set_config(config_of(options_));
  set_extra_repr({});
}

CausalLMOptions CausalLM::options() const {
  CausalLMOptions out = options_;
  out.tied = config().get_or("tied", out.tied);
  return out;
}

Tensor CausalLM::logits(const Tensor& hidden, Location where) const {
  if (lm_head) return (*lm_head)(Input(hidden, where));
  if (const Module* head = detail::tied_head_of(*this)) return detail::forward_tied_head(*head, hidden, where);
  // An adapter of the embedding that was merged into W does not apply to the head.
  const detail::LowRank* const adapter = detail::adapter_of(model.embed_tokens);
  if (adapter != nullptr && adapter->replaces_weight()) {
    return linear(hidden, adapter->unmerged().to(hidden.device(), where), {}, where);
  }
  return linear(hidden, model.embed_tokens.borrowed(model.embed_tokens.weight, where), {}, where);
}

Tensor CausalLM::forward(const Tensor& tokens, Location where) const {
  const CallScope call("CausalLM", where);
  return logits(hidden(tokens, where), where);
}

Tensor CausalLM::hidden(const Tensor& tokens, Location where) const {
  const CallScope call("CausalLM::hidden", where);
  expect_shape("tokens", tokens, checked(tokens).dim() == 2, "[batch, length]");
  const int64_t length = tokens.size(1);
  if (length > options_.context) {
    raise<ValueError>({.problem = fmt::format("{} tokens, and the context is of {}", length, options_.context)});
  }
  const Tensor positions = arange(0, length, 1, {DType::i64, tokens.device()}).unsqueeze(0);
  DecoderStep step;
  if (options_.positions == CausalLMPositions::rotary) {
    step.rope = rope_table(positions, options_.head_dim, options_.rope, false, DType::f32, where);
  }
  step.attend = [window = window_of(options_)](const Tensor& q, const Tensor& k, const Tensor& v) {
    return attention(q, k, v, {.causal = true, .window = window});
  };
  return model(Input(tokens, where), positions, step);
}

namespace {

/// Whether all sequences with new tokens have a cached prefix and at most most_row_tokens new ones.
bool continues(std::span<const int64_t> before, std::span<const int64_t> counts) {
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > weft::detail::most_row_tokens || (counts[i] > 0 && before[i] == 0)) return false;
  }
  return true;
}

/// Attention of a few queries per sequence, position by position, so that rounding is the same as for single tokens.
class OneByOne {
 public:
  OneByOne(std::span<const int64_t> counts, Device device) {
    std::vector<int64_t> places(static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0})));
    int64_t place = 0;
    for (int64_t step = 0; step < *std::ranges::max_element(counts); ++step) {
      std::vector<int64_t> rows, own;
      int64_t begin = 0;
      for (const int64_t count : counts) {
        own.push_back(count > step ? 1 : 0);
        if (count > step) rows.push_back(begin + step), places[static_cast<size_t>(rows.back())] = place++;
        begin += count;
      }
      steps_.emplace_back(tensor(rows).to(device), std::move(own));
    }
    places_ = tensor(places).to(device);
  }
  Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v, KvCache& cache, AttentionWindow window) const {
    std::vector<Tensor> results;
    for (const auto& [rows, counts] : steps_) {
      cache.append(index_select(k, 0, rows), index_select(v, 0, rows), counts);
      results.push_back(attention_varlen(index_select(q, 0, rows), counts, cache, {.window = window}));
    }
    return index_select(cat(results, 0), 0, places_);
  }

 private:
  std::vector<std::pair<Tensor, std::vector<int64_t>>> steps_;
  Tensor places_;
};

/// State of one call of read_hidden.
struct Reading {
  const CausalLM& model;
  CausalLMCache& cache;
  const std::vector<int64_t> before;
  Location where;

  Tensor together(const Tensor& tokens, std::span<const int64_t> counts) const {
    const CausalLMOptions& o = model.options();
    std::vector<int64_t> places;
    for (size_t i = 0; i < counts.size(); ++i) {
      for (int64_t j = 0; j < counts[i]; ++j) places.push_back(before[i] + j);
    }
    const Tensor positions = tensor(places).unsqueeze(0).to(tokens.device());
    DecoderStep step;
    if (o.positions == CausalLMPositions::rotary) {
      step.rope =
          rope_table_of_lengths(positions, rope_lengths(places, counts, before), o.head_dim, o.rope, false, DType::f32);
    }
    std::optional<OneByOne> one_by_one;
    const bool several = std::ranges::any_of(counts, [](int64_t n) { return n > 1; });
    if (weft::detail::products_by_rows && several) one_by_one.emplace(counts, tokens.device());
    int64_t number = 0;
    step.attend = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      KvCache& own = cache.layer(number++);
      if (one_by_one) return (*one_by_one)(q.squeeze(0), k.squeeze(0), v.squeeze(0), own, window_of(o)).unsqueeze(0);
      own.append(k.squeeze(0), v.squeeze(0), counts);
      return attention_varlen(q.squeeze(0), counts, own, {.window = window_of(o)}).unsqueeze(0);
    };
    return model.model(Input(tokens.unsqueeze(0), where), positions, step).squeeze(0);
  }

  /// Rounds each sequence the same as if it were read alone.
  Tensor alike(const Tensor& tokens, std::span<const int64_t> counts) const {
    const auto active = std::ranges::count_if(counts, [](int64_t n) { return n > 0; });
    const bool goes_on = continues(before, counts);
    if (goes_on || active <= 1) {
      const weft::detail::RowProducts by_rows(goes_on);
      return together(tokens, counts);
    }
    std::vector<Tensor> parts;
    int64_t begin = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      std::vector<int64_t> own(counts.size());
      own[i] = counts[i];
      parts.push_back(alike(tokens.narrow(0, begin, counts[i]), own));
      begin += counts[i];
    }
    return cat(parts, 0);
  }
};

}  // namespace

Tensor CausalLM::read(const Tensor& tokens, std::span<const int64_t> counts, CausalLMCache& cache, bool only_last,
                      Location where) const {
  const CallScope call("CausalLM::read", where);
  const NoGradGuard unrecorded;
  const bool by_rows = only_last || continues(cache.lengths(), counts);
  const Tensor all = read_hidden(tokens, counts, cache, where);
  const weft::detail::RowProducts alike(by_rows);
  if (!only_last) return logits(all, where);
  std::vector<int64_t> ends(counts.begin(), counts.end());
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  return logits(index_select(all, 0, (tensor(ends) - 1).to(all.device())), where);
}

Tensor CausalLM::read_hidden(const Tensor& tokens, std::span<const int64_t> counts, CausalLMCache& cache,
                             Location where) const {
  const CallScope call("CausalLM::read_hidden", where);
  const NoGradGuard unrecorded;
  const std::vector<int64_t> before = cache.lengths();
  if (counts.size() != before.size() ||
      checked(tokens).shape() != Dims{std::accumulate(counts.begin(), counts.end(), int64_t{0})}) {
    raise<ShapeError>({.problem = fmt::format("tokens {} and {} counts for {} sequences", tokens.shape().text(),
                                              counts.size(), before.size())});
  }
  try {
    const Reading reading{*this, cache, before, where};
    const bool alike = weft::detail::wants_row_products() && tokens.device().is_cpu();
    return alike ? reading.alike(tokens, counts) : reading.together(tokens, counts);
  } catch (...) {  // restores a consistent length in all layers
    cache.truncate(before, where);
    throw;
  }
}

namespace {

LayeredKvCache cache_for(const CausalLMOptions& options, int64_t sequences, int64_t capacity,
                         const TensorOptions& tensors, Location where) {
  const CausalLMOptions o = filled(options, where);
  return {std::max<int64_t>(o.layers, 1), sequences, capacity, o.kv_heads, o.head_dim, tensors, where};
}

}  // namespace

CausalLMCache::CausalLMCache(const CausalLMOptions& options, int64_t sequences, int64_t capacity, TensorOptions tensors,
                             Location where)
    : LayeredKvCache(cache_for(options, sequences, capacity, tensors, where)) {}

}  // namespace weft::nn
