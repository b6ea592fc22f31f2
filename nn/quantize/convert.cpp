#include <algorithm>
#include <functional>
#include <unordered_set>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/detail/autocast.hpp"
#include "../../ops/detail/common.hpp"
#include "../attention.hpp"
#include "../layer_in_parts-inl.hpp"
#include "../module_state-inl.hpp"
#include "../path-inl.hpp"
#include "../parametrize.hpp"
#include "../pattern-inl.hpp"
#include "../quantize.hpp"
#include "low_precision-inl.hpp"

namespace weft::nn {

namespace detail {

namespace {

using State = StateAccess::State;
using Kind = LowPrecision::Kind;

Tensor buffer_of(const State& state, std::string_view name) {
  const auto found = std::ranges::find(state.buffers, name, &State::Entry::name);
  return found == state.buffers.end() ? Tensor() : Tensor(found->tensor);
}
/// Converts to f32, because Module::to may have rounded it.
Tensor in_f32(const Tensor& t) { return t.defined() && t.dtype() != DType::f32 ? t.to(DType::f32) : t; }

}  // namespace

bool is_in_low_precision(const Module& module) { return StateAccess::state(module).low_precision.kind != Kind::none; }

Tensor forward_in_low_precision(const Module& layer, const Tensor& given, const Tensor& weight, const Tensor& bias,
                                Location where) {
  const State& state = StateAccess::state(layer);
  if (state.in_parts != nullptr) {
    raise<NotImplementedError>({.op = "Linear", .problem = "a layer in low precision is not computed in parts"}, where);
  }
  if (state.low_precision.kind == Kind::fp8) return fp8_linear(given, weight, bias, where);
  const CallScope call("QuantizedLinear", where);
  const Tensor x = autocasting() ? weft::detail::lowered(checked(given)) : checked(given);
  QuantizedLinearOptions options{.bits = state.low_precision.bits, .group_size = state.low_precision.group_size};
  if (bias.defined()) options.bias = bias.to(x.dtype());
  if (const Tensor zero = buffer_of(state, "zero"); zero.defined()) options.zero = in_f32(zero);
  return quantized_linear(x, buffer_of(state, "codes"), in_f32(buffer_of(state, "scale")), options);
}

namespace {

bool is_linear(const Module& module) {
  const State& state = StateAccess::state(module);
  return state.type == TypeId::of<Linear>() && !is_in_low_precision(module);
}

/// Names of the out_proj layers of attention, which reads their weights itself.
std::unordered_set<std::string> read_by_others(const Module& model) {
  std::unordered_set<std::string> out;
  for (const auto& [name, module] : model.named_modules()) {
    if (is_of(module, TypeId::of<MultiheadAttention>())) out.insert(joined(name, "out_proj"));
  }
  return out;
}

/// The matching layers that are exactly of class Linear.
std::vector<std::pair<std::string, Module>> found(const char* op, const Module& model,
                                                  const std::vector<std::string>& targets, Location where) {
  std::vector<Pattern> patterns;
  for (const std::string& target : targets) patterns.emplace_back(op, target, where);
  std::vector<std::pair<std::string, Module>> out;
  const std::unordered_set<std::string> others = read_by_others(model);
  for (const auto& [path, module] : model.named_modules()) {
    const std::string& name = path;
    if (others.contains(name)) continue;
    const auto finds = [&](const Pattern& pattern) { return pattern.finds(name); };
    if (!is_linear(module) || !(patterns.empty() || std::ranges::any_of(patterns, finds))) continue;
    const State& state = StateAccess::state(module);
    if (state.adapter.held != nullptr || state.in_parts != nullptr || !state.parametrized.empty()) {
      raise<ValueError>({.op = op,
                         .problem = fmt::format("\"{}\" has an adapter, is in parts or parametrized", name),
                         .remedy = "take that away first, or targets that do not find it"},
                        where);
    }
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
  LowPrecision precision;
  Tensor weight, none;
  bool frees = true;

  void commit() {
    State& state = StateAccess::state(module);
    state.parameters.swap(parameters);
    state.buffers.swap(buffers);
    std::swap(state.config, config);
    state.class_name = "QuantizedLinear";
    state.replaced |= state.registered;
    state.low_precision = precision;
    if (!frees) return;
    weight.set_grad({});
    exchange_memory(weight, none);
  }
};

Prepared prepared(const Module& module, const WeightQuantOptions& options, Location where) {
  const State& state = StateAccess::state(module);
  Prepared p{
      module, state.parameters, state.buffers, state.config, {Kind::quantized, options.bits, options.group_size}, {},
      {}};
  const auto weight = std::ranges::find(p.parameters, "weight", &State::Entry::name);
  p.weight = weight->tensor;
  p.none = make(Dims{0, p.weight.size(1)}, p.weight.dtype(), p.weight.device());
  const QuantizedWeight w = quantize_weight(p.weight, options, where);
  p.parameters.erase(weight);
  p.buffers.push_back({"codes", Buffer(w.codes, where), true});
  p.buffers.push_back({"scale", Buffer(w.scale, where), true});
  if (!options.symmetric) p.buffers.push_back({"zero", Buffer(w.zero, where), true});
  p.config.set("bits", options.bits);
  p.config.set("group_size", options.group_size);
  p.config.set("symmetric", options.symmetric);
  return p;
}

}  // namespace

}  // namespace detail

QuantizedLinear::QuantizedLinear(int64_t in, int64_t out, const WeightQuantOptions& options, bool bias, Location where)
    : Linear(in, out, bias, where) {
  detail::prepared(*this, options, where).commit();
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
    all.push_back(detail::prepared(module, {options.bits, options.group_size, options.symmetric}, where));
    names.push_back(name);
  }
  keep_shared(model, all);
  for (detail::Prepared& p : all) p.commit();
  return names;
}

namespace {

void make_fp8(const Module& module) {
  detail::State& state = detail::StateAccess::state(module);
  state.low_precision.kind = detail::Kind::fp8;
  state.class_name = "Fp8Linear";
  state.replaced |= state.registered;
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
