// The description of a layer: its name, its options in the order of its config, and Python's function. The
// constructor's config and text, the builder of the registry and the class in Python come from it. Internal to nn/ and
// python/.
//
//   auto describe(Of<ELU>) { return described("ELU", "elu", option("alpha", 1.0), inplace()); }
//   ELU::ELU(double alpha) {
//     set_function(…);
//     set_options(*this, {}, alpha);
//   }
//   void detail::describe_activations(LayerList& list) { list.add<ELU>(); }
#pragma once

#include <limits>
#include <tuple>
#include <vector>

#include "containers.hpp"
#include "layer-inl.hpp"
#include "module_state-inl.hpp"
#include "registry.hpp"
#include "../ops/convolution.hpp"
#include "../tensor/call.hpp"

namespace weft::nn {

/// Selects the description of a layer.
template <class L>
struct Of {};

/// An option without its type.
struct OptionFacts {
  const char* name;
  /// The range of numbers, ends included.
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  /// The names of an enum's values 0, 1, …
  std::span<const std::string_view> choices = {};
  bool is_required = false;
  /// Printed without its name, or not at all.
  bool is_bare = false, is_hidden = false;
  /// Printed only if it is not the default; before the text of this index, unless -1.
  bool is_printed_if_set = false;
  int printed_at = -1;
  /// Its index in the signature in Python, unless that is in the order of the config.
  int python_index = -1;
  bool is_keyword_only = false;  ///< in Python
  /// Printed as a tuple of this many numbers, unless 0.
  int tuple_size = 0;
  /// The option that gives the value if this one is none.
  const char* otherwise = nullptr;
  /// None is the default in Python. If C++ requires the option, Python does not check the others without it.
  bool is_none_in_python = false;
};

/// A positional option is an argument of the constructor, a member is one of its options struct. A constant is in the
/// config only, and `python` in Python's class only.
enum class OptionRole : uint8_t { positional, member, constant, python };

/// The type of a pointer to a member of an options struct.
template <class T, class O>
struct MemberPointer {
  using Type = T O::*;
};
template <class T>
struct MemberPointer<T, void> {
  using Type = std::nullptr_t;
};

template <OptionRole r, class T, class O = void>
struct OptionField {
  static constexpr OptionRole role = r;
  using Value = T;
  using Options = O;

  OptionFacts facts;
  T otherwise = {};
  typename MemberPointer<T, O>::Type member = nullptr;
  bool in_python = true;

  OptionField bare() const { return with(&OptionFacts::is_bare, true); }
  OptionField hidden() const { return with(&OptionFacts::is_hidden, true); }
  OptionField if_set() const { return with(&OptionFacts::is_printed_if_set, true); }
  OptionField printed_at(int index) const { return with(&OptionFacts::printed_at, index); }
  OptionField python_at(int index) const { return with(&OptionFacts::python_index, index); }
  OptionField tuple_of(int size) const { return with(&OptionFacts::tuple_size, size); }
  OptionField none_in_python() const { return with(&OptionFacts::is_none_in_python, true); }
  OptionField or_as(const char* other) const { return with(&OptionFacts::otherwise, other); }
  OptionField at_least(double least) const { return with(&OptionFacts::least, least); }
  OptionField between(double least, double most) const { return at_least(least).with(&OptionFacts::most, most); }
  OptionField in_cpp_only() const {
    OptionField copy = *this;
    copy.in_python = false;
    return copy;
  }

 private:
  template <class F>
  OptionField with(F OptionFacts::*fact, F value) const {
    OptionField copy = *this;
    copy.facts.*fact = value;
    return copy;
  }
};

template <class T>
auto option(const char* name, T otherwise) {
  return OptionField<OptionRole::positional, T>{{name}, otherwise};
}
template <class E>
auto choice(const char* name, std::span<const std::string_view> choices, E otherwise) {
  return OptionField<OptionRole::positional, E>{{.name = name, .choices = choices}, otherwise};
}
template <class T>
auto required(const char* name) {
  return OptionField<OptionRole::positional, T>{{.name = name, .is_required = true}};
}
/// The default is that of the options struct.
template <class O, class T>
auto option(const char* name, T O::*member, std::span<const std::string_view> choices = {}) {
  return OptionField<OptionRole::member, T, O>{{.name = name, .choices = choices}, O().*member, member};
}
template <class T>
auto constant(const char* name, T value) {
  return OptionField<OptionRole::constant, T>{{name}, value};
}
/// `otherwise` is an Attribute if the default is None.
template <class T>
auto python_option(const char* name, T otherwise) {
  return OptionField<OptionRole::python, T>{{name}, otherwise};
}
inline auto inplace() { return python_option("inplace", false); }

template <class... Fields>
struct Described {
  std::string name;
  /// Python calls it with the input and the options; empty if the class has a forward of its own.
  std::string function;
  std::tuple<Fields...> fields;
};
template <class... Fields>
auto described(std::string name, std::string function, Fields... fields) {
  return Described<Fields...>{std::move(name), std::move(function), {std::move(fields)...}};
}

// ---- values ----

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

inline Attribute attribute_of(const OptionFacts& facts, const Dims& value, const Dims& otherwise) {
  return value.empty() && otherwise.empty() && !facts.is_required ? Attribute() : Attribute(value);
}
inline Attribute attribute_of(const OptionFacts&, const std::vector<double>& value, const std::vector<double>&) {
  return value.empty() ? Attribute() : Attribute(value);
}
inline Attribute attribute_of(const OptionFacts&, const ConvolutionPadding& value, const ConvolutionPadding&) {
  return value.same ? Attribute("same") : Attribute(value.sizes);
}
template <class T>
Attribute attribute_of(const OptionFacts& facts, const T& value, const T&) {
  if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
    if (!facts.choices.empty()) return facts.choices[static_cast<size_t>(value)];
  }
  if constexpr (std::is_enum_v<T>) return Attribute();
  else return value;
}

