#include "op_call-inl.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "call_file-inl.hpp"
#include "../../autograd/engine.hpp"
#include "../../autograd/mode.hpp"
#include "../../backends/watch/nan_check.hpp"
#include "../../ops/library.hpp"

namespace weft::io {

const OpRecord& OpCall::record() const { return *find_record(op.c_str()); }

namespace {

template <class T>
bool both_are(const Value& a, const Value& b) {
  const auto *x = std::get_if<T>(&a), *y = std::get_if<T>(&b);
  return x != nullptr && y != nullptr && *x == *y;
}
}  // namespace

bool same_value(const Value& a, const Value& b) {
  return both_are<bool>(a, b) || both_are<int64_t>(a, b) || both_are<double>(a, b) || both_are<Dims>(a, b) ||
         both_are<std::string>(a, b);
}

namespace {

template <class Arguments, class F>
void each_tensor(const OpRecord& record, Arguments& arguments, F f) {
  const std::vector<Argument>& named = record.signature().arguments;
  for (size_t i = 0; i < arguments.size() && i < named.size(); ++i) {
    if (auto* one = std::get_if<Tensor>(&arguments[i]); one != nullptr && one->defined()) f(named[i].name, *one);
    if (auto* many = std::get_if<std::vector<Tensor>>(&arguments[i])) {
      for (size_t k = 0; k < many->size(); ++k) f(fmt::format("{}{}", named[i].name, k), (*many)[k]);
    }
  }
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> OpCall::tensors() const {
  std::vector<std::pair<std::string, Tensor>> out;
  each_tensor(record(), arguments, [&](std::string name, const Tensor& t) { out.emplace_back(std::move(name), t); });
  return out;
}

// ---- running --------------------------------------------------------------------------------------------------------

OpResult run(const OpCall& call, Device device, const Tensor& arriving) {
  const bool backward = arriving.defined();
  const GradModeGuard recording({.enabled = backward, .inference = false});
  Values arguments = call.arguments;
  std::vector<Tensor> inputs;
  each_tensor(call.record(), arguments, [&](const std::string&, Tensor& t) {
    t = t.detach().to(device);
    if (backward && is_floating(t.dtype())) t = t.clone().requires_grad_();
    inputs.push_back(t);
  });
  Value value = call.record().call(arguments);
  OpResult out;
  if (auto* one = std::get_if<Tensor>(&value)) out.results = {*one};
  if (auto* many = std::get_if<std::vector<Tensor>>(&value)) out.results = *many;
  if (!backward) return out;
  std::vector<Tensor> wanted;
  std::ranges::copy_if(inputs, std::back_inserter(wanted), [](const Tensor& t) { return t.requires_grad(); });
  const std::vector<Tensor> seeds{arriving.to(device)};
  const std::vector<Tensor> gradients = grad(std::span(out.results).first(1), wanted, seeds, {.allow_unused = true});
  for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
    out.gradients.push_back(inputs[i].requires_grad() ? gradients[next++] : Tensor());
  }
  return out;
}

bool has_fault(const std::vector<Tensor>& tensors, bool nan, bool inf) {
  return std::ranges::any_of(tensors, [&](const Tensor& t) {
    if (!t.defined()) return false;
    const cpu::NonFinite found = weft::detail::find_non_finite(t.raw_view());
    return (found.nan && nan) || (found.inf && inf);
  });
}

// ---- as C++ ---------------------------------------------------------------------------------------------------------

namespace {

std::string number_text(double v) {
  if (std::isnan(v)) return "NAN";
  if (std::isinf(v)) return v > 0 ? "INFINITY" : "-INFINITY";
  const std::string text = fmt::format("{}", v);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string argument_text(const std::string& name, const Value& value) {
  if (std::holds_alternative<Tensor>(value)) return std::get<Tensor>(value).defined() ? name : "Value()";
  if (const auto* many = std::get_if<std::vector<Tensor>>(&value)) {
    std::vector<std::string> names;
    for (size_t i = 0; i < many->size(); ++i) names.push_back(fmt::format("{}{}", name, i));
    return fmt::format("std::vector<Tensor>{{{}}}", fmt::join(names, ", "));
  }
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value)) return number_text(*d);
  if (const auto* dims = std::get_if<Dims>(&value)) return fmt::format("Dims{{{}}}", fmt::join(*dims, ", "));
  if (const auto* t = std::get_if<DType>(&value)) return fmt::format("*find_dtype(\"{}\")", weft::name(*t));
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", *text);
  return "Value()";
}

// Arguments without trailing defaults.
std::vector<std::string> argument_texts(const OpCall& call) {
  const std::vector<Argument>& named = call.record().signature().arguments;
  std::vector<std::string> texts;
  size_t given = 0;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    texts.push_back(argument_text(named[i].name, call.arguments[i]));
    if (texts.back() != "Value()" && !same_value(call.arguments[i], named[i].default_value)) given = i + 1;
  }
  texts.resize(given);
  return texts;
}

}  // namespace

std::string short_text(const OpCall& call) {
  return fmt::format("{}({})", call.op, fmt::join(argument_texts(call), ", "));
}

