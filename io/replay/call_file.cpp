#include "call_file-inl.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "../file.hpp"
#include "../json/json_tree-inl.hpp"
#include "../safetensors.hpp"
#include "../../tensor/dims.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/layout.hpp"

namespace weft::io {

namespace {

constexpr const char* op = "replay";
constexpr const char* version = "1.0";

constexpr std::pair<int, const char*> kinds[] = {
    {WEFT_ATTRIBUTE_I64, "i64"},   {WEFT_ATTRIBUTE_U64, "u64"},           {WEFT_ATTRIBUTE_F64, "f64"},
    {WEFT_ATTRIBUTE_BOOL, "bool"}, {WEFT_ATTRIBUTE_I64_LIST, "i64 list"}, {WEFT_ATTRIBUTE_F64_LIST, "f64 list"}};

std::string name_of_view(size_t i) { return fmt::format("view{}", i); }
std::string name_of_arrived(size_t i) { return fmt::format("arrived{}", i); }

JsonTree json_of(const KeptView& view, const std::string& elements) {
  JsonTree json = JsonTree::object();
  if (view.absent) {
    json["absent"] = JsonTree::of(true);
    return json;
  }
  const Layout& layout = view.layout;
  json["dtype"] = JsonTree::of(name(layout.dtype));
  json["sizes"] = JsonTree::list();
  json["repeated"] = JsonTree::list();
  for (int d = 0; d < layout.rank; ++d) {
    json["sizes"].add(JsonTree::of(layout.sizes[d]));
    json["repeated"].add(JsonTree::of(layout.strides[d] == 0 && layout.sizes[d] > 1));
  }
  if (layout.host_scalar != 0) json["number"] = JsonTree::of(true);
  if (view.same_as >= 0) json["same_as"] = JsonTree::of(int64_t{view.same_as});
  if (view.elements.defined()) json["elements"] = JsonTree::of(elements);
  return json;
}

JsonTree json_of(const KeptAttribute& attribute) {
  JsonTree json = JsonTree::object();
  json["name"] = JsonTree::of(attribute.name);
  json["kind"] =
      JsonTree::of(std::ranges::find(kinds, attribute.kind, [](const auto& known) { return known.first; })->second);
  json["values"] = JsonTree::list();
  for (const int64_t v : attribute.whole) json["values"].add(JsonTree::of(v));
  for (const double v : attribute.real) json["values"].add(JsonTree::of(v));
  return json;
}

// safetensors requires tensors that share no memory.
Tensor unshared(const Tensor& tensor, const TensorMap& others) {
  const bool shared = std::ranges::any_of(others, [&](const auto& e) { return e.second.shares_storage(tensor); });
  return shared ? tensor.clone() : tensor;
}

KeptAttribute attribute_in(const JsonNode& place) {
  const std::string kind = place.at("kind").text();
  const auto* const known = std::ranges::find(kinds, kind, [](const auto& k) { return std::string_view(k.second); });
  if (known == std::end(kinds)) place.at("kind").fail("there is no such kind");
  KeptAttribute out{.name = place.at("name").text(), .kind = known->first, .whole = {}, .real = {}};
  const bool real = out.kind == WEFT_ATTRIBUTE_F64 || out.kind == WEFT_ATTRIBUTE_F64_LIST;
  place.at("values").each([&](const JsonNode& value) {
    if (real) out.real.push_back(value.number());
    else out.whole.push_back(value.integer());
  });
  const bool list = out.kind == WEFT_ATTRIBUTE_I64_LIST || out.kind == WEFT_ATTRIBUTE_F64_LIST;
  if (!list && out.whole.size() + out.real.size() != 1) place.at("values").fail("it is not one number");
  return out;
}

KeptView view_in(const JsonNode& place, const TensorMap& tensors, const std::vector<KeptView>& earlier) {
  KeptView view;
  if (place.has("absent")) {
    view.absent = true;
    return view;
  }
  const std::optional<DType> dtype = find_dtype(place.at("dtype").text());
  if (!dtype) place.at("dtype").fail("there is no such dtype");
  std::vector<int64_t> sizes;
  std::vector<bool> repeated;
  place.at("sizes").each([&](const JsonNode& size) {
    if (size.integer() < 0) size.fail("it is negative");
    sizes.push_back(size.integer());
  });
  place.at("repeated").each([&](const JsonNode& repeats) { repeated.push_back(repeats.boolean()); });
  if (repeated.size() != sizes.size()) place.at("repeated").fail("it is not as long as the sizes");
  view.layout = contiguous_layout(sizes, *dtype);
  view.layout.host_scalar = place.has("number") && place.at("number").boolean() ? 1 : 0;
  std::vector<int64_t> once = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (repeated[d]) once[d] = 1;
  }
  const Layout packed = contiguous_layout(once, *dtype);
  for (size_t d = 0; d < sizes.size(); ++d) view.layout.strides[d] = repeated[d] ? 0 : packed.strides[d];
  view.layout.contiguous = std::ranges::find(repeated, true) == repeated.end() ? 1 : 0;
  if (place.has("same_as")) {
    const int64_t other = place.at("same_as").integer();
    if (other < 0 || other >= static_cast<int64_t>(earlier.size()) || earlier[static_cast<size_t>(other)].absent) {
      place.at("same_as").fail("there is no such view before it");
    }
    const Layout& first = earlier[static_cast<size_t>(other)].layout;
    if (!std::ranges::equal(sizes_of(first), sizes_of(view.layout)) || first.dtype != *dtype) {
      place.at("same_as").fail("that view has other sizes");
    }
    view.same_as = static_cast<int>(other);
  }
  if (place.has("elements")) {
    const auto found = tensors.find(place.at("elements").text());
    if (found == tensors.end()) place.at("elements").fail("tensors.safetensors has no such tensor");
    view.elements = found->second;
    if (view.elements.dtype() != *dtype || view.elements.shape() != Dims(once)) {
      place.at("elements").fail("the tensor is of another shape or dtype");
    }
  } else if (view.layout.host_scalar != 0) {
    place.fail("a number has no elements");
  }
  return view;
}

}  // namespace

