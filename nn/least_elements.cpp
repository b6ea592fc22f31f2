#include "least_elements-inl.hpp"

#include <limits>

#include <fmt/format.h>

#include "../tensor/shortened.hpp"
#include "parametrize/parametrized-inl.hpp"
#include "path-inl.hpp"

namespace weft::nn::detail {

namespace {

/// Options of a description as sizes. `is_valid` is false after one that is missing or negative.
class Claims {
 public:
  explicit Claims(const Config& config) : config_(config) {}

  Checked size(const char* name) { return checked(config_.get_or<int64_t>(name, -1)); }
  Checked size_or(const char* name, int64_t otherwise) { return checked(config_.get_or<int64_t>(name, otherwise)); }
  /// The product of a list of sizes.
  Checked product(const char* name) {
    Checked out = 1;
    if (!config_.contains(name)) is_valid = false;
    for (const int64_t each : config_.get_or<std::vector<int64_t>>(name, {})) out *= checked(each);
    return out;
  }
  int64_t divisor(const char* name) { return std::max<int64_t>(config_.get_or<int64_t>(name, 1), 1); }
  bool is(const char* name, bool otherwise) const { return config_.get_or(name, otherwise); }
  std::string_view text(const char* name) {
    text_ = config_.get_or<std::string>(name, "");
    return text_;
  }

  bool is_valid = true;

 private:
  Checked checked(int64_t size) {
    is_valid = is_valid && size >= 0;
    return size;
  }
  const Config& config_;
  std::string text_;
};

Checked quotient(Checked a, int64_t b) { return a.fits() ? Checked(a.value() / b) : a; }

Checked linear(Claims& c, const char* in, const char* out) { return c.size(in) * c.size(out); }

Checked convolution(Claims& c) {
  return quotient(c.size("in_channels") * c.size("out_channels") * c.product("kernel_size"), c.divisor("groups"));
}

Checked recurrent(Claims& c, int64_t gates) {
  const Checked hidden = c.size("hidden_size"), projected = c.size_or("proj_size", 0);
  const bool projects = projected.fits() && projected.value() > 0;
  const Checked rows = Checked(c.is("bidirectional", false) ? 2 : 1) * gates * hidden;
  return rows * c.size("input_size") + c.size_or("num_layers", 1) * rows * (projects ? projected : hidden);
}

Checked cell(Claims& c, int64_t gates) {
  return Checked(gates) * c.size("hidden_size") * (c.size("input_size") + c.size("hidden_size"));
}

Checked transformer_layer(Claims& c, int64_t attentions) {
  const Checked width = c.size_or("d_model", 512);
  return Checked(4 * attentions) * width * width + Checked(2) * width * c.size_or("dim_feedforward", 2048);
}

Checked transformer(Claims& c) {
  return c.size_or("num_encoder_layers", 6) * transformer_layer(c, 1) +
         c.size_or("num_decoder_layers", 6) * transformer_layer(c, 2);
}

Checked mixture(Claims& c) {
  const Checked experts = c.size("experts") + c.size_or("shared_experts", 0);
  return experts * c.size("hidden") * c.size("width") * (c.text("kind") == "gelu" ? 2 : 3);
}

Checked block(Claims& c) {
  const Checked width = c.size("width"), hidden = c.size_or("hidden", 0);
  const bool is_given = hidden.fits() && hidden.value() > 0;
  return Checked(4) * width * width + Checked(2) * width * (is_given ? hidden : Checked(4) * width);
}

std::optional<Checked> claimed(std::string_view type, Claims& c) {
  const auto is = [type](std::string_view name) { return type == name; };
  if (is("Linear")) return linear(c, "in_features", "out_features");
  if (is("Bilinear")) return linear(c, "in1_features", "in2_features") * c.size("out_features");
  if (is("Embedding") || is("EmbeddingBag")) return linear(c, "num_embeddings", "embedding_dim");
  if (is("LayerNorm") || is("RMSNorm")) return c.is("elementwise_affine", true) ? c.product("normalized_shape") : 0;
  if (type.starts_with("Conv") && type.ends_with('d')) return convolution(c);
  if (is("LSTM")) return recurrent(c, 4);
  if (is("GRU")) return recurrent(c, 3);
  if (is("RNN")) return recurrent(c, 1);
  if (is("LSTMCell")) return cell(c, 4);
  if (is("GRUCell")) return cell(c, 3);
  if (is("RNNCell")) return cell(c, 1);
  if (is("MultiheadAttention")) return Checked(2) * c.size("embed_dim") * c.size("embed_dim");
  if (is("SelfAttention")) return Checked(4) * c.size("width") * c.size("width");
  if (is("TransformerBlock")) return block(c);
  if (is("TransformerEncoderLayer")) return transformer_layer(c, 1);
  if (is("TransformerDecoderLayer")) return transformer_layer(c, 2);
  if (is("TransformerEncoder")) return c.size("num_layers") * transformer_layer(c, 1);
  if (is("TransformerDecoder")) return c.size("num_layers") * transformer_layer(c, 2);
  if (is("Transformer")) return transformer(c);
  if (is("DraftHeads")) return c.size("heads") * c.size("width") * c.size("width");
  if (is("MoE")) return mixture(c);
  if (is("PReLU")) return c.size_or("num_parameters", 1);
  return {};
}

/// Elements of all listed tensors of a module and those below it.
struct Listed {
  Checked elements = 0;
  bool any = false, parametrized = false;

