#include "../adapter.hpp"

#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../file.hpp"
#include "../files/atomic_folder-inl.hpp"
#include "../files/folder-inl.hpp"
#include "../safetensors.hpp"
#include "../../nn/pattern-inl.hpp"
#include "../../ops/subscript.hpp"

namespace weft::io {

namespace {

using nlohmann::json;

constexpr const char *saving = "save_adapter", *loading = "load_adapter";
constexpr std::string_view weights_file = "adapter_model.safetensors", config_file = "adapter_config.json";
constexpr const char *plus_key = "weft_lora_plus_scale", *enable_key = "weft_enable";

const char* word_for(nn::LoraBias bias) {
  return bias == nn::LoraBias::none ? "none" : bias == nn::LoraBias::all ? "all" : "lora_only";
}

double alpha_of(const nn::LoraOptions& o) { return o.alpha.value_or(static_cast<double>(o.r)); }

// An integer where it is one, as PEFT writes alpha.
json number(double value) {
  const auto whole = static_cast<int64_t>(value);
  return static_cast<double>(whole) == value ? json(whole) : json(value);
}

/// The first layer's options, and in patterns by name what differs from them.
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
  return config;
}

/// What a folder says of its adapters.
struct Saved {
  double alpha = 0, dropout = 0, plus = 1;
  bool rslora = false;
  std::string base = {};
  std::vector<std::pair<nn::detail::Pattern, double>> alphas = {};
  std::map<std::string, std::vector<bool>> enable = {};
};

[[noreturn]] void refuse(const Path& path, const std::string& problem, Location where) {
  raise<FormatError>({.op = loading, .problem = fmt::format("{}: {}", path.string(), problem)}, where);
}

Saved read_config(const Path& path, Location where) {
  const auto given = [](const json& config, const char* key) {
    const auto found = config.find(key);
    return found != config.end() && !found->is_null() && *found != json(false) && !found->empty();
  };
  try {
    const json config = json::parse(read_file(path, loading, where));
    if (config.value("peft_type", "") != "LORA") refuse(path, "its adapters are not LoRA's", where);
    for (const char* key : {"use_dora", "fan_in_fan_out", "modules_to_save"}) {
      if (given(config, key)) refuse(path, fmt::format("\"{}\" is not there yet", key), where);
    }
    Saved out{.alpha = config.at("lora_alpha").get<double>(),
              .dropout = config.value("lora_dropout", 0.),
              .plus = config.value(plus_key, 1.),
              .rslora = config.value("use_rslora", false)};
    if (given(config, "base_model_name_or_path")) out.base = config["base_model_name_or_path"].get<std::string>();
    if (given(config, "alpha_pattern")) {
      for (const auto& [pattern, value] : config["alpha_pattern"].items()) {
        out.alphas.emplace_back(nn::detail::Pattern(loading, "(.*\\.)?(" + pattern + ")", where), value.get<double>());
      }
    }
    if (given(config, enable_key)) out.enable = config[enable_key].get<std::map<std::string, std::vector<bool>>>();
    return out;
  } catch (const json::exception& error) {
    refuse(path, error.what(), where);
  } catch (const ValueError&) {
    refuse(path, "\"alpha_pattern\" has what is no regular expression", where);
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

/// An adapter that the model does not have yet.
struct Wanted {
  std::string name;
  nn::LoraOptions options;
};

/// What layers without an adapter need for the tensors of the file.
class Plan {
 public:
  Plan(const nn::Module& model, const Saved& saved, const TensorMap& tensors, Location where) : saved_(saved) {
    for (const nn::LoraLayer& layer : nn::lora_layers(model)) adapted_.insert(layer.name);
    for (const auto& [name, module] : model.named_modules()) modules_.emplace(name, module);
    for (const auto& [name, tensor] : tensors) {
      if (const auto layer = layer_of(name)) names.insert(*layer);
    }
    for (const std::string& name : names) {
      if (!adapted_.contains(name)) add(name, tensors);
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

  void add(const std::string& name, const TensorMap& tensors) {
    const auto found = modules_.find(name);
    Tensor weight;
    if (found != modules_.end()) {
      for (const auto& [own, tensor] : found->second.named_parameters()) {
        if (own == "weight") weight = tensor;
      }
    }
    if (!weight.defined() || weight.dim() != 2) return note(lacking_, name);
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
    options.alpha = saved_.alpha;
    for (const auto& [pattern, alpha] : saved_.alphas) {
      if (pattern.describes(name)) options.alpha = alpha;
    }
    options.dropout = saved_.dropout;
    options.rslora = saved_.rslora;
    options.lora_plus_scale = saved_.plus;
    if (const auto enable = saved_.enable.find(name); enable != saved_.enable.end()) options.enable = enable->second;
    options.targets = {nn::detail::pattern_of_name(name)};
    const int64_t parts = std::max<int64_t>(1, std::ranges::count(options.enable, true));
    const int64_t of = std::max<int64_t>(1, std::ssize(options.enable));
    const Dims a_wanted{options.r * parts, weight.size(1)}, b_wanted{weight.size(0) / of * parts, options.r};
    const Dims a_is = of_embedding ? Dims{a.size(1), a.size(0)} : a.shape();
    const Dims b_is = of_embedding ? Dims{b.size(1), b.size(0)} : b.shape();
    if (!(a_is == a_wanted) || !(b_is == b_wanted)) {
      return note(misshapen_,
                  fmt::format("{} {}{} for {}{}", name, a_is.text(), b_is.text(), a_wanted.text(), b_wanted.text()));
    }
    wanted.push_back({name, options});
  }

  const Saved& saved_;
  std::set<std::string> adapted_;
  std::map<std::string, nn::Module> modules_;
  std::string lacking_, misshapen_;
};

}  // namespace

void save_adapter(const Path& folder, const nn::Module& model, const SaveAdapterOptions& options, Location where) {
  const std::vector<nn::LoraLayer> layers = nn::lora_layers(model);
  const char* problem = nullptr;
  if (layers.empty()) problem = "the model has no adapter";
  else if (exists(folder) && !exists(folder / config_file)) problem = "the folder is there and is no adapter";
  if (problem != nullptr) raise<ValueError>({.op = saving, .problem = problem, .details = folder.string()}, where);
  AtomicFolder whole(folder, saving, where);
  save_file(nn::lora_state_dict(model, options.bias), whole.temporary() / weights_file, {{"format", "pt"}}, {}, where);
  write_file(whole.temporary() / config_file, config_of(layers, options).dump(2) + "\n", saving, where);
  whole.commit();
}

AdapterInfo load_adapter(const Path& folder, const nn::Module& model, Location where) {
  const Saved saved = read_config(folder / config_file, where);
  const TensorMap tensors = load_file(folder / weights_file, {}, {}, where);
  const Plan plan(model, saved, tensors, where);
  if (plan.names.empty()) refuse(folder / weights_file, "it has no adapter", where);
  // Those that are there are checked before any is added.
  TensorMap present = tensors;
  for (const Wanted& w : plan.wanted)
    std::erase_if(present, [&](const auto& t) { return layer_of(t.first) == w.name; });
  if (!nn::lora_layers(model).empty()) nn::load_lora_state_dict(model, present, where);
  for (const Wanted& w : plan.wanted) nn::apply_lora(model, w.options, where);
  nn::load_lora_state_dict(model, tensors, where);
  return {saved.base, {plan.names.begin(), plan.names.end()}};
}

}  // namespace weft::io
