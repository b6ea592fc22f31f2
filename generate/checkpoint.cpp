#include "checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../io/file.hpp"
#include "../io/mapping.hpp"
#include "../io/sharded.hpp"
#include "../nn/least_elements-inl.hpp"
#include "../nn/memory_budget-inl.hpp"
#include "../ops/detail/common.hpp"
#include "../tensor/shortened.hpp"

namespace weft::generate {

namespace {

using nlohmann::json;
constexpr const char* op = "load_causal_lm";

[[noreturn]] void unknown(const std::string& what, Location where) {
  raise<NotImplementedError>({.op = op, .problem = what + " is not there yet"}, where);
}

/// An integer field. A conversion of other numbers would change the value, or have none.
int64_t integer_of(const json& value, const char* key) {
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() >> 63 == 0);
  if (fits) return value.get<int64_t>();
  raise<FormatError>(
      {.problem = fmt::format("config.json: \"{}\": expected an integer, got {}", key, shortened(value.dump(), 100))});
}

/// The value, or `otherwise` if it is missing or null.
template <class T>
T value_or(const json& config, const char* key, T otherwise) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return otherwise;
  if constexpr (std::is_same_v<T, int64_t>) return integer_of(*found, key);
  else return found->get<T>();
}

int64_t required(const json& config, const char* key) { return integer_of(config.at(key), key); }

