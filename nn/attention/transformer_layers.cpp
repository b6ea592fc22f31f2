#include <limits>

#include "../../ops/create.hpp"
#include "../../ops/diagonal.hpp"
#include "../../ops/pointwise.hpp"
#include "../init.hpp"
#include "../sharded_layer-inl.hpp"
#include "../layer-inl.hpp"
#include "../transformer.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

constexpr std::string_view activations[] = {"relu", "gelu"};

Config layer_config(int64_t d_model, int64_t nhead, const TransformerLayerOptions& o) {
  return {{"d_model", d_model},
          {"nhead", nhead},
          {"dim_feedforward", o.dim_feedforward},
          {"dropout", o.dropout},
          {"activation", activations[static_cast<size_t>(o.activation)]},
          {"layer_norm_eps", o.layer_norm_eps},
          {"batch_first", o.batch_first},
          {"norm_first", o.norm_first},
          {"bias", o.bias}};
}

MultiheadAttentionOptions attention_options(const TransformerLayerOptions& o) {
  return {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first};
}

Tensor activated(TransformerActivation activation, const Tensor& x, Location where) {
  return activation == TransformerActivation::gelu ? gelu(Operand(x, where)) : relu(Operand(x, where));
}

/// Residual connection x + part(x), with the norm before the part or after the sum.
template <class Part>
Tensor added(const Tensor& x, const LayerNorm& norm, bool norm_first, Location where, Part part) {
  if (norm_first) return add(Operand(x, where), Operand(part(norm(Input(x, where))), where));
  const Tensor sum = add(Operand(x, where), Operand(part(x), where));
  return norm(Input(sum, where));
}

template <class L>
Tensor feed_forward(const L& layer, TransformerActivation activation, const Tensor& x, const Dropout& last,
                    Location where) {
  const Tensor hidden = activated(activation, layer.linear1(Input(x, where)), where);
  std::optional<detail::ShardRngScope> draws;
  if (const detail::ShardedLayer* parts = detail::sharding_of(layer.linear1); parts != nullptr && layer.is_training()) {
    draws.emplace(parts->index, hidden.device());
  }
  const Tensor dropped = layer.dropout(Input(hidden, where));
  draws.reset();
  return last(Input(layer.linear2(Input(dropped, where)), where));
}

void check_count(const char* layer, int64_t count, Location where) {
  if (count >= 0) return;
  raise<ValueError>({.op = layer, .problem = mismatch_text("num_layers", "at least 0", count)}, where);
}

/// Fills `layers` with clones of a layer, creates the norm, and returns the options.
template <class L>
Config fill(ModuleList<L>& layers, std::optional<LayerNorm>& norm, const L& layer, int64_t count, bool with_norm,
            Location where) {
  for (int64_t i = 0; i < count; ++i) layers.append(layer.clone(), where);
  Config config = layer.config();
  if (with_norm) {
    norm.emplace(Dims(config.get<int64_t>("d_model")), config.get<double>("layer_norm_eps"), true,
                 config.get<bool>("bias"), where);
  }
  config.set("num_layers", count);
  config.set("norm", with_norm);
  return config;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerLayerOptions& o,
                                                 Location where)
    : self_attn(d_model, nhead, attention_options(o), where),
      linear1(d_model, o.dim_feedforward, o.bias, where),
      linear2(o.dim_feedforward, d_model, o.bias, where),
      norm1(Dims(d_model), o.layer_norm_eps, true, o.bias, where),
      norm2(Dims(d_model), o.layer_norm_eps, true, o.bias, where),
      dropout(o.dropout, where),
      dropout1(o.dropout, where),
      dropout2(o.dropout, where),
      options_(o) {
  WEFT_REGISTER(self_attn, linear1, dropout, linear2, norm1, norm2, dropout1, dropout2);
  set_config(layer_config(d_model, nhead, o));
  set_extra_repr({});
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const EncoderCall& call, Location where) const {
  const auto attend = [&](const Tensor& t) {
    const MultiheadAttentionCall how{.key_padding_mask = call.key_padding_mask,
                                     .need_weights = false,
                                     .attn_mask = call.mask,
                                     .is_causal = call.is_causal};
    return dropout1(Input(self_attn(Input(t, where), t, t, how).output, where));
  };
  const auto feed = [&](const Tensor& t) { return feed_forward(*this, options_.activation, t, dropout2, where); };
  const Tensor attended = added(x, norm1, options_.norm_first, where, attend);
  return added(attended, norm2, options_.norm_first, where, feed);
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerLayerOptions& o,
                                                 Location where)
    : self_attn(d_model, nhead, attention_options(o), where),
      multihead_attn(d_model, nhead, attention_options(o), where),
      linear1(d_model, o.dim_feedforward, o.bias, where),
      linear2(o.dim_feedforward, d_model, o.bias, where),
      norm1(Dims(d_model), o.layer_norm_eps, true, o.bias, where),
      norm2(Dims(d_model), o.layer_norm_eps, true, o.bias, where),
      norm3(Dims(d_model), o.layer_norm_eps, true, o.bias, where),
      dropout(o.dropout, where),
      dropout1(o.dropout, where),
      dropout2(o.dropout, where),
      dropout3(o.dropout, where),
      options_(o) {
  WEFT_REGISTER(self_attn, multihead_attn, linear1, dropout, linear2, norm1, norm2, norm3, dropout1, dropout2,
                dropout3);
  set_config(layer_config(d_model, nhead, o));
  set_extra_repr({});
}

