// Builders of the layers without a description from their options, with PyTorch's names.
#include "bilinear.hpp"
#include "convolution.hpp"
#include "draft_heads.hpp"
#include "layer-inl.hpp"
#include "layers.hpp"
#include "moe/routing-inl.hpp"
#include "quantize.hpp"
#include "recurrent.hpp"
#include "registry-inl.hpp"
#include "transformer.hpp"

namespace weft::nn {

namespace {

using Sizes = std::optional<Dims>;

Dims required_sizes(const Config& c, const char* name) { return c.get<Dims>(name); }
Dims sizes(const Config& c, const char* name, const Dims& otherwise = {}) {
  return c.get_or<Sizes>(name, otherwise).value_or(otherwise);
}

// ---- layers with parameters ----

void add_linear(ModuleRegistry& r) {
  r.add<Linear>("Linear", [](const Config& c) {
    return Linear(c.get<int64_t>("in_features"), c.get<int64_t>("out_features"), c.get_or("bias", true));
  });
  r.add<QuantizedLinear>("QuantizedLinear", [](const Config& c) {
    return QuantizedLinear(
        c.get<int64_t>("in_features"), c.get<int64_t>("out_features"),
        {c.get_or<int64_t>("bits", 8), c.get_or<int64_t>("group_size", 128), c.get_or("symmetric", true)},
        c.get_or("bias", true));
  });
  r.add<Fp8Linear>("Fp8Linear", [](const Config& c) {
    return Fp8Linear(c.get<int64_t>("in_features"), c.get<int64_t>("out_features"), c.get_or("bias", true));
  });
  r.add<Bilinear>("Bilinear", [](const Config& c) {
    return Bilinear(c.get<int64_t>("in1_features"), c.get<int64_t>("in2_features"), c.get<int64_t>("out_features"),
                    c.get_or("bias", true));
  });
  r.add<Embedding>("Embedding", [](const Config& c) {
    return Embedding(c.get<int64_t>("num_embeddings"), c.get<int64_t>("embedding_dim"),
                     {c.get_or<std::optional<int64_t>>("padding_idx", {}), c.get_or("sparse", false)});
  });
  r.add<EmbeddingBag>("EmbeddingBag", [](const Config& c) {
    return EmbeddingBag(c.get<int64_t>("num_embeddings"), c.get<int64_t>("embedding_dim"),
                        {.mode = enumerator(c, "mode", bag_modes, BagMode::mean),
                         .include_last_offset = c.get_or("include_last_offset", false),
                         .padding_idx = c.get_or<std::optional<int64_t>>("padding_idx", {}),
                         .max_norm = c.get_or<std::optional<double>>("max_norm", {}),
                         .norm_type = c.get_or("norm_type", 2.),
                         .sparse = c.get_or("sparse", false)});
  });
  r.add<LayerNorm>("LayerNorm", [](const Config& c) {
    return LayerNorm(required_sizes(c, "normalized_shape"), c.get_or("eps", 1e-5), c.get_or("elementwise_affine", true),
                     c.get_or("bias", true));
  });
  r.add<RMSNorm>("RMSNorm", [](const Config& c) {
    return RMSNorm(required_sizes(c, "normalized_shape"), c.get_or<std::optional<double>>("eps", {}),
                   c.get_or("elementwise_affine", true));
  });
  r.add<SelfAttention>("SelfAttention", [](const Config& c) {
    return SelfAttention(c.get<int64_t>("width"), c.get<int64_t>("heads"),
                         {c.get_or("causal", true), c.get_or("dropout", 0.), c.get_or("bias", true)});
  });
  r.add<TransformerBlock>("TransformerBlock", [](const Config& c) {
    return TransformerBlock(
        c.get<int64_t>("width"), c.get<int64_t>("heads"),
        {c.get_or<int64_t>("hidden", 0), c.get_or("causal", true), c.get_or("dropout", 0.), c.get_or("bias", true)});
  });
  r.add<CausalLM>("CausalLM", [](const Config& c) { return CausalLM(causal_lm_options(c)); });
  r.add<DraftHeads>("DraftHeads",
                    [](const Config& c) { return DraftHeads(c.get<int64_t>("width"), c.get<int64_t>("heads")); });
  r.add<MoE>("MoE", [](const Config& c) {
    return MoE(c.get<int64_t>("width"), c.get<int64_t>("hidden"), c.get<int64_t>("experts"), detail::options_of(c));
  });
}

// ---- recurrent layers and transformers ----

RecurrentLayerOptions recurrent_options(const Config& c) {
  return {c.get_or<int64_t>("num_layers", 1), c.get_or("bias", true), c.get_or("batch_first", false),
          c.get_or("dropout", 0.), c.get_or("bidirectional", false)};
}

bool is_relu(const Config& c) { return c.contains("nonlinearity") && c.choice("nonlinearity", {"tanh", "relu"}) == 1; }

template <class C>
void add_cell(ModuleRegistry& r, const char* type) {
  r.add<C>(type, [](const Config& c) {
    return C(c.get<int64_t>("input_size"), c.get<int64_t>("hidden_size"), c.get_or("bias", true));
  });
}

void add_recurrent(ModuleRegistry& r) {
  r.add<LSTM>("LSTM", [](const Config& c) {
    const RecurrentLayerOptions o = recurrent_options(c);
    return LSTM(c.get<int64_t>("input_size"), c.get<int64_t>("hidden_size"),
                {o.num_layers, o.bias, o.batch_first, o.dropout, o.bidirectional, c.get_or<int64_t>("proj_size", 0)});
  });
  r.add<GRU>("GRU", [](const Config& c) {
    return GRU(c.get<int64_t>("input_size"), c.get<int64_t>("hidden_size"), recurrent_options(c));
  });
  r.add<RNN>("RNN", [](const Config& c) {
    const RecurrentLayerOptions o = recurrent_options(c);
    return RNN(c.get<int64_t>("input_size"), c.get<int64_t>("hidden_size"),
               {o.num_layers, is_relu(c), o.bias, o.batch_first, o.dropout, o.bidirectional});
  });
  add_cell<LSTMCell>(r, "LSTMCell");
  add_cell<GRUCell>(r, "GRUCell");
  r.add<RNNCell>("RNNCell", [](const Config& c) {
    return RNNCell(c.get<int64_t>("input_size"), c.get<int64_t>("hidden_size"), c.get_or("bias", true), is_relu(c));
  });
}

TransformerLayerOptions transformer_options(const Config& c) {
  const bool gelu = c.contains("activation") && c.choice("activation", {"relu", "gelu"}) == 1;
  return {c.get_or<int64_t>("dim_feedforward", 2048),
          c.get_or("dropout", 0.1),
          gelu ? TransformerActivation::gelu : TransformerActivation::relu,
          c.get_or("layer_norm_eps", 1e-5),
          c.get_or("batch_first", false),
          c.get_or("norm_first", false),
          c.get_or("bias", true)};
}

template <class L>
L transformer_layer(const Config& c) {
  return L(c.get<int64_t>("d_model"), c.get<int64_t>("nhead"), transformer_options(c));
}

template <class Stack, class L>
void add_stack(ModuleRegistry& r, const char* type) {
  r.add<Stack>(type, [](const Config& c) {
    return Stack(transformer_layer<L>(c), c.get<int64_t>("num_layers"), c.get_or("norm", false));
  });
}

void add_transformers(ModuleRegistry& r) {
  r.add<MultiheadAttention>("MultiheadAttention", [](const Config& c) {
    return MultiheadAttention(
        c.get<int64_t>("embed_dim"), c.get<int64_t>("num_heads"),
        {c.get_or("dropout", 0.), c.get_or("bias", true), c.get_or("add_bias_kv", false),
         c.get_or("add_zero_attn", false), c.get_or<std::optional<int64_t>>("kdim", {}).value_or(0),
         c.get_or<std::optional<int64_t>>("vdim", {}).value_or(0), c.get_or("batch_first", false)});
  });
  r.add<TransformerEncoderLayer>("TransformerEncoderLayer", transformer_layer<TransformerEncoderLayer>);
  r.add<TransformerDecoderLayer>("TransformerDecoderLayer", transformer_layer<TransformerDecoderLayer>);
  add_stack<TransformerEncoder, TransformerEncoderLayer>(r, "TransformerEncoder");
  add_stack<TransformerDecoder, TransformerDecoderLayer>(r, "TransformerDecoder");
  r.add<Transformer>("Transformer", [](const Config& c) {
    return Transformer(c.get_or<int64_t>("d_model", 512), c.get_or<int64_t>("nhead", 8),
                       {c.get_or<int64_t>("num_encoder_layers", 6), c.get_or<int64_t>("num_decoder_layers", 6),
                        transformer_options(c)});
  });
  // The type was renamed: the old name differed from PyTorch's MultiheadAttention by one capital letter.
  r.add_migration("MultiHeadAttention", 1, [](ModuleDescription& d) { d.type = "SelfAttention"; });
}

ConvolutionPadding convolution_padding(const Config& c) {
  const Attribute* given = c.find("padding");
  if (given != nullptr && given->type() == Attribute::Type::text) return given->to<std::string>().c_str();
  return sizes(c, "padding", 0);
}

template <class Layer>
void add_convolution(ModuleRegistry& r, const char* type) {
  r.add<Layer>(type, [](const Config& c) {
    return Layer(c.get<int64_t>("in_channels"), c.get<int64_t>("out_channels"), required_sizes(c, "kernel_size"),
                 ConvOptions{sizes(c, "stride", 1), convolution_padding(c), sizes(c, "dilation", 1),
                             c.get_or<int64_t>("groups", 1), c.get_or("bias", true),
                             enumerator(c, "padding_mode", padding_modes, Padding::constant)});
  });
}
template <class Layer>
void add_transposed(ModuleRegistry& r, const char* type) {
  r.add<Layer>(type, [](const Config& c) {
    return Layer(c.get<int64_t>("in_channels"), c.get<int64_t>("out_channels"), required_sizes(c, "kernel_size"),
                 ConvTransposeOptions{sizes(c, "stride", 1), sizes(c, "padding", 0), sizes(c, "output_padding", 0),
                                      c.get_or<int64_t>("groups", 1), c.get_or("bias", true), sizes(c, "dilation", 1)});
  });
}

void add_convolutions(ModuleRegistry& r) {
  add_convolution<Conv1d>(r, "Conv1d");
  add_convolution<Conv2d>(r, "Conv2d");
  add_convolution<Conv3d>(r, "Conv3d");
  add_transposed<ConvTranspose1d>(r, "ConvTranspose1d");
  add_transposed<ConvTranspose2d>(r, "ConvTranspose2d");
  add_transposed<ConvTranspose3d>(r, "ConvTranspose3d");
}

void add_containers(ModuleRegistry& r) {
  using Children = ModuleRegistry::Children;
  r.add_container("Sequential", [](const Config&, const Children& children) -> AnyModule {
    Sequential all;
    for (const auto& [name, child] : children) all.append(child);
    return all;
  });
  r.add_container("ModuleList", [](const Config&, const Children& children) {
    ModuleList<> all;
    for (const auto& [name, child] : children) all.append(child);
    return AnyModule::wrap(std::move(all));
  });
  r.add_container("ModuleDict", [](const Config&, const Children& children) {
    ModuleDict<> all;
    for (const auto& [name, child] : children) all.insert(name, child);
    return AnyModule::wrap(std::move(all));
  });
}

}  // namespace

void detail::add_layers(ModuleRegistry& r) {
  add_linear(r);
  add_recurrent(r);
  add_transformers(r);
  add_convolutions(r);
  add_containers(r);
}

}  // namespace weft::nn
