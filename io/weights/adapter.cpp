#include "../adapter.hpp"

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../file.hpp"
#include "../files/atomic_folder-inl.hpp"
#include "../files/folder-inl.hpp"
#include "../safetensors.hpp"
#include "../../nn/lora/low_rank-inl.hpp"
#include "../../nn/pattern-inl.hpp"
#include "../../ops/subscript.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::io {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char *saving = "save_adapter", *loading = "load_adapter";
constexpr std::string_view weights_file = "adapter_model.safetensors", config_file = "adapter_config.json";
constexpr const char *plus_key = "weft_lora_plus_scale", *enable_key = "weft_enable", *share_key = "weft_share";

const char* word_for(nn::LoraBias bias) {
  return bias == nn::LoraBias::none ? "none" : bias == nn::LoraBias::all ? "all" : "lora_only";
}

double alpha_of(const nn::LoraOptions& o) { return o.alpha.value_or(static_cast<double>(o.r)); }

// PEFT writes alpha as an integer if it is one.
json number(double value) {
  const auto whole = static_cast<int64_t>(value);
  return static_cast<double>(whole) == value ? json(whole) : json(value);
}

/// The first layer's options; different options of other layers are stored as patterns by name.
json config_of(const std::vector<nn::LoraLayer>& layers, const SaveAdapterOptions& options) {
  const nn::LoraOptions& first = layers[0].options;
  json names = json::array(), ranks = json::object(), alphas = json::object(), parts = json::object();
  for (const nn::LoraLayer& layer : layers) {
    names.push_back(layer.name);
    if (layer.options.r != first.r) ranks[layer.name] = layer.options.r;
    if (alpha_of(layer.options) != alpha_of(first)) alphas[layer.name] = number(alpha_of(layer.options));
    if (!layer.options.enable.empty()) parts[layer.name] = layer.options.enable;
  }
  json config = {{"peft_type", "LORA"},
                 {"task_type", nullptr},
                 {"base_model_name_or_path", options.base.empty() ? json() : json(options.base)},
                 {"r", first.r},
                 {"lora_alpha", number(alpha_of(first))},
                 {"lora_dropout", first.dropout},
                 {"use_rslora", first.rslora},
                 {"use_dora", false},
                 {"bias", word_for(options.bias)},
                 {"fan_in_fan_out", false},
                 {"inference_mode", true},
                 {"init_lora_weights", true},
                 {"target_modules", names},
                 {"modules_to_save", nullptr},
                 {"layers_to_transform", nullptr},
                 {"layers_pattern", nullptr},
                 {"rank_pattern", ranks},
                 {"alpha_pattern", alphas}};
  if (first.lora_plus_scale != 1) config[plus_key] = first.lora_plus_scale;
  if (!parts.empty()) config[enable_key] = parts;
  if (!first.share) config[share_key] = false;
  return config;
}

/// Values by layer pattern; the first matching pattern wins.
template <class T>
struct ByPattern {
  T otherwise;
  std::vector<std::pair<nn::detail::Pattern, T>> values = {};

  T of(const std::string& layer) const {
    for (const auto& [pattern, value] : values) {
      if (pattern.describes(layer)) return value;
    }
    return otherwise;
  }
};

struct Saved {
  ByPattern<int64_t> rank;
  ByPattern<double> alpha;
  double dropout = 0, plus = 1;
  bool rslora = false, share = true;
  std::string base = {};
  std::map<std::string, std::vector<bool>> enable = {};
};

/// Keys that are read below or do not affect the computation.
constexpr std::string_view known_keys[] = {
    "peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "rank_pattern", "alpha_pattern", "bias",
    "base_model_name_or_path", plus_key, enable_key, share_key,
    // The layers and their names follow from the weights file.
    "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "task_type", "revision",
    "inference_mode", "auto_mapping", "peft_version", "runtime_config",
    // Settings of rejected options, or of distributed training.
    "qalora_group_size", "megatron_core", "init_lora_weights"};
/// Prefixes of init_lora_weights that leave the base weights unchanged.
constexpr std::string_view known_beginnings[] = {"gaussian", "orthogonal"};

bool says_nothing(const ordered_json& value) {
  return value.is_null() || value == ordered_json(false) || (value.is_structured() && value.empty());
}

[[noreturn]] void refuse(const Path& path, const std::string& problem, Location where) {
  raise<FormatError>({.op = loading, .problem = fmt::format("{}: {}", path.string(), problem)}, where);
}