Tensor TransformerDecoderLayer::forward(const Tensor& x, const Tensor& memory, const DecoderCall& call,
                                        Location where) const {
  const auto attend = [&](const Tensor& t) {
    const MultiheadAttentionCall how{.key_padding_mask = call.tgt_key_padding_mask,
                                     .need_weights = false,
                                     .attn_mask = call.tgt_mask,
                                     .is_causal = call.tgt_is_causal};
    return dropout1(Input(self_attn(Input(t, where), t, t, how).output, where));
  };
  const auto look = [&](const Tensor& t) {
    const MultiheadAttentionCall how{.key_padding_mask = call.memory_key_padding_mask,
                                     .need_weights = false,
                                     .attn_mask = call.memory_mask,
                                     .is_causal = call.memory_is_causal};
    return dropout2(Input(multihead_attn(Input(t, where), memory, memory, how).output, where));
  };
  const auto feed = [&](const Tensor& t) { return feed_forward(*this, options_.activation, t, dropout3, where); };
  const bool first = options_.norm_first;
  const Tensor attended = added(x, norm1, first, where, attend);
  return added(added(attended, norm2, first, where, look), norm3, first, where, feed);
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers, bool with_norm,
                                       Location where) {
  check_count("nn::TransformerEncoder", num_layers, where);
  const Config config = fill(layers, norm, layer, num_layers, with_norm, where);
  register_module("layers", layers);
  if (norm) register_module("norm", *norm);
  set_config(config);
  set_extra_repr({});
}

Tensor TransformerEncoder::forward(const Tensor& x, const EncoderCall& call, Location where) const {
  Tensor y = x;
  for (const TransformerEncoderLayer& layer : layers) y = layer(Input(y, where), call);
  return norm ? (*norm)(Input(y, where)) : y;
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers, bool with_norm,
                                       Location where) {
  check_count("nn::TransformerDecoder", num_layers, where);
  const Config config = fill(layers, norm, layer, num_layers, with_norm, where);
  register_module("layers", layers);
  if (norm) register_module("norm", *norm);
  set_config(config);
  set_extra_repr({});
}

Tensor TransformerDecoder::forward(const Tensor& x, const Tensor& memory, const DecoderCall& call,
                                   Location where) const {
  Tensor y = x;
  for (const TransformerDecoderLayer& layer : layers) y = layer(Input(y, where), memory, call);
  return norm ? (*norm)(Input(y, where)) : y;
}

Transformer::Transformer(int64_t d_model, int64_t nhead, const TransformerModelOptions& o, Location where)
    : encoder(TransformerEncoderLayer(d_model, nhead, o.layers, where), o.num_encoder_layers, true, where),
      decoder(TransformerDecoderLayer(d_model, nhead, o.layers, where), o.num_decoder_layers, true, where) {
  WEFT_REGISTER(encoder, decoder);
  for (const Tensor& p : parameters()) {
    if (p.dim() > 1) init::xavier_uniform_(p, 1, nullptr, where);
  }
  Config config = layer_config(d_model, nhead, o.layers);
  config.set("num_encoder_layers", o.num_encoder_layers);
  config.set("num_decoder_layers", o.num_decoder_layers);
  set_config(config);
  set_extra_repr({});
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const EncoderCall& encoding,
                            const DecoderCall& decoding, Location where) const {
  return decoder(Input(tgt, where), encoder(Input(src, where), encoding), decoding);
}

Tensor Transformer::generate_square_subsequent_mask(int64_t size, TensorOptions options, Location where) {
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), options, where), 1, where);
}

}  // namespace weft::nn