/// The option's value in a config.
template <class Field>
typename Field::Value value_in(const Field& field, const Config& config, Location where) {
  using T = typename Field::Value;
  const char* const name = field.facts.name;
  if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
    if (!field.facts.choices.empty()) return enumerator(config, name, field.facts.choices, field.otherwise, where);
  }
  if constexpr (std::is_enum_v<T>) {
    return field.otherwise;
  } else if constexpr (std::is_same_v<T, ConvolutionPadding>) {
    const Attribute* padding = config.find(name);
    const bool is_word = padding != nullptr && padding->type() == Attribute::Type::text;
    if (is_word) return T(padding->to<std::string>(), where);
    return config.get_or<std::optional<Dims>>(name, {}, where).value_or(field.otherwise.sizes);
  } else if constexpr (is_optional<T>) {
    return config.get_or<T>(name, field.otherwise, where);
  } else {
    if (field.facts.is_required) return config.get<T>(name, where);
    constexpr bool is_list = std::is_same_v<T, Dims> || std::is_same_v<T, std::vector<double>>;
    if (!is_list && !field.facts.is_none_in_python) return config.get_or<T>(name, field.otherwise, where);
    return config.get_or<std::optional<T>>(name, field.otherwise, where).value_or(field.otherwise);
  }
}

/// Raises ValueError if a number is out of range.
void check_range(const std::string& layer, const OptionFacts& facts, double value, Location where);
/// Sets the layer's options, its name, and its text by the options' facts.
void set_options(const Module& layer, const std::string& name, Config config, std::span<const OptionFacts> facts);

/// For constructors, behind set_function: the config, the text and the name of an L, from the constructor's arguments.
/// Raises ValueError if a number is out of range.
template <class L, class... Values>
void set_options_of(const Module& layer, Location where, const Values&... values) {
  const auto description = describe(Of<L>());
  const auto given = std::forward_as_tuple(values...);
  Config config;
  std::vector<OptionFacts> facts;
  const auto add = [&]<size_t i>(const auto& field, std::integral_constant<size_t, i>) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (Field::role != OptionRole::python) {
      const auto& value = [&]() -> const typename Field::Value& {
        if constexpr (Field::role == OptionRole::positional) return std::get<i>(given);
        else if constexpr (Field::role == OptionRole::member)
          return std::get<sizeof...(Values) - 1>(given).*field.member;
        else return field.otherwise;
      }();
      if constexpr (std::is_arithmetic_v<typename Field::Value>) {
        check_range(description.name, field.facts, static_cast<double>(value), where);
      } else if constexpr (is_optional<typename Field::Value>) {
        if (value) check_range(description.name, field.facts, static_cast<double>(*value), where);
      }
      config.set(field.facts.name, attribute_of(field.facts, value, field.otherwise));
      facts.push_back(field.facts);
      if (field.facts.is_printed_if_set &&
          *config.find(field.facts.name) == attribute_of(field.facts, field.otherwise, field.otherwise)) {
        facts.back().is_hidden = true;
      }
    }
  };
  [&]<size_t... i>(std::index_sequence<i...>) {
    (add(std::get<i>(description.fields), std::integral_constant<size_t, i>()), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(description.fields)>>());
  set_options(layer, description.name, std::move(config), facts);
}

template <class L, class... Values>
void set_options(const L& layer, Location where, const Values&... values) {
  set_options_of<L>(layer, where, values...);
}

// ---- the list of all layers ----

/// An option for Python.
struct OptionInfo {
  enum class Kind : uint8_t { flag, whole, real, text, sizes, reals, tensor, padding };
  OptionFacts facts;
  Kind kind;
  /// The default; none if the option is required.
  Attribute otherwise;
  OptionRole role;
  bool may_be_none, in_python;
};

