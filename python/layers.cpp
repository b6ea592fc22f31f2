// The described layers of C++ for Python; weft/nn/described.py makes their classes.
#include <algorithm>

#include "../nn/description-inl.hpp"

#include "module_object.hpp"

namespace weft::python {

namespace {

using nn::Attribute;
using Kind = nn::OptionInfo::Kind;

nb::object object_of(const Attribute& value) {
  switch (value.type()) {
    case Attribute::Type::boolean:
      return nb::cast(value.to<bool>());
    case Attribute::Type::i64:
      return nb::cast(value.to<int64_t>());
    case Attribute::Type::f64:
      return nb::cast(value.to<double>());
    case Attribute::Type::text:
      return nb::cast(value.to<std::string>());
    case Attribute::Type::i64s:
      return nb::cast(value.to<Dims>()[0]);  // one default for all dimensions
    default:
      return nb::none();
  }
}

/// A dict for each option, in the order of the signature in Python.
nb::list options_of(const nn::LayerInfo& layer) {
  nb::list options;
  std::vector<std::pair<int, nb::dict>> moved;
  for (const nn::OptionInfo& option : layer.options) {
    const nn::OptionFacts& facts = option.facts;
    nb::dict described;
    described["name"] = facts.name;
    described["role"] = static_cast<int>(option.role);
    described["in_python"] = option.in_python;
    described["kind"] = static_cast<int>(option.kind);
    described["default"] = object_of(option.otherwise);
    described["required"] = facts.is_required;
    described["may_be_none"] = option.may_be_none;
    described["none_in_python"] = facts.is_none_in_python;
    described["bare"] = facts.is_bare;
    described["hidden"] = facts.is_hidden;
    described["keyword_only"] = facts.is_keyword_only;
    described["tuple_size"] = facts.tuple_size;
    described["or_as"] = facts.otherwise;
    if (facts.python_index < 0) options.append(described);
    else moved.emplace_back(facts.python_index, described);
  }
  std::ranges::sort(moved, {}, &std::pair<int, nb::dict>::first);
  for (const auto& [index, described] : moved) options.insert(index, described);
  return options;
}

// ---- arguments ----

/// Empty if the object is no integer.
std::optional<int64_t> whole(nb::handle value) {
  if (!PyIndex_Check(value.ptr())) return {};
  const int64_t number = PyNumber_AsSsize_t(value.ptr(), PyExc_OverflowError);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return number;
}

/// An integer remains one, so that texts show it without a point.
std::optional<Attribute> number(nb::handle value) {
  if (!is_tensor(value.ptr())) {
    if (const auto integer = whole(value)) return *integer;
  }
  if (PyUnicode_Check(value.ptr())) return {};
  const double real = PyFloat_AsDouble(value.ptr());
  if (real != -1 || PyErr_Occurred() == nullptr) return real;
  PyErr_Clear();
  return {};
}

template <class T, class Read>
std::optional<Attribute> list_of(nb::handle items, Read read) {
  if (!PyTuple_Check(items.ptr()) && !PyList_Check(items.ptr())) return {};
  std::vector<T> out;
  for (nb::handle item : nb::borrow<nb::sequence>(items)) {
    const auto value = read(item);
    if (!value) return {};
    out.push_back(value->template to<T>());
  }
  return out;
}

/// Empty if the value is of another type than the option.
std::optional<Attribute> attribute_from(Kind kind, nb::handle value) {
  const auto integer = [](nb::handle item) -> std::optional<Attribute> {
    if (const auto given = whole(item)) return *given;
    return {};
  };
  switch (kind) {
    case Kind::flag:
      if (PyBool_Check(value.ptr())) return value.ptr() == Py_True;
      return {};
    case Kind::whole:
      return integer(value);
    case Kind::real:
      return number(value);
    case Kind::text:
      if (PyUnicode_Check(value.ptr())) return nb::cast<std::string>(value);
      return {};
    case Kind::sizes:
      if (const auto one = integer(value)) return one;
      return list_of<int64_t>(value, integer);
    case Kind::reals:
      if (const auto one = number(value)) return one;
      return list_of<double>(value, number);
    case Kind::padding:
      return attribute_from(PyUnicode_Check(value.ptr()) ? Kind::text : Kind::sizes, value);
    case Kind::tensor:
      if (is_tensor(value.ptr())) return Attribute();
  }
  return {};
}

const char* words_for(Kind kind) {
  constexpr const char* words[] = {"a bool",           "an int",
                                   "a number",         "a str",
                                   "an int or ints",   "a number or numbers",
                                   "a Tensor or None", "an int, ints or a str"};
  return words[static_cast<size_t>(kind)];
}

/// Raises ValueError for a text that is none of the option's choices.
void check_choice(const std::string& layer, const nn::OptionFacts& option, const std::string& given) {
  if (option.choices.empty() || std::ranges::find(option.choices, given) != option.choices.end()) return;
  std::string expected;
  for (size_t i = 0; i < option.choices.size(); ++i) {
    if (i > 0) expected += i + 1 < option.choices.size() ? ", " : " or ";
    expected += in_quotes(option.choices[i]);
  }
  raise<ValueError>(
      {.op = layer.c_str(), .problem = mismatch_text("argument " + in_quotes(option.name), expected, in_quotes(given))},
      here());
}

bool has_no_default(const nn::OptionInfo& option) {
  return !option.facts.is_required && option.otherwise.type() == Attribute::Type::none;
}

/// The layer with these options, which are checked; with its forward if it is `native`. None where one is missing that
/// C++ requires and Python does not. Raises TypeError for a value of another type; the errors of the constructor.
std::optional<Layer> make_described(const std::string& name, const nb::dict& given, bool native) {
  const nn::LayerInfo& layer = *nn::detail::described_layers().find(name);
  nn::Config config;
  for (const nn::OptionInfo& option : layer.options) {
    const char* key = option.facts.name;
    if (!given.contains(key)) continue;
    const nb::object value = given[key];
    if (value.is_none() && option.facts.is_none_in_python && option.facts.is_required) return {};
    if (value.is_none() && (option.facts.is_none_in_python || has_no_default(option))) continue;
    const auto attribute =
        value.is_none() && option.may_be_none ? std::optional(Attribute()) : attribute_from(option.kind, value);
    if (!attribute) {
      throw_type_error(name + "(): argument '" + key + "': expected " + words_for(option.kind) + ", got " +
                       type_name(value.ptr()));
    }
    if (option.kind == Kind::text) check_choice(name, option.facts, attribute->to<std::string>());
    if (option.role != nn::OptionRole::python) config.set(key, *attribute);
  }
  const nn::AnyModule made = layer.make(config, here());
  return Layer{made, native ? std::optional(made) : std::nullopt};
}

}  // namespace

void bind_described(nb::module_& m) {
  m.def("_described_layers", [] {
    nb::list layers;
    for (const nn::LayerInfo& layer : nn::detail::described_layers().all()) {
      layers.append(nb::make_tuple(layer.name, layer.function, options_of(layer)));
    }
    return layers;
  });
  m.def("_described_layer", make_described, nb::arg("name"), nb::arg("options"), nb::arg("native") = false);
}

}  // namespace weft::python
