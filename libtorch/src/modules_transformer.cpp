#include <torch/nn/functional.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/transformer.h>

#include <limits>

namespace torch::nn {

namespace F = functional;

namespace {

Tensor activate(const activation_t& activation, const Tensor& x) {
  if (std::holds_alternative<enumtype::kGELU>(activation)) return F::gelu(x);
  if (std::holds_alternative<enumtype::kReLU>(activation)) return F::relu(x);
  return std::get<std::function<Tensor(const Tensor&)>>(activation)(x);
}

/// Copies of `layer`, registered in `layers`.
template <class Layer>
void repeat_layer(ModuleList& layers, const Layer& layer, int64_t count) {
  for (int64_t i = 0; i < count; ++i) layers->push_back(std::shared_ptr<Module>(layer->clone()));
}

}  // namespace

// ---- layers ----
TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(TransformerEncoderLayerOptions options_)
    : options(std::move(options_)) {
  reset();
}
void TransformerEncoderLayerImpl::reset() {
  const int64_t width = options.d_model(), inner = options.dim_feedforward();
  const double p = options.dropout();
  self_attn =
      register_module("self_attn", MultiheadAttention(MultiheadAttentionOptions(width, options.nhead()).dropout(p)));
  linear1 = register_module("linear1", Linear(width, inner));
  dropout = register_module("dropout", Dropout(p));
  linear2 = register_module("linear2", Linear(inner, width));
  norm1 = register_module("norm1", LayerNorm(LayerNormOptions({width})));
  norm2 = register_module("norm2", LayerNorm(LayerNormOptions({width})));
  dropout1 = register_module("dropout1", Dropout(p));
  dropout2 = register_module("dropout2", Dropout(p));
}
void TransformerEncoderLayerImpl::reset_parameters() {
  linear1->reset_parameters();
  linear2->reset_parameters();
  norm1->reset_parameters();
  norm2->reset_parameters();
}
Tensor TransformerEncoderLayerImpl::forward(const Tensor& src, const Tensor& src_mask,
                                            const Tensor& src_key_padding_mask) {
  const Tensor attended = std::get<0>(self_attn(src, src, src, src_key_padding_mask, /*need_weights=*/true, src_mask));
  const Tensor x = norm1(src + dropout1(attended));
  return norm2(x + dropout2(linear2(dropout(activate(options.activation(), linear1(x))))));
}

TransformerDecoderLayerImpl::TransformerDecoderLayerImpl(TransformerDecoderLayerOptions options_)
    : options(std::move(options_)) {
  reset();
}
void TransformerDecoderLayerImpl::reset() {
  const int64_t width = options.d_model(), inner = options.dim_feedforward();
  const double p = options.dropout();
  const MultiheadAttentionOptions attention = MultiheadAttentionOptions(width, options.nhead()).dropout(p);
  self_attn = register_module("self_attn", MultiheadAttention(attention));
  multihead_attn = register_module("multihead_attn", MultiheadAttention(attention));
  linear1 = register_module("linear1", Linear(width, inner));
  dropout = register_module("dropout", Dropout(p));
  linear2 = register_module("linear2", Linear(inner, width));
  norm1 = register_module("norm1", LayerNorm(LayerNormOptions({width})));
  norm2 = register_module("norm2", LayerNorm(LayerNormOptions({width})));
  norm3 = register_module("norm3", LayerNorm(LayerNormOptions({width})));
  dropout1 = register_module("dropout1", Dropout(p));
  dropout2 = register_module("dropout2", Dropout(p));
  dropout3 = register_module("dropout3", Dropout(p));
}
void TransformerDecoderLayerImpl::reset_parameters() {
  linear1->reset_parameters();
  linear2->reset_parameters();
  norm1->reset_parameters();
  norm2->reset_parameters();
  norm3->reset_parameters();
}
Tensor TransformerDecoderLayerImpl::forward(Tensor tgt, const Tensor& memory, const Tensor& tgt_mask,
                                            const Tensor& memory_mask, const Tensor& tgt_key_padding_mask,
                                            const Tensor& memory_key_padding_mask) {
  const Tensor own = std::get<0>(self_attn(tgt, tgt, tgt, tgt_key_padding_mask, /*need_weights=*/false, tgt_mask));
  tgt = norm1(tgt + dropout1(own));
  const Tensor read =
      std::get<0>(multihead_attn(tgt, memory, memory, memory_key_padding_mask, /*need_weights=*/false, memory_mask));
  tgt = norm2(tgt + dropout2(read));
  return norm3(tgt + dropout3(linear2(dropout(activate(options.activation(), linear1(tgt))))));
}

// ---- stacks of layers ----
TransformerEncoderImpl::TransformerEncoderImpl(TransformerEncoderOptions options_) : options(std::move(options_)) {
  reset();
}
void TransformerEncoderImpl::reset() {
  layers = register_module("layers", ModuleList());
  repeat_layer(layers, options.encoder_layer(), options.num_layers());
  if (!options.norm().is_empty()) {
    norm = options.norm().clone();
    register_module("norm", norm.ptr());
  }
}
void TransformerEncoderImpl::reset_parameters() {
  TORCH_CHECK(layers->size() == static_cast<size_t>(options.num_layers()), "TransformerEncoder should have ",
              options.num_layers(), " encoder layers, but got ", layers->size());
  for (const auto& layer : *layers) layer->as<TransformerEncoderLayer>()->reset_parameters();
}
Tensor TransformerEncoderImpl::forward(const Tensor& src, const Tensor& src_mask, const Tensor& src_key_padding_mask) {
  Tensor output = src;
  for (const auto& layer : *layers) {
    output = layer->as<TransformerEncoderLayer>()->forward(output, src_mask, src_key_padding_mask);
  }
  return norm.is_empty() ? output : norm.forward<Tensor>(output);
}

TransformerDecoderImpl::TransformerDecoderImpl(TransformerDecoderOptions options_) : options(std::move(options_)) {
  reset();
}
void TransformerDecoderImpl::reset() {
  layers = register_module("layers", ModuleList());
  repeat_layer(layers, options.decoder_layer(), options.num_layers());
  if (!options.norm().is_empty()) {
    norm = options.norm().clone();
    register_module("norm", norm.ptr());
  }
}
void TransformerDecoderImpl::reset_parameters() {
  TORCH_CHECK(layers->size() == static_cast<size_t>(options.num_layers()), "TransformerDecoder should have ",
              options.num_layers(), " decoder layers, but got ", layers->size());
  for (const auto& layer : *layers) layer->as<TransformerDecoderLayer>()->reset_parameters();
}
Tensor TransformerDecoderImpl::forward(const Tensor& tgt, const Tensor& memory, const Tensor& tgt_mask,
                                       const Tensor& memory_mask, const Tensor& tgt_key_padding_mask,
                                       const Tensor& memory_key_padding_mask) {
  Tensor output = tgt;
  for (const auto& layer : *layers) {
    output = layer->as<TransformerDecoderLayer>()->forward(output, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                                                           memory_key_padding_mask);
  }
  return norm.is_empty() ? output : norm.forward<Tensor>(output);
}

// ---- the whole model ----
TransformerImpl::TransformerImpl(TransformerOptions options_) : options(std::move(options_)) { reset(); }
void TransformerImpl::reset() {
  const int64_t width = options.d_model();
  if (options.custom_encoder().is_empty()) {
    TransformerEncoderLayer layer(TransformerEncoderLayerOptions(width, options.nhead())
                                      .dim_feedforward(options.dim_feedforward())
                                      .dropout(options.dropout())
                                      .activation(options.activation()));
    LayerNorm norm(LayerNormOptions({width}));
    encoder = AnyModule(
        TransformerEncoder(TransformerEncoderOptions(layer, options.num_encoder_layers()).norm(AnyModule(norm))));
  } else {
    encoder = options.custom_encoder().clone();
  }
  register_module("encoder", encoder.ptr());
  if (options.custom_decoder().is_empty()) {
    TransformerDecoderLayer layer(TransformerDecoderLayerOptions(width, options.nhead())
                                      .dim_feedforward(options.dim_feedforward())
                                      .dropout(options.dropout())
                                      .activation(options.activation()));
    LayerNorm norm(LayerNormOptions({width}));
    decoder = AnyModule(
        TransformerDecoder(TransformerDecoderOptions(layer, options.num_decoder_layers()).norm(AnyModule(norm))));
  } else {
    decoder = options.custom_decoder().clone();
  }
  register_module("decoder", decoder.ptr());
  reset_parameters();
}
void TransformerImpl::reset_parameters() {
  for (Tensor& parameter : parameters()) {
    if (parameter.dim() > 1) init::xavier_uniform_(parameter);
  }
}
Tensor TransformerImpl::forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask, const Tensor& tgt_mask,
                                const Tensor& memory_mask, const Tensor& src_key_padding_mask,
                                const Tensor& tgt_key_padding_mask, const Tensor& memory_key_padding_mask) {
  TORCH_CHECK(src.dim() == 3 && tgt.dim() == 3, "src and tgt should have 3 dimensions, but got ", src.dim(), " and ",
              tgt.dim());
  TORCH_CHECK(src.size(1) == tgt.size(1), "src and tgt should have equal batch size (at dim 1), but got ", src.size(1),
              " and ", tgt.size(1));
  TORCH_CHECK(src.size(2) == options.d_model() && tgt.size(2) == options.d_model(),
              "src and tgt should have same feature size as d_model (at dim 2), but got ", src.size(2), " and ",
              tgt.size(2), " while d_model is ", options.d_model());
  const Tensor memory = encoder.forward<Tensor>(src, src_mask, src_key_padding_mask);
  return decoder.forward<Tensor>(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask);
}
Tensor TransformerImpl::generate_square_subsequent_mask(int64_t size) {
  return at::full({size, size}, -std::numeric_limits<float>::infinity(), kFloat).triu(1);
}

}  // namespace torch::nn