Dims sizes_once(const Layout& layout) {
  Dims sizes(sizes_of(layout));
  for (int d = 0; d < layout.rank; ++d) {
    if (layout.strides[d] == 0 && layout.sizes[d] > 1) sizes[d] = 1;
  }
  return sizes;
}

void write_call(const KeptCall& call, const Path& folder, Location where) {
  TensorMap tensors;
  JsonTree json = JsonTree::object();
  json["format_version"] = JsonTree::of(version);
  json["op"] = JsonTree::of(call.op);
  json["file"] = JsonTree::of(call.file);
  json["line"] = JsonTree::of(call.line);
  json["backward"] = JsonTree::of(call.backward);
  json["device"] = JsonTree::of(call.device);
  json["kernel"] = JsonTree::of(call.kernel);
  json["variant"] = JsonTree::of(int64_t{call.variant});
  json["variant_name"] = JsonTree::of(call.variant_name);
  json["outputs"] = JsonTree::of(int64_t{call.outputs});
  json["not_finite"] = JsonTree::of(int64_t{call.bad});
  json["nan"] = JsonTree::of(call.nan);
  json["inf"] = JsonTree::of(call.inf);
  json["views"] = JsonTree::list();
  if (call.call) {
    json["call"] = json_of(*call.call);
    for (const auto& [name, tensor] : call.call->tensors()) tensors[name] = unshared(tensor, tensors);
  }
  for (size_t i = 0; i < call.views.size(); ++i) {
    const Tensor& elements = call.views[i].elements;
    const auto same = std::ranges::find_if(
        tensors, [&](const auto& entry) { return elements.defined() && entry.second.impl() == elements.impl(); });
    const std::string name = same != tensors.end() ? same->first : name_of_view(i);
    json["views"].add(json_of(call.views[i], name));
    if (elements.defined() && same == tensors.end()) tensors[name] = unshared(elements, tensors);
  }
  json["attributes"] = JsonTree::list();
  for (const KeptAttribute& attribute : call.attributes) json["attributes"].add(json_of(attribute));
  for (size_t i = 0; i < call.arrived.size(); ++i) tensors[name_of_arrived(i)] = call.arrived[i];
  save_file(tensors, folder / tensor_file, {}, {}, where);
  write_file(folder / call_file, json_text(json, op, where), op, where);
}

KeptCall read_call(const Path& folder, Location where) {
  const std::string text = read_file(folder / call_file, op, where);
  const JsonTree tree = parse_json(text, op, where, call_file);
  const JsonNode json(tree, op, where);
  if (json.at("format_version").text().substr(0, 2) != "1.") {
    raise<VersionError>({.op = op, .problem = "the folder is of a newer version"}, where);
  }
  const TensorMap tensors = load_file(folder / tensor_file, {}, {}, where);
  KeptCall call{.kernel = json.at("kernel").text(),
                .variant_name = json.at("variant_name").text(),
                .op = json.at("op").text(),
                .file = json.at("file").text(),
                .device = json.at("device").text(),
                .line = json.at("line").integer(),
                .backward = json.at("backward").boolean(),
                .variant = static_cast<int>(json.at("variant").integer()),
                .outputs = static_cast<int>(json.at("outputs").integer()),
                .bad = static_cast<int>(json.at("not_finite").integer()),
                .nan = json.at("nan").boolean(),
                .inf = json.at("inf").boolean(),
                .views = {},
                .attributes = {},
                .arrived = {},
                .call = {}};
  json.at("views").each([&](const JsonNode& view) { call.views.push_back(view_in(view, tensors, call.views)); });
  json.at("attributes").each([&](const JsonNode& place) { call.attributes.push_back(attribute_in(place)); });
  const int count = static_cast<int>(call.views.size());
  if (call.outputs < 0 || call.outputs > count) json.at("outputs").fail("there are not so many views");
  if (call.bad < 0 || call.bad >= count || call.views[static_cast<size_t>(call.bad)].absent) {
    json.at("not_finite").fail("there is no such view");
  }
  for (size_t i = 0; tensors.contains(name_of_arrived(i)); ++i) call.arrived.push_back(tensors.at(name_of_arrived(i)));
  if (json.has("call")) call.call = op_call_in(json.at("call"), tensors);
  if (call.call && call.backward && call.arrived.size() != 1) json.at("call").fail("one gradient arrives at it");
  return call;
}

}  // namespace weft::io
