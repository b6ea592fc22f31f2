// Builders of the layers without a description from their options, with PyTorch's names.
#include "draft_heads.hpp"
#include "layer-inl.hpp"
#include "layers.hpp"
#include "moe/routing-inl.hpp"
#include "quantize.hpp"
#include "registry-inl.hpp"
#include "transformer.hpp"

namespace weft::nn {

namespace {

void add_linear(ModuleRegistry& r) {
  r.add<QuantizedLinear>("QuantizedLinear", [](const Config& c) {
    return QuantizedLinear(
        c.get<int64_t>("in_features"), c.get<int64_t>("out_features"),
        {c.get_or<int64_t>("bits", 8), c.get_or<int64_t>("group_size", 128), c.get_or("symmetric", true)},
        c.get_or("bias", true));
  });
  r.add<Fp8Linear>("Fp8Linear", [](const Config& c) {
    return Fp8Linear(c.get<int64_t>("in_features"), c.get<int64_t>("out_features"), c.get_or("bias", true));
  });
  r.add<CausalLM>("CausalLM", [](const Config& c) { return CausalLM(causal_lm_options(c)); });
  r.add<DraftHeads>("DraftHeads",
                    [](const Config& c) { return DraftHeads(c.get<int64_t>("width"), c.get<int64_t>("heads")); });
  r.add<MoE>("MoE", [](const Config& c) {
    return MoE(c.get<int64_t>("width"), c.get<int64_t>("hidden"), c.get<int64_t>("experts"), detail::options_of(c));
  });
}

// ---- transformers ----

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
  add_transformers(r);
  add_containers(r);
}

}  // namespace weft::nn