RopeOptions rope_of(const json& config, int64_t context, Location where) {
  // transformers 5 has one dictionary, older versions have two entries.
  json given = value_or(config, "rope_parameters", value_or(config, "rope_scaling", json::object()));
  RopeOptions rope{.theta = value_or(given, "rope_theta", value_or(config, "rope_theta", 10000.0))};
  const std::string type = value_or(given, "rope_type", value_or<std::string>(given, "type", "default"));
  rope.factor = value_or(given, "factor", 1.0);
  rope.original_length = value_or(given, "original_max_position_embeddings", context);
  if (type == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (type == "dynamic") {
    rope.scaling = RopeScaling::dynamic_ntk;
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::llama3;
    rope.low_frequency = given.at("low_freq_factor").get<double>();
    rope.high_frequency = given.at("high_freq_factor").get<double>();
  } else if (type == "yarn") {
    for (const char* key : {"mscale", "mscale_all_dim", "truncate"}) {
      if (given.contains(key)) unknown(fmt::format("\"{}\" of rope's yarn", key), where);
    }
    rope.scaling = RopeScaling::yarn;
    rope.beta_fast = value_or(given, "beta_fast", 32.0);
    rope.beta_slow = value_or(given, "beta_slow", 1.0);
    if (const double factor = value_or(given, "attention_factor", 0.0); factor != 0) rope.attention_factor = factor;
  } else if (type != "default") {
    unknown(fmt::format("rope of type \"{}\"", type), where);
  }
  return rope;
}

nn::CausalLMOptions gpt2_options(const json& config, Location where) {
  if (value_or<std::string>(config, "activation_function", "gelu_new") != "gelu_new") {
    unknown(fmt::format("activation_function {}", config["activation_function"].dump()), where);
  }
  if (value_or(config, "scale_attn_by_inverse_layer_idx", false) || !value_or(config, "scale_attn_weights", true)) {
    unknown("another scale of attention", where);
  }
  const auto width = required(config, "n_embd");
  return {.vocabulary = required(config, "vocab_size"),
          .width = width,
          .layers = required(config, "n_layer"),
          .heads = required(config, "n_head"),
          .hidden = value_or<int64_t>(config, "n_inner", 0),
          .context = value_or<int64_t>(config, "n_positions", 1024),
          .positions = nn::CausalLMPositions::learned,
          .norm = nn::CausalLMNorm::layer,
          .norm_eps = value_or(config, "layer_norm_epsilon", 1e-5),
          .mlp = nn::CausalLMMlp::gelu,
          .qkv_bias = true,
          .out_bias = true,
          .mlp_bias = true,
          .tied = value_or(config, "tie_word_embeddings", true)};
}

nn::CausalLMOptions llama_options(const json& config, const std::string& type, Location where) {
  if (const auto act = value_or<std::string>(config, "hidden_act", "silu"); act != "silu") {
    unknown(fmt::format("hidden_act \"{}\"", act), where);
  }
  const auto context = value_or<int64_t>(config, "max_position_embeddings", type == "llama" ? 2048 : 32768);
  nn::CausalLMOptions o{.vocabulary = required(config, "vocab_size"),
                        .width = required(config, "hidden_size"),
                        .layers = required(config, "num_hidden_layers"),
                        .heads = required(config, "num_attention_heads"),
                        .kv_heads = value_or<int64_t>(config, "num_key_value_heads", 0),
                        .head_dim = value_or<int64_t>(config, "head_dim", 0),
                        .hidden = required(config, "intermediate_size"),
                        .context = context,
                        .rope = rope_of(config, context, where),
                        .norm_eps = value_or(config, "rms_norm_eps", 1e-6),
                        .qkv_bias = type == "qwen2" || value_or(config, "attention_bias", false),
                        .out_bias = type != "qwen2" && value_or(config, "attention_bias", false),
                        .mlp_bias = value_or(config, "mlp_bias", false),
                        .qk_norm = type == "qwen3",
                        .tied = value_or(config, "tie_word_embeddings", false)};
  // With dynamic NTK scaling the context is longer than the trained length.
  if (o.rope.scaling == RopeScaling::dynamic_ntk) {
    const double scaled = static_cast<double>(context) * o.rope.factor;
    if (!(scaled >= 0 && scaled < 0x1p62)) {
      raise<FormatError>({.op = op, .problem = fmt::format("config.json: the context is {} tokens", scaled)}, where);
    }
    o.context = static_cast<int64_t>(scaled);
  }
  const bool slides = type == "mistral" || (type != "llama" && value_or(config, "use_sliding_window", false));
  if (!slides) return o;
  o.window = value_or<int64_t>(config, "sliding_window", 0);
  const json layers = value_or(config, "layer_types", json::array());
  const bool alike = std::ranges::all_of(layers, [](const json& kind) { return kind == "sliding_attention"; });
  if (type != "mistral" && (layers.empty() || !alike)) unknown("a sliding window in some of the layers", where);
  return o;
}

json parsed(const io::Path& path, Location where) {
  try {
    return json::parse(io::read_file(path, op, where));
  } catch (const json::exception& error) {
    raise<FormatError>({.op = op, .problem = fmt::format("{}: {}", path.string(), error.what())}, where);
  }
}

int64_t elements_of(const io::TensorMap& files) {
  int64_t out = 0;
  for (const auto& [name, tensor] : files) out += tensor.numel();
  return out;
}

/// Checked before the model is built: a config with a billion layers would exhaust memory.
void check_layers(const io::TensorMap& files, const nn::CausalLMOptions& o, Location where) {
  int64_t count = 0;
  for (const auto& [name, tensor] : files) {
    for (const std::string_view list : {"layers.", "h."}) {
      const size_t at = name.starts_with(list) ? 0 : name.find("." + std::string(list));
      if (at == name.npos) continue;
      const char* const digits = name.data() + at + (at == 0 ? 0 : 1) + list.size();
      int64_t layer = 0;
      const auto [end, error] = std::from_chars(digits, name.data() + name.size(), layer);
      if (error == std::errc() && end != name.data() + name.size() && *end == '.') count = std::max(count, layer + 1);
    }
  }
  if (o.layers <= count) return;
  raise<ShapeError>(
      {.op = op, .problem = fmt::format("config.json says {} layers, the weights are of {}", o.layers, count)}, where);
}

/// Checked before the model is built, too. Files may also hold masks and positions. An output layer that they lack is
/// reported by its name later.
void check_elements(const io::TensorMap& files, nn::CausalLMOptions o, Location where) {
  o.tied = true;
  const Checked claimed = nn::detail::least_elements(o);
  const int64_t stored = elements_of(files);
  if (claimed.fits() && claimed.value() <= stored) return;
  raise<ShapeError>(
      {.op = op,
       .problem = fmt::format("config.json describes a model with {} elements or more, the weights have {}",
                              claimed.fits() ? std::to_string(claimed.value()) : "2^63", stored)},
      where);
}

/// Returns f(config). Raises FormatError if the text is not JSON or a field has another type.
template <class F>
auto from_config(std::string_view text, Location where, F&& f) {
  const CallScope call(op, where);
  try {
    return f(json::parse(text));
  } catch (const json::exception& error) {
    raise<FormatError>({.op = op, .problem = fmt::format("config.json: {}", error.what())}, where);
  }
}

nn::CausalLMOptions options_of(const json& config, Location where) {
  const std::string type = config.at("model_type").get<std::string>();
  if (type == "gpt2") return gpt2_options(config, where);
  if (type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3") {
    return llama_options(config, type, where);
  }
  unknown(fmt::format("model_type \"{}\"", type), where);
}

std::string dtype_named_in(const json& config) {
  return value_or<std::string>(config, "dtype", value_or<std::string>(config, "torch_dtype", ""));
}

/// The dtype of the weights. If they have several, the config's, or that of most elements. Masks and positions are
/// ignored.
std::optional<DType> dtype_of(const io::TensorMap& files, std::string_view said) {
  std::map<DType, int64_t> elements;
  for (const auto& [name, tensor] : files) {
    if (is_floating(tensor.dtype()) && !is_storage_only(tensor.dtype())) elements[tensor.dtype()] += tensor.numel();
  }
  if (elements.empty()) return {};
  const auto is_said = [&](const auto& entry) { return name(entry.first) == said; };
  if (const auto found = std::ranges::find_if(elements, is_said); found != elements.end()) return found->first;
  return std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; })->first;
}