std::string program_of(const OpCall& call, bool backward) {
  std::string lines;
  std::vector<std::string> shown, graded;
  for (const auto& [name, tensor] : call.tensors()) {
    const bool wanted = backward && is_floating(tensor.dtype());
    lines +=
        fmt::format("  const Tensor {0} = kept.at(\"{0}\").to(device){1};\n", name, wanted ? ".requires_grad_()" : "");
    shown.push_back(name);
    if (wanted) graded.push_back(name + ".grad()");
  }
  const bool several = call.record().signature().results.size() > 1;
  const std::string type = several ? "std::vector<Tensor>" : "Tensor";
  const OpRecord& record = call.record();
  const bool plain = record.pointwise.unary != nullptr || record.pointwise.binary != nullptr;
  const std::string arguments = fmt::format("{}", fmt::join(argument_texts(call), ", "));
  const std::string called = plain     ? fmt::format("weft::{}({})", call.op, arguments)
                             : several ? fmt::format("call_op<{}>(\"{}\", {})", type, call.op, arguments)
                                       : fmt::format("call_op(\"{}\", {})", call.op, arguments);
  lines += several ? fmt::format("  const {} results = {};\n", type, called)
                   : fmt::format("  const std::vector<Tensor> results = {{{}}};\n", called);
  if (backward) lines += "  results[0].backward(kept.at(\"arrived0\").to(device));\n";
  if (backward) lines += fmt::format("  const std::vector<Tensor> made = {{{}}};\n", fmt::join(graded, ", "));
  else lines += "  const std::vector<Tensor>& made = results;\n";
  lines +=
      fmt::format("  for (const Tensor& t : {{{}}}) std::cout << \"read \" << t << '\\n';\n", fmt::join(shown, ", "));
  return lines;
}

// ---- as JSON --------------------------------------------------------------------------------------------------------

JsonTree json_of(const OpCall& call) {
  const std::vector<Argument>& named = call.record().signature().arguments;
  JsonTree json = JsonTree::object();
  json["op"] = JsonTree::of(call.op);
  JsonTree& arguments = json["arguments"] = JsonTree::list();
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    JsonTree one = JsonTree::object();
    const Value& value = call.arguments[i];
    if (const auto* t = std::get_if<Tensor>(&value); t != nullptr && t->defined()) {
      one["tensor"] = JsonTree::of(named[i].name);
    } else if (const auto* many = std::get_if<std::vector<Tensor>>(&value)) {
      one["tensors"] = JsonTree::list();
      for (size_t k = 0; k < many->size(); ++k) one["tensors"].add(JsonTree::of(fmt::format("{}{}", named[i].name, k)));
    } else if (const auto* b = std::get_if<bool>(&value)) {
      one["boolean"] = JsonTree::of(*b);
    } else if (const auto* n = std::get_if<int64_t>(&value)) {
      one["integer"] = JsonTree::of(*n);
    } else if (const auto* d = std::get_if<double>(&value)) {
      one["number"] = JsonTree::of(*d);
    } else if (const auto* dims = std::get_if<Dims>(&value)) {
      one["dims"] = JsonTree::list();
      for (const int64_t v : *dims) one["dims"].add(JsonTree::of(v));
    } else if (const auto* dtype = std::get_if<DType>(&value)) {
      one["dtype"] = JsonTree::of(weft::name(*dtype));
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      one["text"] = JsonTree::of(*text);
    }
    arguments.add(std::move(one));
  }
  return json;
}

namespace {

Value value_in(const JsonNode& place, const TensorMap& tensors) {
  const auto tensor_at = [&](const JsonNode& name) {
    const auto found = tensors.find(name.text());
    if (found == tensors.end()) name.fail("tensors.safetensors has no such tensor");
    return found->second;
  };
  if (place.has("tensor")) return tensor_at(place.at("tensor"));
  if (place.has("tensors")) {
    std::vector<Tensor> many;
    place.at("tensors").each([&](const JsonNode& name) { many.push_back(tensor_at(name)); });
    return many;
  }
  if (place.has("boolean")) return place.at("boolean").boolean();
  if (place.has("integer")) return place.at("integer").integer();
  if (place.has("number")) return place.at("number").number();
  if (place.has("text")) return place.at("text").text();
  if (place.has("dims")) {
    std::vector<int64_t> dims;
    place.at("dims").each([&](const JsonNode& v) { dims.push_back(v.integer()); });
    if (dims.size() > static_cast<size_t>(max_rank)) place.at("dims").fail("there are too many");
    return Dims(dims);
  }
  if (place.has("dtype")) {
    const std::optional<DType> dtype = find_dtype(place.at("dtype").text());
    if (!dtype) place.at("dtype").fail("there is no such dtype");
    return *dtype;
  }
  return {};
}

}  // namespace

OpCall op_call_in(const JsonNode& place, const TensorMap& tensors) {
  OpCall call{.op = place.at("op").text(), .arguments = {}};
  const OpRecord* const record = find_record(call.op.c_str());
  if (record == nullptr) place.at("op").fail("there is no such op");
  place.at("arguments").each([&](const JsonNode& one) { call.arguments.push_back(value_in(one, tensors)); });
  if (call.arguments.size() > record->signature().arguments.size()) place.at("arguments").fail("there are too many");
  return call;
}

}  // namespace weft::io
