#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "../../nn/attribute_value-inl.hpp"
#include "../../nn/path-inl.hpp"
#include "../../tensor/shortened.hpp"
#include "../json/json_tree-inl.hpp"
#include "../model.hpp"

namespace weft::io {

namespace {

using nn::Attribute;
using nn::ModuleDescription;
using nn::TensorDescription;
using nn::detail::joined;
using Kind = JsonTree::Kind;

constexpr const char *writing = "to_json", *reading = "read_model";
constexpr int major_version = 1, minor_version = 0;
/// Key of the whole text's unknown fields among those of the module.
constexpr const char* of_the_text = "";

// ---- writing --------------------------------------------------------------------------------------------------------

JsonTree json_of(std::monostate) { return {}; }
JsonTree json_of(bool value) { return JsonTree::of(value); }
JsonTree json_of(int32_t value) { return JsonTree::of(int64_t{value}); }
JsonTree json_of(int64_t value) { return JsonTree::of(value); }
JsonTree json_of(double value) { return JsonTree::of(value); }
JsonTree json_of(const std::string& value) { return JsonTree::of(value); }

template <class T>
constexpr const char* element_name = "text";
template <>
constexpr const char* element_name<bool> = "bool";
template <>
constexpr const char* element_name<int32_t> = "i32";
template <>
constexpr const char* element_name<int64_t> = "i64";
template <>
constexpr const char* element_name<double> = "f64";

template <class T>
JsonTree json_of(const std::vector<T>& list) {
  JsonTree items = JsonTree::list();
  for (const T& item : list) items.add(json_of(item));
  JsonTree typed;
  typed[element_name<T>] = std::move(items);
  return typed;
}

JsonTree json_of(const Attribute& value) {
  if (value.value() == nullptr) return {};
  return std::visit([](const auto& held) { return json_of(held); }, value.value()->held);
}

JsonTree unknown_of(const ModuleDescription& d, Location where) {
  if (d.unknown.empty()) return JsonTree::object();
  JsonTree unknown = parse_json(d.unknown, writing, where);
  if (unknown.is(Kind::object)) return unknown;
  raise<ValueError>({.op = writing, .problem = "the unknown fields of a module are no JSON object"}, where);
}

JsonTree json_of(const TensorDescription& t, bool is_parameter) {
  JsonTree out;
  out["name"] = JsonTree::of(t.name);
  out["dtype"] = JsonTree::of(name(t.dtype));
  out["shape"] = JsonTree::list();
  for (const int64_t size : t.shape) out["shape"].add(JsonTree::of(size));
  if (is_parameter) out["requires_grad"] = JsonTree::of(t.requires_grad);
  if (!t.saved) out["saved"] = JsonTree::of(false);
  if (!t.tied_to.empty()) out["tied_to"] = JsonTree::of(t.tied_to);
  return out;
}

JsonTree json_of(const ModuleDescription& d, bool is_root, Location where) {
  JsonTree out = JsonTree::object();
  if (!is_root) out["name"] = JsonTree::of(d.name);
  out["type"] = JsonTree::of(d.type);
  if (!d.shared_with.empty()) {
    out["shared_with"] = JsonTree::of(d.shared_with);
    return out;
  }
  if (d.version != 1) out["version"] = JsonTree::of(d.version);
  if (!d.training) out["training"] = JsonTree::of(false);
  for (const auto& [name, value] : d.config.options()) out["config"][name] = json_of(value);
  for (const TensorDescription& t : d.parameters) out["parameters"].add(json_of(t, true));
  for (const TensorDescription& t : d.buffers) out["buffers"].add(json_of(t, false));
  for (const ModuleDescription& child : d.children) out["children"].add(json_of(child, false, where));
  JsonTree unknown = unknown_of(d, where);
  for (auto& [name, value] : unknown.items) {
    if (name != of_the_text) out[name] = std::move(value);
  }
  return out;
}

// ---- reading --------------------------------------------------------------------------------------------------------

template <class T, class Read>
Attribute list_in(const JsonNode& items, Read&& read) {
  std::vector<T> list;
  items.each([&](const JsonNode& item) { list.push_back(read(item)); });
  return list;
}

int32_t narrow_in(const JsonNode& place) {
  const int64_t value = place.integer();
  if (static_cast<int32_t>(value) != value) place.fail("it is no 32-bit integer");
  return static_cast<int32_t>(value);
}

double floating_in(const JsonNode& place) {
  if (place.json().text.find_first_of(".eE") == std::string::npos) place.fail("it is no 64-bit integer");
  return place.number();
}

Attribute attribute_in(const JsonNode& place) {
  const JsonTree& json = place.json();
  if (json.is(Kind::null)) return {};
  if (json.is(Kind::boolean)) return place.boolean();
  if (json.is(Kind::integer)) return place.integer();
  if (json.is(Kind::floating)) return floating_in(place);
  if (json.is(Kind::text)) return place.text();
  if (!json.is(Kind::object) || json.items.size() != 1) {
    place.fail("a list is written with its type, as {\"i64\": [3, 3]}");
  }
  const std::string type = json.items[0].first;
  const JsonNode items = place.at(type);
  if (type == "bool") return list_in<bool>(items, [](const JsonNode& p) { return p.boolean(); });
  if (type == "i32") return list_in<int32_t>(items, narrow_in);
  if (type == "i64") return list_in<int64_t>(items, [](const JsonNode& p) { return p.integer(); });
  if (type == "f64") return list_in<double>(items, [](const JsonNode& p) { return p.number(); });
  if (type == "text") return list_in<std::string>(items, [](const JsonNode& p) { return p.text(); });
  place.fail(fmt::format("\"{}\" is no type of a list's elements", shortened(type, 80)));
}

DType dtype_in(const JsonNode& place) {
  const std::string text = place.text();
  if (const auto found = find_dtype(text)) return *found;
  place.fail(fmt::format("\"{}\" is no dtype", shortened(text, 80)));
}

Dims shape_in(const JsonNode& place) {
  Dims shape;
  place.each([&](const JsonNode& size) {
    if (shape.size() == max_rank) place.fail(fmt::format("more than {} dimensions", max_rank));
    shape.push_back(size.integer());
    if (size.integer() < 0) size.fail("a size is negative");
  });
  return shape;
}

std::string name_in(const JsonNode& place) {
  std::string name = place.at("name").text();
  if (name.empty() || name.find('.') != name.npos) place.at("name").fail("a name is not empty and has no dot");
  return name;
}

TensorDescription tensor_in(const JsonNode& place, const std::string& path) {
  place.object();
  TensorDescription t{
      .name = name_in(place), .dtype = dtype_in(place.at("dtype")), .shape = shape_in(place.at("shape"))};
  if (place.has("requires_grad")) t.requires_grad = place.at("requires_grad").boolean();
  if (place.has("saved")) t.saved = place.at("saved").boolean();
  if (place.has("tied_to")) t.tied_to = place.at("tied_to").text();
  if (t.saved) t.stored_as = t.tied_to.empty() ? joined(path, t.name) : t.tied_to;
  return t;
}

template <class T>
void check_names(const JsonNode& place, const std::vector<T>& list, std::set<std::string>& names) {
  for (const T& item : list) {
    if (!names.insert(item.name).second) place.fail(fmt::format("\"{}\" is there twice", shortened(item.name, 80)));
  }
}

/// Adds the unknown fields of an object to `unknown` and returns them as text; empty if there are none.
std::string unknown_in(const JsonTree& json, std::initializer_list<std::string_view> known, JsonTree unknown,
                       Location where) {
  for (const auto& [name, value] : json.items) {
    if (std::ranges::find(known, name) == known.end() && name != of_the_text) unknown[name] = value;
  }
  return unknown.items.empty() ? std::string() : json_text(unknown, reading, where);
}

ModuleDescription module_in(const JsonNode& place, const std::string& path, bool is_root, JsonTree unknown,
                            Location where) {
  place.object();
  ModuleDescription d{.name = is_root ? "" : name_in(place), .type = place.at("type").text()};
  const std::string own = is_root ? path : joined(path, d.name);
  if (place.has("shared_with")) d.shared_with = place.at("shared_with").text();
  if (place.has("version")) d.version = place.at("version").integer();
  if (d.version < 0) place.at("version").fail("a version is not negative");
  if (place.has("training")) d.training = place.at("training").boolean();
  if (place.has("config")) {
    const JsonNode config = place.at("config").object();
    for (const auto& [name, value] : config.json().items) d.config.set(name, attribute_in(config.at(name)));
  }
  const auto tensors = [&](const char* field, std::vector<TensorDescription>& list) {
    if (place.has(field)) place.at(field).each([&](const JsonNode& t) { list.push_back(tensor_in(t, own)); });
  };
  tensors("parameters", d.parameters);
  tensors("buffers", d.buffers);
  if (place.has("children")) {
    place.at("children").each([&](const JsonNode& child) {
      d.children.push_back(module_in(child, own, false, JsonTree::object(), where));
    });
  }
  std::set<std::string> names;
  check_names(place, d.parameters, names);
  check_names(place, d.buffers, names);
  check_names(place, d.children, names);
  d.unknown =
      unknown_in(place.json(),
                 {"name", "type", "shared_with", "version", "training", "config", "parameters", "buffers", "children"},
                 std::move(unknown), where);
  return d;
}

std::pair<int, int> version_in(const JsonNode& place) {
  const std::string text = place.text();
  int major = 0, minor = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  const bool has_dot = first.ec == std::errc() && first.ptr != end && *first.ptr == '.';
  const auto second = has_dot ? std::from_chars(first.ptr + 1, end, minor) : first;
  if (!has_dot || second.ec != std::errc() || second.ptr != end || major < 0 || minor < 0) {
    place.fail(fmt::format("\"{}\" is no version such as 1.0", shortened(text, 80)));
  }
  return {major, minor};
}

void check_versions(const JsonNode& document, Location where) {
  const auto [major, minor] = version_in(document.at("format_version"));
  if (major > major_version) {
    raise<VersionError>({.op = reading,
                         .problem = fmt::format("the model is of version {}.{}, newer than this program's {}.{}", major,
                                                minor, major_version, minor_version)},
                        where);
  }
  if (!document.has("required_features")) return;
  document.at("required_features").each([&](const JsonNode& feature) {
    raise<VersionError>(
        {.op = reading,
         .problem = fmt::format("the model needs \"{}\", which this version lacks", shortened(feature.text(), 80))},
        where);
  });
}

}  // namespace

std::string to_json(const ModuleDescription& model, Location where) {
  JsonTree out;
  out["format_version"] = JsonTree::of(fmt::format("{}.{}", major_version, minor_version));
  out["required_features"] = JsonTree::list();
  out["model"] = json_of(model, true, where);
  const JsonTree unknown = unknown_of(model, where);
  if (const JsonTree* fields = unknown.find(of_the_text)) {
    for (const auto& [name, value] : fields->items) out[name] = value;
  }
  return json_text(out, writing, where);
}

std::string to_json(const nn::Module& module, const nn::ModuleRegistry& registry, Location where) {
  return to_json(registry.describe(module, where), where);
}

ModuleDescription read_model(std::string_view text, Location where) {
  const JsonTree json = parse_json(text, reading, where);
  const JsonNode document(json, reading, where);
  document.object();
  check_versions(document, where);
  JsonTree unknown = JsonTree::object(), rest = JsonTree::object();
  for (const auto& [name, value] : json.items) {
    if (name != "format_version" && name != "required_features" && name != "model") rest[name] = value;
  }
  if (!rest.items.empty()) unknown[of_the_text] = std::move(rest);
  return module_in(document.at("model"), "", true, std::move(unknown), where);
}

nn::AnyModule from_json(std::string_view text, const nn::ModuleRegistry& registry, Location where) {
  return registry.build(registry.migrated(read_model(text, where), false, where), where);
}

}  // namespace weft::io