/// Rejects, by name, options that would change the computation.
void check_known(const ordered_json& config, const Path& path, Location where) {
  const auto refuse_value = [&](const std::string& key, const ordered_json& value) {
    std::string text = value.dump();
    if (text.size() > 100) text = text.substr(0, 100) + "…";
    refuse(path, fmt::format("\"{}\": {} is not there yet", key, text), where);
  };
  for (const auto& [key, value] : config.items()) {
    if (std::ranges::find(known_keys, key) == std::end(known_keys) && !says_nothing(value)) refuse_value(key, value);
  }
  if (const auto begins = config.find("init_lora_weights"); begins != config.end() && !begins->is_null()) {
    const std::string word = begins->is_string() ? begins->get<std::string>() : "";
    const bool is_known = std::ranges::find(known_beginnings, word) != std::end(known_beginnings);
    if (!begins->is_boolean() && !is_known) refuse_value("init_lora_weights", *begins);
  }
  const std::string bias = config.value("bias", "none");
  if (bias != "none" && bias != "all" && bias != "lora_only") refuse_value("bias", config["bias"]);
}

template <class T>
void read_patterns(const ordered_json& config, const char* key, ByPattern<T>& out, const Path& path, Location where) {
  const auto found = config.find(key);
  if (found == config.end() || says_nothing(*found)) return;
  try {
    for (const auto& [pattern, value] : found->items()) {
      out.values.emplace_back(nn::detail::Pattern(loading, "(.*\\.)?(" + pattern + ")", where),
                              value.template get<T>());
    }
  } catch (const ValueError&) {
    refuse(path, fmt::format("\"{}\" has an invalid regular expression", key), where);
  }
}

Saved read_config(const Path& path, Location where) {
  try {
    const ordered_json config = ordered_json::parse(read_file(path, loading, where));
    if (config.value("peft_type", "") != "LORA") refuse(path, "its adapters are not LoRA's", where);
    check_known(config, path, where);
    const bool is_pefts = config.contains("auto_mapping") || config.contains("peft_version");
    Saved out{.rank = {config.value("r", int64_t{0})},
              .alpha = {config.at("lora_alpha").get<double>()},
              .dropout = config.value("lora_dropout", 0.),
              .plus = config.value(plus_key, 1.),
              .rslora = config.value("use_rslora", false),
              .share = config.value(share_key, !is_pefts)};
    if (const auto base = config.find("base_model_name_or_path"); base != config.end() && base->is_string()) {
      out.base = base->get<std::string>();
    }
    read_patterns(config, "rank_pattern", out.rank, path, where);
    read_patterns(config, "alpha_pattern", out.alpha, path, where);
    if (const auto parts = config.find(enable_key); parts != config.end()) {
      out.enable = parts->get<std::map<std::string, std::vector<bool>>>();
    }
    return out;
  } catch (const json::exception& error) {
    refuse(path, error.what(), where);
  }
}

/// "blocks.0.up" of "base_model.model.blocks.0.up.lora_A.weight"; nothing for a bias.
std::optional<std::string> layer_of(std::string name) {
  constexpr std::string_view prefix = "base_model.model.";
  for (const std::string_view suffix : {"lora_A.weight", "lora_B.weight", "lora_embedding_A", "lora_embedding_B"}) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    return name.ends_with('.') ? name.substr(0, name.size() - 1) : name;
  }
  return {};
}

struct Wanted {
  std::string name;
  nn::LoraOptions options;
};

class Plan {
 public:
  Plan(const nn::Module& model, const Saved& saved, const TensorMap& tensors, Location where) : saved_(saved) {
    for (const nn::LoraLayer& layer : nn::lora_layers(model)) adapted_.emplace(layer.name, layer);
    for (const auto& [name, module] : nn::detail::layers_for_adapters(model)) modules_.emplace(name, module);
    for (const auto& [name, tensor] : tensors) {
      if (const auto layer = layer_of(name)) names.insert(*layer);
    }
    for (const std::string& name : names) {
      if (const auto own = adapted_.find(name); own == adapted_.end()) add(name, tensors);
      else compare(own->second);
    }
    if (!misscaled_.empty()) {
      raise<ValueError>(
          {.op = loading, .problem = "the model's adapters have another scale than the file's", .details = misscaled_},
          where);
    }
    if (!lacking_.empty()) {
      raise<ValueError>(
          {.op = loading, .problem = "the model has no Linear or Embedding of these names", .details = lacking_},
          where);
    }
    if (!misshapen_.empty()) {
      raise<ShapeError>(
          {.op = loading, .problem = "the adapters have other shapes than the model's layers", .details = misshapen_},
          where);
    }
  }

  std::set<std::string> names;
  std::vector<Wanted> wanted;

 private:
  static void note(std::string& list, const std::string& text) {
    if (list.size() < 400) list += (list.empty() ? "" : ", ") + text;
  }