  void add(const ModuleDescription& d) {
    for (const auto* list : {&d.parameters, &d.buffers}) {
      for (const TensorDescription& t : *list) {
        Checked count = 1;
        for (const int64_t size : t.shape) count *= size;
        elements += count;
        any = true;
      }
    }
    for (const ModuleDescription& child : d.children) {
      parametrized |= child.name == parametrizations;
      add(child);
    }
  }
};

/// Weights of 4 bits have two codes in an element.
bool exceeds(Checked claimed, Checked listed) {
  if (!listed.fits()) return false;
  const Checked most = Checked(2) * listed + 64;
  return !claimed.fits() || (most.fits() && claimed.value() > most.value());
}

}  // namespace

Checked least_elements(const CausalLMOptions& o) {
  const Checked width = o.width, head = o.head_dim > 0 ? o.head_dim : o.width / std::max<int64_t>(o.heads, 1);
  const Checked hidden = o.hidden > 0 ? Checked(o.hidden) : Checked(4) * width;
  const Checked heads = o.heads, shared = o.kv_heads > 0 ? o.kv_heads : o.heads;
  const Checked attention = Checked(2) * width * head * (heads + shared);
  const Checked mlp = Checked(o.mlp == CausalLMMlp::swiglu ? 3 : 2) * width * hidden;
  const Checked tables = Checked(o.tied ? 1 : 2) * o.vocabulary * width;
  const Checked positions = o.positions == CausalLMPositions::learned ? Checked(o.context) * width : Checked(0);
  return tables + positions + Checked(o.layers) * (attention + mlp);
}

std::optional<Checked> least_elements(std::string_view type, const Config& config) {
  try {
    if (type == "CausalLM") return least_elements(causal_lm_options(config, Location::none()));
    Claims claims(config);
    const std::optional<Checked> out = claimed(type, claims);
    return claims.is_valid ? out : std::nullopt;
  } catch (const Error&) {  // the constructor reports it
    return {};
  }
}

void check_claims(const ModuleDescription& model, std::optional<int64_t> stored,
                  const Callback<bool(const std::string& type)>& is_weft, const char* op, Location where) {
  const auto walk = [&](const auto& self, const ModuleDescription& d, const std::string& path) -> void {
    for (const ModuleDescription& child : d.children) self(self, child, joined(path, child.name));
    if (!d.shared_with.empty() || !is_weft(d.type)) return;
    const std::optional<Checked> claims = least_elements(d.type, d.config);
    if (!claims) return;
    Listed listed;
    listed.add(d);
    if (listed.parametrized || (!listed.any && !stored)) return;
    const Checked held = listed.any ? listed.elements : Checked(*stored);
    if (!exceeds(*claims, held)) return;
    raise<FormatError>(
        {.op = op,
         .problem = fmt::format("{}: the options of {} are of a module with {} elements or more, {}",
                                path.empty() ? "the model" : shortened(path, 100), d.type,
                                claims->fits() ? std::to_string(claims->value()) : "2^63",
                                listed.any ? fmt::format("but its tensors have {}", held.value())
                                           : fmt::format("but its weights are far smaller: {}", held.value()))},
        where);
  };
  walk(walk, model, "");
}

}  // namespace weft::nn::detail
