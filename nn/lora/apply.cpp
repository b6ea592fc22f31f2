#include <map>
#include <unordered_set>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/detail/common.hpp"
#include "../path-inl.hpp"
#include "../pattern-inl.hpp"
#include "low_rank-inl.hpp"

namespace weft::nn {

namespace detail {

namespace {

/// The address of the weight that a module stores as a float tensor; null if there is none.
const TensorImpl* stored_weight_of(const Module& module) {
  const auto* const entry = find_entry(StateAccess::state(module).parameters, "weight");
  return entry == nullptr ? nullptr : entry->tensor.impl();
}

bool is_embedding(const Module& module) { return is_of(module, TypeId::of<Embedding>()); }

/// Whether it is a Linear or an Embedding with a forward that supports adapters.
bool is_adaptable(const Module& module) {
  const bool has_forward = is_of(module, TypeId::of<Linear>()) || is_embedding(module);
  return has_forward && has_weight_matrix(module);
}

/// The new member lists of a module with an adapter, built first so that all modules change at once.
struct Prepared {
  Module module;
  Shared<LowRank> adapter;
  std::vector<std::pair<std::string, Module>> children;
  std::vector<StateAccess::State::Entry> buffers;
  Config config;
  /// The model that gets the layer as a child, with its list of children.
  std::optional<Module> parent = {};
  std::vector<std::pair<std::string, Module>> parents_children = {};

  void commit() {
    StateAccess::State& state = StateAccess::state(module);
    if (parent) {
      state.registered = true;
      StateAccess::state(*parent).children.swap(parents_children);
      StateAccess::state(*parent).changes.note();
    }
    state.forms.get_or_make().adapter.held = adapter;
    state.changes.note();
    if (children.empty()) return;
    StateAccess::state(adapter->a).registered = StateAccess::state(adapter->b).registered = true;
    state.children.swap(children);
    state.buffers.swap(buffers);
    std::swap(state.config, config);
    for (auto& entry : state.parameters) {
      if (entry.name == "weight" || entry.name == "bias") entry.tensor.requires_grad_(false, Location::none());
    }
    for (const ParametrizedTensor& p : parametrized_of(module)) {
      if (p.name == "weight" || p.name == "bias") Module(p.list).requires_grad_(false, Location::none());
    }
  }
};

constexpr const char *rank = "lora_r", *alpha = "lora_alpha", *drop = "lora_dropout", *rslora = "lora_rslora",
                     *plus = "lora_plus_scale", *enable = "lora_enable", *shares = "lora_share",
                     *merges = "lora_merge_on_eval";

LoraOptions read_options(const Config& config) {
  LoraOptions o{.r = config.get<int64_t>(rank)};
  if (config.contains(alpha)) o.alpha = config.get<double>(alpha);
  o.dropout = config.get_or(drop, 0.);
  o.rslora = config.get_or(rslora, false);
  o.lora_plus_scale = config.get_or(plus, 1.);
  if (config.contains(enable)) o.enable = config.get<std::vector<bool>>(enable);
  o.share = config.get_or(shares, true);
  o.merge_on_eval = config.get_or(merges, false);
  return o;
}

Prepared prepared(const Module& module, const Shared<LowRank>& adapter, bool shows, Location where) {
  Prepared p{.module = module, .adapter = adapter, .children = {}, .buffers = {}, .config = {}};
  if (!shows) return p;
  const StateAccess::State& state = StateAccess::state(module);
  for (const char* name : {"lora_A", "lora_B", "lora_merged"}) check_name(name, state.has(name), where);
  p.children = state.children;
  p.children.emplace_back("lora_A", adapter->a);
  p.children.emplace_back("lora_B", adapter->b);
  p.buffers = state.buffers;
  p.buffers.push_back({"lora_merged", adapter->merged_flag, true});
  p.config = state.config;
  write_options(p.config, adapter->options);
  return p;
}

}  // namespace

void write_options(Config& config, const LoraOptions& o) {
  config.set(rank, o.r);
  if (o.alpha) config.set(alpha, *o.alpha);
  if (o.dropout != 0) config.set(drop, o.dropout);
  if (o.rslora) config.set(rslora, true);
  if (o.lora_plus_scale != 1) config.set(plus, o.lora_plus_scale);
  if (!o.enable.empty()) config.set(enable, o.enable);
  if (!o.share) config.set(shares, false);
  if (o.merge_on_eval) config.set(merges, true);
}

bool is_own(const Module& module, const LowRank& adapter) {
  return std::ranges::any_of(StateAccess::state(module).children,
                             [&](const auto& child) { return child.second.same_as(adapter.a); });
}

std::vector<AdaptedLayer> adapters_of(const Module& model) {
  std::vector<AdaptedLayer> out;
  for (const auto& [name, module] : model.named_modules()) {
    LowRank* const adapter = adapter_of(module);
    if (adapter != nullptr && is_own(module, *adapter)) out.push_back({name, module, adapter});
  }
  return out;
}

std::unordered_set<std::string> factor_names(const Module& model) {
  std::unordered_set<std::string> out;
  for (const auto& [name, layer, adapter] : adapters_of(model)) {
    out.insert({joined(name, "lora_A"), joined(name, "lora_B")});
  }
  return out;
}

namespace {

/// The embeddings and heads of models that tie them. Each has an adapter of its own, as in PEFT.
class TiedPairs {
 public:
  explicit TiedPairs(const Module& model) : heads_(tied_heads(model)) {}

