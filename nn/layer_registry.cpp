// Builders of each layer from its options, with PyTorch's names.
#include "activations.hpp"
#include "batch_norm.hpp"
#include "bilinear.hpp"
#include "convolution.hpp"
#include "distance.hpp"
#include "draft_heads.hpp"
#include "dropout.hpp"
#include "layer-inl.hpp"
#include "layers.hpp"
#include "moe/routing-inl.hpp"
#include "padding.hpp"
#include "pooling.hpp"
#include "quantize.hpp"
#include "rearrange.hpp"
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

// ---- activations ----

void add_activations(ModuleRegistry& r) {
  r.add<ReLU>("ReLU").add<ReLU6>("ReLU6").add<SELU>("SELU").add<SiLU>("SiLU").add<Mish>("Mish").add<Tanh>("Tanh");
  r.add<Sigmoid>("Sigmoid").add<LogSigmoid>("LogSigmoid").add<Hardsigmoid>("Hardsigmoid");
  r.add<Hardswish>("Hardswish").add<Softsign>("Softsign").add<Tanhshrink>("Tanhshrink");
  r.add<GELU>("GELU", [](const Config& c) {
    return GELU(enumerator(c, "approximate", gelu_approximations, Approximate::none));
  });
  r.add<ELU>("ELU", [](const Config& c) { return ELU(c.get_or("alpha", 1.)); });
  r.add<CELU>("CELU", [](const Config& c) { return CELU(c.get_or("alpha", 1.)); });
  r.add<LeakyReLU>("LeakyReLU", [](const Config& c) { return LeakyReLU(c.get_or("negative_slope", 0.01)); });
  r.add<Softplus>("Softplus",
                  [](const Config& c) { return Softplus(c.get_or("beta", 1.), c.get_or("threshold", 20.)); });
  r.add<Softshrink>("Softshrink", [](const Config& c) { return Softshrink(c.get_or("lambd", 0.5)); });
  r.add<Hardshrink>("Hardshrink", [](const Config& c) { return Hardshrink(c.get_or("lambd", 0.5)); });
  r.add<Hardtanh>("Hardtanh",
                  [](const Config& c) { return Hardtanh(c.get_or("min_val", -1.), c.get_or("max_val", 1.)); });
  r.add<Threshold>("Threshold",
                   [](const Config& c) { return Threshold(c.get<Scalar>("threshold"), c.get<Scalar>("value")); });
  r.add<RReLU>("RReLU", [](const Config& c) { return RReLU(c.get_or("lower", 1. / 8), c.get_or("upper", 1. / 3)); });
  r.add<GLU>("GLU", [](const Config& c) { return GLU(c.get_or("dim", -1)); });
  r.add<Softmax>("Softmax", [](const Config& c) { return Softmax(c.get<int>("dim")); });
  r.add<LogSoftmax>("LogSoftmax", [](const Config& c) { return LogSoftmax(c.get<int>("dim")); });
  r.add<PReLU>("PReLU",
               [](const Config& c) { return PReLU(c.get_or<int64_t>("num_parameters", 1), c.get_or("init", 0.25)); });
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

template <class Norm>
void add_norm(ModuleRegistry& r, const char* type, BatchNormSettings otherwise) {
  r.add<Norm>(type, [otherwise](const Config& c) {
    return Norm(c.get<int64_t>("num_features"),
                BatchNormSettings{c.get_or("eps", otherwise.eps), c.get_or("momentum", otherwise.momentum),
                                  c.get_or("affine", otherwise.affine),
                                  c.get_or("track_running_stats", otherwise.track_running_stats)});
  });
}

void add_norms(ModuleRegistry& r) {
  constexpr BatchNormSettings batch = {}, instance = {.affine = false, .track_running_stats = false};
  add_norm<BatchNorm1d>(r, "BatchNorm1d", batch);
  add_norm<BatchNorm2d>(r, "BatchNorm2d", batch);
  add_norm<BatchNorm3d>(r, "BatchNorm3d", batch);
  add_norm<InstanceNorm1d>(r, "InstanceNorm1d", instance);
  add_norm<InstanceNorm2d>(r, "InstanceNorm2d", instance);
  add_norm<InstanceNorm3d>(r, "InstanceNorm3d", instance);
  r.add<GroupNorm>("GroupNorm", [](const Config& c) {
    return GroupNorm(c.get<int64_t>("num_groups"), c.get<int64_t>("num_channels"), c.get_or("eps", 1e-5),
                     c.get_or("affine", true));
  });
  r.add<LocalResponseNorm>("LocalResponseNorm", [](const Config& c) {
    return LocalResponseNorm(c.get<int64_t>("size"), c.get_or("alpha", 1e-4), c.get_or("beta", 0.75),
                             c.get_or("k", 1.));
  });
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

// ---- layers without parameters, each for one, two and three dimensions ----

template <int dims>
void add_pools(ModuleRegistry& r) {
  const auto name = [](const char* family) { return name_for(family, dims); };
  r.add<MaxPool<dims>>(name("MaxPool"), [](const Config& c) {
    return MaxPool<dims>(required_sizes(c, "kernel_size"), {sizes(c, "stride"), sizes(c, "padding", 0),
                                                            sizes(c, "dilation", 1), c.get_or("ceil_mode", false)});
  });
  r.add<MaxUnpool<dims>>(name("MaxUnpool"), [](const Config& c) {
    return MaxUnpool<dims>(required_sizes(c, "kernel_size"),
                           {sizes(c, "stride"), sizes(c, "padding", 0), sizes(c, "output_size")});
  });
  r.add<AvgPool<dims>>(name("AvgPool"), [](const Config& c) {
    return AvgPool<dims>(
        required_sizes(c, "kernel_size"),
        {sizes(c, "stride"), sizes(c, "padding", 0), c.get_or("ceil_mode", false), c.get_or("count_include_pad", true),
         c.get_or<std::optional<int64_t>>("divisor_override", {})});
  });
  r.add<LPPool<dims>>(name("LPPool"), [](const Config& c) {
    return LPPool<dims>(c.get<double>("norm_type"), required_sizes(c, "kernel_size"), sizes(c, "stride"),
                        c.get_or("ceil_mode", false));
  });
  r.add<AdaptiveAvgPool<dims>>(name("AdaptiveAvgPool"),
                               [](const Config& c) { return AdaptiveAvgPool<dims>(required_sizes(c, "output_size")); });
  r.add<AdaptiveMaxPool<dims>>(name("AdaptiveMaxPool"),
                               [](const Config& c) { return AdaptiveMaxPool<dims>(required_sizes(c, "output_size")); });
  if constexpr (dims > 1) {
    r.add<FractionalMaxPool<dims>>(name("FractionalMaxPool"), [](const Config& c) {
      const auto ratio = c.get_or<std::optional<std::vector<double>>>("output_ratio", {});
      return FractionalMaxPool<dims>(
          required_sizes(c, "kernel_size"),
          {.output_size = sizes(c, "output_size"), .output_ratio = ratio.value_or(std::vector<double>())});
    });
  }
}

template <int dims>
void add_edges(ModuleRegistry& r) {
  const auto add = [&]<Padding mode>(const char* family, std::integral_constant<Padding, mode>) {
    using Layer = detail::EdgePad<dims, mode>;
    r.add<Layer>(name_for(family, dims), [](const Config& c) { return Layer(required_sizes(c, "padding")); });
  };
  add("ZeroPad", std::integral_constant<Padding, Padding::constant>());
  add("ReflectionPad", std::integral_constant<Padding, Padding::reflect>());
  add("ReplicationPad", std::integral_constant<Padding, Padding::replicate>());
  add("CircularPad", std::integral_constant<Padding, Padding::circular>());
  r.add<ConstantPad<dims>>(name_for("ConstantPad", dims), [](const Config& c) {
    return ConstantPad<dims>(required_sizes(c, "padding"), c.get<Scalar>("value"));
  });
  r.add<ChannelDropout<dims>>(name_for("Dropout", dims),
                              [](const Config& c) { return ChannelDropout<dims>(c.get_or("p", 0.5)); });
}

void add_others(ModuleRegistry& r) {
  r.add<Identity>("Identity");
  r.add<Dropout>("Dropout", [](const Config& c) { return Dropout(c.get_or("p", 0.5)); });
  r.add<AlphaDropout>("AlphaDropout", [](const Config& c) { return AlphaDropout(c.get_or("p", 0.5)); });
  r.add<FeatureAlphaDropout>("FeatureAlphaDropout",
                             [](const Config& c) { return FeatureAlphaDropout(c.get_or("p", 0.5)); });
  r.add<Flatten>("Flatten", [](const Config& c) { return Flatten(c.get_or("start_dim", 1), c.get_or("end_dim", -1)); });
  r.add<Unflatten>("Unflatten",
                   [](const Config& c) { return Unflatten(c.get<int>("dim"), required_sizes(c, "unflattened_size")); });
  r.add<Upsample>("Upsample", [](const Config& c) {
    const auto factors = c.get_or<std::optional<std::vector<double>>>("scale_factor", {});
    return Upsample({.size = sizes(c, "size"),
                     .scale_factor = factors.value_or(std::vector<double>()),
                     .mode = enumerator(c, "mode", interpolation_modes, Interpolation::nearest),
                     .align_corners = c.get_or<std::optional<bool>>("align_corners", {}),
                     .recompute_scale_factor = c.get_or("recompute_scale_factor", false),
                     .antialias = c.get_or("antialias", false)});
  });
  r.add<PixelShuffle>("PixelShuffle", [](const Config& c) { return PixelShuffle(c.get<int64_t>("upscale_factor")); });
  r.add<PixelUnshuffle>("PixelUnshuffle",
                        [](const Config& c) { return PixelUnshuffle(c.get<int64_t>("downscale_factor")); });
  r.add<ChannelShuffle>("ChannelShuffle", [](const Config& c) { return ChannelShuffle(c.get<int64_t>("groups")); });
  const auto columns = [](const Config& c) {
    return ColumnOptions{sizes(c, "dilation", 1), sizes(c, "padding", 0), sizes(c, "stride", 1)};
  };
  r.add<Unfold>("Unfold", [=](const Config& c) { return Unfold(required_sizes(c, "kernel_size"), columns(c)); });
  r.add<Fold>("Fold", [=](const Config& c) {
    return Fold(required_sizes(c, "output_size"), required_sizes(c, "kernel_size"), columns(c));
  });
  r.add<CosineSimilarity>("CosineSimilarity",
                          [](const Config& c) { return CosineSimilarity(c.get_or("dim", 1), c.get_or("eps", 1e-8)); });
  r.add<PairwiseDistance>("PairwiseDistance", [](const Config& c) {
    return PairwiseDistance(c.get_or("p", 2.), c.get_or("eps", 1e-6), c.get_or("keepdim", false));
  });
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
  add_activations(r);
  add_linear(r);
  add_recurrent(r);
  add_transformers(r);
  add_norms(r);
  add_convolutions(r);
  add_pools<1>(r), add_pools<2>(r), add_pools<3>(r);
  add_edges<1>(r), add_edges<2>(r), add_edges<3>(r);
  add_others(r);
  add_containers(r);
}

}  // namespace weft::nn
