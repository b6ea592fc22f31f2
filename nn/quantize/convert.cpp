#include <algorithm>
#include <functional>
#include <unordered_set>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/detail/autocast.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/matmul.hpp"
#include "../../tensor/expect-inl.hpp"
#include "../lora/low_rank-inl.hpp"
#include "../module_state-inl.hpp"
#include "../parametrize.hpp"
#include "../pattern-inl.hpp"
#include "../quantize.hpp"

namespace weft::nn {

namespace detail {

namespace {

using State = StateAccess::State;
Tensor tensor_of(const std::vector<State::Entry>& entries, std::string_view name) {
  const State::Entry* const entry = find_entry(entries, name);
  return entry == nullptr ? Tensor() : Tensor(entry->tensor);
}
/// Converts to f32, because Module::to may have rounded it.
Tensor in_f32(const Tensor& t) { return t.defined() && t.dtype() != DType::f32 ? t.to(DType::f32) : t; }

QuantizedLinearOptions options_of(const CodeFormat& format, const State& state) {
  QuantizedLinearOptions options{.bits = format.bits, .group_size = format.group_size};
  if (const Tensor zero = tensor_of(state.buffers, "zero"); zero.defined()) options.zero = in_f32(zero);
  return options;
}

/// x, in the dtype of autocast.
Tensor lowered(const Tensor& x) { return autocasting() ? weft::detail::lowered(checked(x)) : checked(x); }

}  // namespace

const CodeFormat* code_format_of(const Module& layer) {
  const WeightForms* const forms = forms_of(layer);
  return forms == nullptr ? nullptr : dynamic_cast<const CodeFormat*>(forms->format.get());
}

Tensor CodeFormat::linear(const Module& layer, const Tensor& given, const Tensor&, const Tensor& bias,
                          Location where) const {
  const CallScope call("QuantizedLinear", where);
  const State& state = StateAccess::state(layer);
  const Tensor x = lowered(given);
  QuantizedLinearOptions options = options_of(*this, state);
  if (bias.defined()) options.bias = bias.to(x.dtype());
  return quantized_linear(x, tensor_of(state.buffers, "codes"), in_f32(tensor_of(state.buffers, "scale")), options);
}

Tensor CodeFormat::linear_merged(const Tensor& given, const Tensor& weight, const Tensor& bias, Location where) const {
  const CallScope call("QuantizedLinear", where);
  const Tensor x = lowered(given);
  return weft::linear(x, weight.to(x.dtype()), bias.defined() ? bias.to(x.dtype()) : bias);
}

BaseWeight CodeFormat::describe(const Module& layer) const {
  const State& state = StateAccess::state(layer);
  const Tensor codes = tensor_of(state.buffers, "codes"), bias = tensor_of(state.parameters, "bias");
  const DType dtype = bias.defined() ? bias.dtype() : tensor_of(state.buffers, "scale").dtype();
  return {Dims{codes.size(0), columns}, dtype, codes.device(), {}};
}

Tensor CodeFormat::decoded(const Module& layer, Location where) const {
  const State& state = StateAccess::state(layer);
  return dequantize_weight(tensor_of(state.buffers, "codes"), in_f32(tensor_of(state.buffers, "scale")), columns,
                           options_of(*this, state), describe(layer).dtype, where);
}

CodeFormat CodeFormat::shard(int count) const {
  const int64_t own = columns / count;
  const bool has_whole_groups = !shards_scales(1) || own % group_size == 0;
  if (columns % count == 0 && has_whole_groups && (bits == 8 || own % 2 == 0)) return {bits, group_size, own};
  raise<ValueError>({.problem = fmt::format("{} ranks do not divide {} columns of codes into whole groups of {}", count,
                                            columns, group_size)});
}

void replace_codes(const Module& layer, const Tensor& weight) {
  State& state = StateAccess::state(layer);
  std::erase_if(state.buffers, [](const auto& entry) { return is_of_codes(entry.name); });
  for (const char* name : {"bits", "group_size", "symmetric"}) state.config.remove(name);
  if (state.class_name == "QuantizedLinear") state.class_name = "Linear";
  state.forms.get()->format = nullptr;
  state.forms.drop_if_empty();
  set_stored(layer, "weight", weight);
}

namespace {

/// Whether it is a Linear with a float weight that is computed in its own dtype.
bool is_convertible(const Module& module) {
  const WeightForms* const forms = forms_of(module);
  const bool has_format = forms != nullptr && forms->format != nullptr;
  return is_of(module, TypeId::of<Linear>()) && !has_format && has_weight_matrix(module);
}

/// The matching layers that are exactly of class Linear.
std::vector<std::pair<std::string, Module>> found(const char* op, const Module& model,
                                                  const std::vector<std::string>& targets, Location where) {
  std::vector<Pattern> patterns;
  for (const std::string& target : targets) patterns.emplace_back(op, target, where);
  std::vector<std::pair<std::string, Module>> out;
  const std::unordered_set<std::string> read_by_others = layers_without_forms(model), factors = factor_names(model);
  for (const auto& [path, module] : model.named_modules()) {
    const std::string& name = path;
    if (read_by_others.contains(name) || factors.contains(name)) continue;
    const auto finds = [&](const Pattern& pattern) { return pattern.finds(name); };
    if (!is_convertible(module) || !(patterns.empty() || std::ranges::any_of(patterns, finds))) continue;
    out.emplace_back(name, module);
  }
  if (!out.empty()) return out;
  raise<ValueError>({.op = op,
                     .problem = "the targets find no Linear",
                     .remedy = "named_modules() has the names that the regular expressions are to find"},
                    where);
}

/// The buffers that replace a layer's weight.
struct Prepared {
  Module module;
  std::vector<State::Entry> parameters, buffers;
  Config config;
  Shared<const WeightFormat> format;
  Tensor weight, none;
  bool frees = true;