  /// The pair of a head or an embedding; null for any other module.
  const TiedHead* pair_of(const Module& module) const {
    const auto found = std::ranges::find_if(
        heads_, [&](const TiedHead& head) { return head.layer.same_as(module) || head.embedding.same_as(module); });
    return found == heads_.end() ? nullptr : &*found;
  }
  /// The pair whose head is to become a child, and has this name.
  const TiedHead* new_head(const std::string& name) const {
    const auto found =
        std::ranges::find_if(heads_, [&](const TiedHead& head) { return head.is_new && head.name == name; });
    return found == heads_.end() ? nullptr : &*found;
  }

 private:
  std::vector<TiedHead> heads_;
};

void check_whole(const LoraTarget& target, const TiedHead* pair, Location where) {
  if (pair == nullptr || sharding_of(pair->embedding) == nullptr) return;
  raise<ValueError>({.op = "LoRA",
                     .problem = is_embedding(target.module) ? "a tied embedding in parts takes no adapter"
                                                            : "a head that is tied to an embedding in parts takes no "
                                                              "adapter",
                     .details = target.name},
                    where);
}

void add_to_parent(Prepared& p, const TiedHead& head) {
  p.parent = head.model;
  p.parents_children = StateAccess::state(head.model).children;
  p.parents_children.emplace_back("lm_head", head.layer);
}

}  // namespace

std::vector<std::string> attach(const Module& model, const std::vector<LoraTarget>& targets, Location where) {
  std::map<const TensorImpl*, Shared<LowRank>> adapters;
  std::vector<Prepared> all;
  std::vector<std::string> names;
  const TiedPairs pairs(model);
  for (const LoraTarget& target : targets) {
    const TiedHead* const new_head = pairs.new_head(target.name);
    const Module& layer = new_head != nullptr ? new_head->layer : target.module;
    const TiedHead* const pair = pairs.pair_of(layer);
    const TensorImpl* const weight = stored_weight_of(layer);
    const bool shares = target.options.share && pair == nullptr && weight != nullptr;
    if (shares && adapters.contains(weight)) continue;
    check_whole(target, pair, where);
    const auto adapter = Shared<LowRank>::make(describe_base(layer, where), target.options, is_embedding(layer),
                                               sharding_of(layer), where);
    adapter->has_others = pair != nullptr;
    if (shares) adapters.emplace(weight, adapter);
    all.push_back(prepared(layer, adapter, true, where));
    if (new_head != nullptr) add_to_parent(all.back(), *new_head);
    names.push_back(target.name);
  }
  const auto named_modules = model.named_modules();
  for (const auto& [name, module] : named_modules) {
    if (!is_adaptable(module) || pairs.pair_of(module) != nullptr) continue;
    const auto found = adapters.find(stored_weight_of(module));
    const bool is_there = std::ranges::any_of(all, [&](const Prepared& p) { return p.module.same_as(module); });
    if (found == adapters.end() || is_there) continue;
    found->second->is_shared = true;
    all.push_back(prepared(module, found->second, false, where));
  }
  for (Prepared& p : all) {
    const TensorImpl* const weight = p.adapter->weight.impl();
    const auto is_other = [&](const auto& named) {
      return weight != nullptr && stored_weight_of(named.second) == weight && !named.second.same_as(p.module);
    };
    if (!p.adapter->options.share) p.adapter->has_others |= std::ranges::any_of(named_modules, is_other);
    p.commit();
  }
  return names;
}

namespace {

/// Makes the sum the weight of a plain layer, without changing tensors that other layers hold.
void keep_sum(const Module& layer, const Tensor& sum) {
  if (code_format_of(layer) != nullptr) return replace_codes(layer, sum);
  if (find_parametrized(layer, "weight") != nullptr) remove_parametrizations(layer, "weight", true, Location::none());
  set_stored(layer, "weight", sum);
}

}  // namespace

void detach(const Module& model) {
  for (const TiedHead& head : tied_heads(model)) {
    const bool is_adapted = adapter_of(head.embedding) != nullptr || adapter_of(head.layer) != nullptr;
    if (is_adapted) untie(head);
  }
  for (const Module& module : model.modules()) {
    StateAccess::State& state = StateAccess::state(module);
    if (adapter_of(module) == nullptr) continue;
    const Shared<LowRank> adapter = std::exchange(state.forms.get()->adapter.held, {});
    state.forms.drop_if_empty();
    if (!is_own(module, *adapter)) continue;
    std::erase_if(state.children, [](const auto& child) { return child.first == "lora_A" || child.first == "lora_B"; });
    std::erase_if(state.buffers, [](const auto& entry) { return entry.name == "lora_merged"; });
    for (const char* name : {rank, alpha, drop, rslora, plus, enable, shares, merges}) state.config.remove(name);
    if (adapter->own_sum.defined()) keep_sum(module, adapter->own_sum);
  }
}

void attach_described(const ModuleDescription& description, const Module& model, Location where) {
  const auto modules = layers_for_adapters(model);
  std::vector<LoraTarget> targets;
  const auto walk = [&](const auto& self, const ModuleDescription& d, const std::string& path) -> void {
    const auto found = std::ranges::find(modules, path, [](const auto& m) { return m.first; });
    if (d.config.contains(rank) && found != modules.end() && is_adaptable(found->second) &&
        adapter_of(found->second) == nullptr) {
      targets.push_back({path, found->second, read_options(d.config)});
    }
    for (const ModuleDescription& child : d.children) self(self, child, joined(path, child.name));
  };
  walk(walk, description, "");
  attach(model, targets, where);
}

std::unordered_map<const TensorImpl*, const LowRank*> merged_adapters(const Module& model) {
  std::unordered_map<const TensorImpl*, const LowRank*> out;
  for (const auto& module : model.modules()) {
    const LowRank* adapter = adapter_of(module);
    if (adapter != nullptr && adapter->replaces_weight()) out.emplace(adapter->weight.impl(), adapter);
  }
  return out;
}

SuspendedMerges::SuspendedMerges(const Module& model) : adapters_(adapters_of(model)) {
  for (const auto& [name, layer, adapter] : adapters_) {
    if (!adapter->merged) continue;
    merged_before_.push_back(adapter);
    adapter->unmerge(Location::none());
  }
}

void SuspendedMerges::resume(const StateDict& loaded) const {
  for (const auto& [name, layer, adapter] : adapters_) {
    const bool was = std::ranges::find(merged_before_, adapter) != merged_before_.end();
    const bool says = loaded.contains(joined(name, "lora_merged")) ? adapter->merged_flag.item<bool>() : was;
    if (says) adapter->merge(layer, Location::none());
  }
}

}  // namespace detail

using detail::adapters_of;

namespace {

void require_adapters(const char* op, const Module& model, Location where) {
  if (!adapters_of(model).empty()) return;
  raise<ValueError>({.op = op, .problem = "the model has no adapter", .remedy = "apply_lora(model, ...) first"}, where);
}

/// Whether PEFT wraps the layer as a base_layer.
bool is_wrapped(const Module& module) {
  const detail::LowRank* const adapter = detail::adapter_of(module);
  return adapter != nullptr && detail::is_own(module, *adapter);
}

/// Calls f(path, layer, name, tensor) for the biases that `bias` selects.
template <class F>
void each_bias(const Module& model, LoraBias bias, F&& f) {
  if (bias == LoraBias::none) return;
  for (const auto& [path, module] : model.named_modules()) {
    if (bias == LoraBias::lora_only && detail::adapter_of(module) == nullptr) continue;
    for (const auto& entry : detail::StateAccess::state(module).parameters) {
      if (entry.name.ends_with("bias")) f(path, module, entry.name, entry.tensor);
    }
  }
}

std::unordered_set<const TensorImpl*> adapter_tensors(const Module& model) {
  std::unordered_set<const TensorImpl*> out;
  for (const auto& [name, layer, adapter] : adapters_of(model)) {
    out.insert({adapter->a.weight.impl(), adapter->b.weight.impl()});
  }
  return out;
}

}  // namespace

std::vector<std::string> apply_lora(const Module& model, const LoraOptions& options, Location where) {
  std::vector<detail::Pattern> patterns;
  for (const std::string& target : options.targets) patterns.emplace_back("apply_lora", target, where);
  std::vector<detail::LoraTarget> targets;
  const std::unordered_set<std::string> factors = detail::factor_names(model),
                                        read_by_others = detail::layers_without_forms(model);
  for (const auto& [path, module] : detail::layers_for_adapters(model)) {
    const std::string& name = path;
    const auto finds = [&](const detail::Pattern& pattern) { return pattern.finds(name); };
    if (!detail::is_adaptable(module) || detail::adapter_of(module) != nullptr || factors.contains(name)) continue;
    if (!std::ranges::any_of(patterns, finds)) continue;
    if (read_by_others.contains(name)) {
      raise<ValueError>(
          {.op = "apply_lora",
           .problem = fmt::format("\"{}\" takes no adapter: MultiheadAttention reads its weight itself", name),
           .remedy = "targets that do not find it, or SelfAttention"},
          where);
    }
    targets.push_back({name, module, options});
  }
  if (targets.empty()) {
    raise<ValueError>({.op = "apply_lora",
                       .problem = "the targets find no Linear or Embedding without an adapter",
                       .remedy = "named_modules() has the names that the regular expressions are to find"},
                      where);
  }
  return detail::attach(model, targets, where);
}

std::vector<LoraLayer> lora_layers(const Module& model) {
  std::vector<LoraLayer> out;
  for (const auto& [name, layer, l] : adapters_of(model)) {
    out.push_back({name, l->options, l->scale(), l->merged, l->a.weight, l->b.weight, l->of_embedding});
  }
  return out;
}

void merge_lora(const Module& model, Location where) {
  require_adapters("merge_lora", model, where);
  for (const auto& [name, layer, adapter] : adapters_of(model)) adapter->merge(layer, where);
}

void unmerge_lora(const Module& model, Location where) {
  require_adapters("unmerge_lora", model, where);
  for (const auto& [name, layer, adapter] : adapters_of(model)) adapter->unmerge(where);
}

void merge_and_unload_lora(const Module& model, Location where) {
  merge_lora(model, where);
  detail::detach(model);
}

bool is_lora_merged(const Module& model) {
  return std::ranges::any_of(adapters_of(model), [](const auto& adapted) { return adapted.adapter->merged; });
}

void mark_only_lora_trainable(const Module& model, LoraBias bias, Location where) {
  require_adapters("mark_only_lora_trainable", model, where);
  std::unordered_set<const TensorImpl*> trained = adapter_tensors(model);
  each_bias(model, bias, [&](const auto&, const auto&, const auto&, const Tensor& t) { trained.insert(t.impl()); });
  for (const Tensor& p : model.parameters()) p.requires_grad_(trained.contains(p.impl()), where);
}

std::vector<Tensor> lora_parameters(const Module& model) {
  std::vector<Tensor> out = model.parameters();
  std::erase_if(out, [](const Tensor& p) { return !p.requires_grad(); });
  return out;
}

std::vector<LoraGroup> lora_parameter_groups(const Module& model, double lr, Location where) {
  std::map<const TensorImpl*, double> scales;
  for (const auto& [name, layer, adapter] : adapters_of(model)) {
    scales.emplace(adapter->b.weight.impl(), adapter->options.lora_plus_scale);
  }
  std::vector<LoraGroup> groups = {{{}, lr}};
  for (const Tensor& p : lora_parameters(model)) {
    const auto found = scales.find(p.impl());
    const double own = lr * (found == scales.end() ? 1 : found->second);
    auto group = std::ranges::find(groups, own, &LoraGroup::lr);
    if (group == groups.end()) group = groups.insert(group, {{}, own});
    group->parameters.push_back(p);
  }
  std::erase_if(groups, [](const LoraGroup& g) { return g.parameters.empty(); });
  if (groups.empty()) {
    raise<ValueError>({.op = "lora_parameter_groups", .problem = "no parameter of the model requires a gradient"},
                      where);
  }
  return groups;
}

// ---- adapters alone -------------------------------------------------------------------------------------------------

namespace {

constexpr const char* prefix = "base_model.model.";

struct Stored {
  std::string name;
  Tensor tensor;
  bool transposed = false;
  /// The value as stored in a file.
  Tensor value() const { return transposed ? tensor.detach().t().contiguous() : tensor.detach(); }
};

std::vector<Stored> stored_adapters(const Module& model) {
  std::vector<Stored> out;
  for (const auto& [name, layer, adapter] : adapters_of(model)) {
    const std::string path = prefix + (name.empty() ? "" : name + ".");
    if (adapter->of_embedding) {
      out.push_back({path + "lora_embedding_A", adapter->b.weight, true});
      out.push_back({path + "lora_embedding_B", adapter->a.weight, true});
    } else {
      out.push_back({path + "lora_A.weight", adapter->a.weight, false});
      out.push_back({path + "lora_B.weight", adapter->b.weight, false});
    }
  }
  return out;
}

std::vector<Stored> stored_biases(const Module& model, LoraBias bias) {
  std::vector<Stored> out;
  each_bias(model, bias,
            [&](const std::string& path, const Module& layer, const std::string& name, const Tensor& tensor) {
              const std::string own = is_wrapped(layer) ? detail::joined(path, "base_layer") : path;
              out.push_back({prefix + detail::joined(own, name), tensor});
            });
  return out;
}

/// Optional entries of a file: weights of adapted layers, and biases of adapted layers under their own names.
std::vector<Stored> stored_bases(const Module& model) {
  std::vector<Stored> out;
  for (const auto& [path, module] : model.named_modules()) {
    if (!is_wrapped(module)) continue;
    for (const auto& entry : detail::StateAccess::state(module).parameters) {
      if (entry.name == "weight") out.push_back({prefix + detail::joined(path, "base_layer.weight"), entry.tensor});
      if (entry.name == "bias") out.push_back({prefix + detail::joined(path, "bias"), entry.tensor});
    }
  }
  return out;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (out.size() > 400) return out + ", …";
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

std::vector<std::pair<Tensor, Tensor>> matched(const Module& model, const StateDict& values, Location where) {
  std::vector<std::string> misshapen, wrong;
  std::vector<std::pair<Tensor, Tensor>> out;
  std::unordered_set<std::string> known;
  const auto match = [&](const Stored& own, bool required) {
    known.insert(own.name);
    const auto found = values.find(own.name);
    if (found == values.end()) {
      if (required) wrong.push_back(own.name + " is missing");
      return;
    }
    const Tensor& value = checked(found->second, "load_lora_state_dict", where);
    const Dims shape = own.transposed ? own.tensor.t().shape() : own.tensor.shape();
    if (!(value.shape() == shape)) {
      misshapen.push_back(fmt::format("{} {} for {}", own.name, value.shape().text(), shape.text()));
    } else {
      out.emplace_back(own.tensor.detach(), own.transposed ? value.t() : value);
    }
  };
  for (const Stored& own : stored_adapters(model)) match(own, true);
  for (const Stored& own : stored_biases(model, LoraBias::all)) match(own, false);
  for (const Stored& own : stored_bases(model)) match(own, false);
  for (const auto& [name, value] : values) {
    if (!known.contains(name)) wrong.push_back(name + " is not there");
  }
  if (!misshapen.empty()) {
    raise<ShapeError>({.op = "load_lora_state_dict",
                       .problem = "the adapters have other shapes than the model's",
                       .details = listed(misshapen)},
                      where);
  }
  if (!wrong.empty()) {
    raise<ValueError>({.op = "load_lora_state_dict",
                       .problem = "the adapters are those of other layers than the model's",
                       .details = listed(wrong)},
                      where);
  }
  return out;
}

}  // namespace

StateDict lora_state_dict(const Module& model, LoraBias bias) {
  StateDict out;
  for (const Stored& own : stored_adapters(model)) out.emplace(own.name, own.value());
  for (const Stored& own : stored_biases(model, bias)) out.emplace(own.name, own.value());
  return out;
}

void load_lora_state_dict(const Module& model, const StateDict& values, Location where) {
  require_adapters("load_lora_state_dict", model, where);
  auto copies = matched(model, values, where);
  const CallScope call("load_lora_state_dict", where);
  const NoGradGuard unrecorded;
  for (auto& [own, value] : copies) value = value.to(own.device());
  const detail::SuspendedMerges merged(model);
  for (const auto& [own, value] : copies) own.copy_(value);
  merged.resume({});
}

}  // namespace weft::nn