/// A mapping from the names in the files to those of nn::CausalLM.
std::string mapping_of(const io::TensorMap& files, const nn::CausalLMOptions& o) {
  std::string out;
  const auto has = [&](std::string_view part) {
    return std::ranges::any_of(files, [&](const auto& entry) { return entry.first.ends_with(part); });
  };
  const auto add = [&](const std::string& line) { out += line + '\n'; };
  const auto drop = [&](const std::string& name, const char* end) {
    if (has(end)) add(name + " -> _");
  };
  if (o.positions == nn::CausalLMPositions::rotary) {
    drop("model.layers.$LAYER.self_attn.rotary_emb.inv_freq", ".self_attn.rotary_emb.inv_freq");
    drop("model.rotary_emb.inv_freq", "model.rotary_emb.inv_freq");
    if (o.tied) drop("lm_head.weight", "lm_head.weight");
    return out;
  }
  const std::string from = files.contains("wte.weight") ? "" : "transformer.", at = from + "h.$LAYER.";
  if (o.tied) drop("lm_head.weight", "lm_head.weight");
  drop(at + "attn.bias", ".attn.bias");
  drop(at + "attn.masked_bias", ".attn.masked_bias");
  add(from + "wte.weight -> model.embed_tokens.weight");
  add(from + "wpe.weight -> model.embed_positions.weight");
  for (const std::string part : {"weight", "bias"}) {
    add(from + "ln_f." + part + " -> model.norm." + part);
    if (o.layers == 0) continue;
    const bool is_weight = part == "weight";
    const std::string to = "model.layers.$LAYER.", across = is_weight ? ", permute=[1,0]" : "";
    const auto q = [&](const char* name) { return to + "self_attn." + name + "_proj." + part; };
    add(at + "ln_1." + part + " -> " + to + "input_layernorm." + part);
    add(at + "ln_2." + part + " -> " + to + "post_attention_layernorm." + part);
    add(at + "attn.c_attn." + part + " -> " + q("q") + ", " + q("k") + ", " + q("v") +
        ", axis=" + (is_weight ? "1" : "0") + across);
    add(at + "attn.c_proj." + part + " -> " + q("o") + across);
    add(at + "mlp.c_fc." + part + " -> " + to + "mlp.up_proj." + part + across);
    add(at + "mlp.c_proj." + part + " -> " + to + "mlp.down_proj." + part + across);
  }
  return out;
}

}  // namespace

nn::CausalLMOptions causal_lm_options(std::string_view config_json, Location where) {
  return from_config(config_json, where, [&](const json& config) { return options_of(config, where); });
}

nn::CausalLM load_causal_lm(const io::Path& folder, const LoadCausalLMOptions& options, Location where) {
  const auto [o, said] = from_config(io::read_file(folder / "config.json", op, where), where, [&](const json& config) {
    return std::pair(options_of(config, where), dtype_named_in(config));
  });
  const io::TensorMap files =
      io::load_sharded(folder, {.dtype = options.dtype, .offload = io::Offload::disk, .prefer_index = true}, where);
  check_layers(files, o, where);
  check_elements(files, o, where);
  nn::CausalLM model = [&] {
    const nn::detail::MemoryBudget budget(elements_of(files), std::ssize(files), op, "config.json", where);
    return nn::CausalLM(o, where);
  }();
  if (const auto dtype = options.dtype ? options.dtype : dtype_of(files, said)) model.to(*dtype, where);
  io::TensorMap own;
  for (const auto& [name, tensor] : model.state_dict()) own.emplace(name, tensor);
  io::load_into(own, files, io::Mapping::parse(mapping_of(files, o), where), true, where);
  model.to(options.device);
  model.eval();
  return model;
}

std::vector<int64_t> end_tokens(const io::Path& folder, Location where) {
  for (const char* file : {"generation_config.json", "config.json"}) {
    const io::Path path = folder / file;
    if (!std::filesystem::exists(path.string())) continue;
    const json config = parsed(path, where);
    const auto found = config.find("eos_token_id");
    if (found == config.end() || found->is_null()) continue;
    try {
      if (found->is_array()) return found->get<std::vector<int64_t>>();
      return {found->get<int64_t>()};
    } catch (const json::exception& error) {
      raise<FormatError>({.op = op, .problem = fmt::format("{}: {}", path.string(), error.what())}, where);
    }
  }
  return {};
}

}  // namespace weft::generate