struct LayerInfo {
  std::string name, function;
  std::vector<OptionInfo> options;
  AnyModule (*make)(const Config& config, Location where);
  TypeId type;
};

template <class T>
constexpr OptionInfo::Kind kind_of_option() {
  using Kind = OptionInfo::Kind;
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>) return Kind::flag;
  else if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::optional<int64_t>>) return Kind::whole;
  else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, std::optional<double>> ||
                     std::is_same_v<T, Scalar>)
    return Kind::real;
  else if constexpr (std::is_enum_v<T> || std::is_same_v<T, const char*>) return Kind::text;
  else if constexpr (std::is_same_v<T, ConvolutionPadding>) return Kind::padding;
  else if constexpr (std::is_same_v<T, Dims>) return Kind::sizes;
  else if constexpr (std::is_same_v<T, std::vector<double>>) return Kind::reals;
  else return Kind::tensor;
}

/// The struct of the options that are members; void if there are none.
template <class... F>
struct OptionsStruct : std::type_identity<void> {};
template <class First, class... Rest>
struct OptionsStruct<First, Rest...>
    : std::conditional_t<std::is_void_v<typename First::Options>, OptionsStruct<Rest...>,
                         std::type_identity<typename First::Options>> {};

/// The layer with the options of a config. Raises the errors of Config::get and of the constructor.
template <class L>
L layer_of(const Config& config, Location where) {
  const auto make = [&]<class... T>(std::tuple<T...> arguments) {
    if constexpr (std::is_constructible_v<L, T..., Location>) {
      return std::make_from_tuple<L>(std::tuple_cat(std::move(arguments), std::tuple(where)));
    } else {
      const CallScope call("nn::ModuleRegistry::build", where);  // for the location of errors
      return std::make_from_tuple<L>(std::move(arguments));
    }
  };
  const auto argument = [&]<OptionRole role, class T, class O>(const OptionField<role, T, O>& field) {
    if constexpr (role == OptionRole::positional) return std::tuple(value_in(field, config, where));
    else return std::tuple();
  };
  return std::apply(
      [&]<class... F>(const F&... fields) {
        auto arguments = std::tuple_cat(argument(fields)...);
        using Options = typename OptionsStruct<F...>::type;
        if constexpr (std::is_void_v<Options>) {
          return make(std::move(arguments));
        } else {
          Options options;
          const auto set = [&](const auto& field) {
            if constexpr (std::decay_t<decltype(field)>::role == OptionRole::member) {
              options.*field.member = value_in(field, config, where);
            }
          };
          (set(fields), ...);
          return make(std::tuple_cat(std::move(arguments), std::tuple(std::move(options))));
        }
      },
      describe(Of<L>()).fields);
}

/// The descriptions of layers, in order of registration.
class LayerList {
 public:
  template <class... L>
  void add() {
    (add_one<L>(), ...);
  }
  void add(LayerInfo layer) { all_.push_back(std::move(layer)); }
  const LayerInfo* find(std::string_view name) const;
  const std::vector<LayerInfo>& all() const { return all_; }

 private:
  template <class L>
  void add_one() {
    auto description = describe(Of<L>());
    LayerInfo info{std::move(description.name), std::move(description.function), {}, make<L>, TypeId::of<L>()};
    const auto add = [&]<OptionRole role, class T, class O>(const OptionField<role, T, O>& field) {
      Attribute otherwise;
      if (!field.facts.is_required) otherwise = attribute_of(field.facts, field.otherwise, field.otherwise);
      info.options.push_back({field.facts, field.facts.choices.empty() ? kind_of_option<T>() : OptionInfo::Kind::text,
                              std::move(otherwise), role, is_optional<T>, field.in_python});
    };
    std::apply([&](const auto&... fields) { (add(fields), ...); }, description.fields);
    all_.push_back(std::move(info));
  }
  template <class L>
  static AnyModule make(const Config& config, Location where) {
    return AnyModule::wrap(layer_of<L>(config, where));
  }

  std::vector<LayerInfo> all_;
};

namespace detail {
/// The described layers of Weft.
WEFT_API const LayerList& described_layers();

void describe_activations(LayerList& list);
void describe_bilinear(LayerList& list);
void describe_convolutions(LayerList& list);
void describe_distances(LayerList& list);
void describe_dropouts(LayerList& list);
void describe_layers(LayerList& list);
void describe_losses(LayerList& list);
void describe_multihead_attention(LayerList& list);
void describe_norms(LayerList& list);
void describe_paddings(LayerList& list);
void describe_pools(LayerList& list);
void describe_rearrangements(LayerList& list);
void describe_recurrent(LayerList& list);
void describe_self_attention(LayerList& list);
void describe_transformer_block(LayerList& list);
}  // namespace detail

}  // namespace weft::nn