  void compare(const nn::LoraLayer& own) {
    // raises ShapeError later
    if (const int64_t said = saved_.rank.of(own.name); said != 0 && said != own.options.r) return;
    const auto rank = static_cast<double>(own.options.r);
    const double scale = saved_.alpha.of(own.name) / (saved_.rslora ? std::sqrt(rank) : rank);
    if (own.scale != scale) note(misscaled_, mismatch_text(own.name, scale, own.scale));
  }

  void add(const std::string& name, const TensorMap& tensors) {
    const auto found = modules_.find(name);
    if (found == modules_.end() || !nn::detail::has_weight_matrix(found->second)) return note(lacking_, name);
    const Dims weight = nn::detail::describe_base(found->second, Location::none()).shape;
    const std::string path = "base_model.model." + (name.empty() ? "" : name + ".");
    const auto part = [&](const char* suffix) {
      const auto t = tensors.find(path + suffix);
      return t == tensors.end() ? Tensor() : t->second;
    };
    const bool of_embedding = part("lora_embedding_A").defined();
    const Tensor a = part(of_embedding ? "lora_embedding_B" : "lora_A.weight");
    const Tensor b = part(of_embedding ? "lora_embedding_A" : "lora_B.weight");
    if (!a.defined() || !b.defined() || a.dim() != 2 || b.dim() != 2) return note(misshapen_, name + " is incomplete");
    nn::LoraOptions options{.r = of_embedding ? a.size(1) : b.size(1)};
    if (const int64_t rank = saved_.rank.of(name); rank != 0 && rank != options.r) {
      return note(misshapen_, fmt::format("{} has rank {}, its config says {}", name, options.r, rank));
    }
    options.alpha = saved_.alpha.of(name);
    options.share = saved_.share;
    options.dropout = saved_.dropout;
    options.rslora = saved_.rslora;
    options.lora_plus_scale = saved_.plus;
    if (const auto enable = saved_.enable.find(name); enable != saved_.enable.end()) options.enable = enable->second;
    options.targets = {nn::detail::pattern_of_name(name)};
    const int64_t parts = std::max<int64_t>(1, std::ranges::count(options.enable, true));
    const int64_t of = std::max<int64_t>(1, std::ssize(options.enable));
    const Dims a_wanted{options.r * parts, weight[1]}, b_wanted{weight[0] / of * parts, options.r};
    const Dims a_is = of_embedding ? Dims{a.size(1), a.size(0)} : a.shape();
    const Dims b_is = of_embedding ? Dims{b.size(1), b.size(0)} : b.shape();
    if (!(a_is == a_wanted) || !(b_is == b_wanted)) {
      return note(misshapen_,
                  fmt::format("{} {}{} for {}{}", name, a_is.text(), b_is.text(), a_wanted.text(), b_wanted.text()));
    }
    wanted.push_back({name, options});
  }

  const Saved& saved_;
  std::map<std::string, nn::LoraLayer> adapted_;
  std::map<std::string, nn::Module> modules_;
  std::string lacking_, misshapen_, misscaled_;
};

}  // namespace

void save_adapter(const Path& folder, const nn::Module& model, const SaveAdapterOptions& options, Location where) {
  const std::vector<nn::LoraLayer> layers = nn::lora_layers(model);
  const char* problem = nullptr;
  if (layers.empty()) problem = "the model has no adapter";
  else if (exists(folder) && !is_empty_folder(folder, saving, where) && !exists(folder / config_file))
    problem = "the folder is there and is no adapter";
  if (problem != nullptr) raise<ValueError>({.op = saving, .problem = problem, .details = folder.string()}, where);
  AtomicFolder whole(folder, saving, where);
  save_file(nn::lora_state_dict(model, options.bias), whole.temporary() / weights_file, {{"format", "pt"}}, {}, where);
  write_file(whole.temporary() / config_file, config_of(layers, options).dump(2) + "\n", saving, where);
  whole.commit();
}

AdapterInfo load_adapter(const Path& folder, const nn::Module& model, Location where) {
  const ReadScope reading;
  const Saved saved = read_config(folder / config_file, where);
  const TensorMap tensors = load_file(folder / weights_file, {}, {}, where);
  const Plan plan(model, saved, tensors, where);
  if (plan.names.empty()) refuse(folder / weights_file, "it has no adapter", where);
  // Check the existing adapters before any is added.
  TensorMap present = tensors;
  for (const Wanted& w : plan.wanted)
    std::erase_if(present, [&](const auto& t) { return layer_of(t.first) == w.name; });
  if (!nn::lora_layers(model).empty()) nn::load_lora_state_dict(model, present, where);
  for (const Wanted& w : plan.wanted) nn::apply_lora(model, w.options, where);
  nn::load_lora_state_dict(model, tensors, where);
  reading.check(loading, where);
  return {saved.base, {plan.names.begin(), plan.names.end()}};
}

}  // namespace weft::io