  void commit() {
    State& state = StateAccess::state(module);
    state.parameters.swap(parameters);
    state.buffers.swap(buffers);
    std::swap(state.config, config);
    state.class_name = "QuantizedLinear";
    state.replaced |= state.registered;
    WeightForms& forms = state.forms.get_or_make();
    forms.format = format;
    if (forms.adapter.held != nullptr) forms.adapter.held->weight = {};
    state.changes.note();
    if (!frees) return;
    weight.set_grad({});
    exchange_memory(weight, none);
  }
};

/// Raises ValueError if the shard of a group would get a scale of its own.
void check_groups(const char* op, const Module& module, const CodeFormat& format, Location where) {
  const ShardedLayer* const sharding = sharding_of(module);
  if (sharding == nullptr || sharding->count == 1 || sharding->shard_dim("weight") != 1) return;
  if (format.group_size > 0 && format.columns % format.group_size == 0) return;
  raise<ValueError>(
      {.op = op,
       .problem = mismatch_text("group_size", fmt::format("a divisor of the {} columns of a shard", format.columns),
                                format.group_size),
       .remedy = "quantize the layer before it is sharded"},
      where);
}

Prepared prepared(const Module& module, const std::string& name, const WeightQuantOptions& options, Location where) {
  check_form("quantize", module, name, Form::codes, where);
  const State& state = StateAccess::state(module);
  Prepared p{module, state.parameters, state.buffers, state.config, {}, {}, {}};
  const auto weight = std::ranges::find(p.parameters, "weight", &State::Entry::name);
  p.weight = weight->tensor;
  const auto format = Shared<CodeFormat>::make(options.bits, options.group_size, p.weight.size(1));
  check_groups("quantize", module, *format, where);
  p.format = format;
  p.none = make(Dims{0, p.weight.size(1)}, p.weight.dtype(), p.weight.device());
  const QuantizedWeight w = quantize_weight(p.weight, options, where);
  p.parameters.erase(weight);
  std::vector<State::Entry> codes{{"codes", Buffer(w.codes, where), true}, {"scale", Buffer(w.scale, where), true}};
  if (!options.symmetric) codes.push_back({"zero", Buffer(w.zero, where), true});
  // Before the flag of an adapter, so that the order of conversions does not matter to model files.
  p.buffers.insert(std::ranges::find(p.buffers, "lora_merged", &State::Entry::name), codes.begin(), codes.end());
  p.config.set("bits", options.bits);
  p.config.set("group_size", options.group_size);
  p.config.set("symmetric", options.symmetric);
  return p;
}

}  // namespace

}  // namespace detail

QuantizedLinear::QuantizedLinear(int64_t in, int64_t out, const WeightQuantOptions& options, bool bias, Location where)
    : Linear(in, out, bias, where) {
  detail::prepared(*this, "", options, where).commit();
}

namespace {

/// Keeps weights that other modules also hold.
void keep_shared(const Module& model, std::vector<detail::Prepared>& all) {
  for (const Module& module : model.modules()) {
    if (std::ranges::any_of(all, [&](const auto& p) { return p.module.same_as(module); })) continue;
    for (const auto& entry : detail::StateAccess::state(module).parameters) {
      for (detail::Prepared& p : all) p.frees = p.frees && p.weight.impl() != entry.tensor.impl();
    }
  }
}

}  // namespace

std::vector<std::string> quantize(const Module& model, const QuantizeOptions& options, Location where) {
  std::vector<detail::Prepared> all;
  std::vector<std::string> names;
  for (const auto& [name, module] : detail::found("quantize", model, options.targets, where)) {
    all.push_back(detail::prepared(module, name, {options.bits, options.group_size, options.symmetric}, where));
    names.push_back(name);
  }
  keep_shared(model, all);
  for (detail::Prepared& p : all) p.commit();
  return names;
}

namespace {

void make_fp8(const Module& module) {
  detail::State& state = detail::StateAccess::state(module);
  state.forms.get_or_make().format = Shared<detail::Fp8Format>::make();
  state.class_name = "Fp8Linear";
  state.replaced |= state.registered;
  state.changes.note();
}

}  // namespace

Fp8Linear::Fp8Linear(int64_t in, int64_t out, bool bias, Location where) : Linear(in, out, bias, where) {
  make_fp8(*this);
}

std::vector<std::string> convert_to_fp8(const Module& model, const std::vector<std::string>& targets, Location where) {
  std::vector<std::string> names;
  for (const auto& [name, module] : detail::found("convert_to_fp8", model, targets, where)) {
    make_fp8(module);
    names.push_back(name);
  }
  return names;
}

}  // namespace weft::nn
