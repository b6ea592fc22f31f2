// The description of each optimizer: its name, its options with their ranges, and for elementwise optimizers the kernel
// of the step and its factors. Internal to optim/.
//
// Groups store options as numbers, so checks, states and Python need no case per optimizer.
#pragma once

#include <array>
#include <limits>
#include <tuple>

#include "../backends/dispatch.hpp"
#include "optimizers.hpp"

namespace weft::optim {

/// Progress of a parameter: its next step, from 1 on.
struct Progress {
  int64_t step = 1;
  bool is_fresh = false;  ///< the first step that keeps state
  double product = 1;     ///< product of NAdam's momenta so far, updated by `settings`
};

struct Rule {
  const char* name;
  std::span<const OptionInfo> options;
  /// Checks constraints between options; returns the problem, or null.
  const char* (*conflict)(std::span<const double> values);
  bool keeps_product = false;  ///< see State::product
  // For elementwise optimizers.
  OptimizerStep (*kind)(std::span<const double> values) = nullptr;
  OptimizerSettings (*settings)(std::span<const double> values, Progress& progress) = nullptr;
  /// The initial value of a state; null means 0.
  double (*initial)(std::span<const double> values, const std::string& state) = nullptr;
  /// Whether a gradient in rows updates only those rows, because a zero gradient does not change the others.
  bool (*steps_rows)(std::span<const double> values) = nullptr;
  /// Whether other rows never change, even where the formula would change them; this includes rows of zeros in a dense
  /// gradient.
  bool is_lazy = false;
};

/// Notifies this thread's ProgramWatch, which must exist.
void tell_watch_of_step(const Optimizer& optimizer, const Rule& rule, Location where);

constexpr double highest = std::numeric_limits<double>::max();

template <class O, class T>
struct Field {
  OptionInfo info;
  Option<T> O::*member;

  constexpr Field in_tuple(const char* tuple, int part) const {
    Field f = *this;
    f.info.tuple = tuple, f.info.part = part;
    return f;
  }
  constexpr Field from(double least, double most) const {
    Field f = *this;
    f.info.least = least, f.info.most = most;
    return f;
  }
  constexpr Field above(double least) const {
    Field f = *this;
    f.info.least = least, f.info.least_open = true;
    return f;
  }
  constexpr Field below(double most) const {
    Field f = *this;
    f.info.most = most, f.info.most_open = true;
    return f;
  }
  constexpr Field one_of(std::span<const char* const> choices) const {
    Field f = from(0, static_cast<double>(choices.size()) - 1);
    f.info.choices = choices;
    return f;
  }
};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

/// The range defaults to finite values that are not negative.
template <class O, class T>
constexpr Field<O, T> field(const char* name, Option<T> O::*member) {
  using Kind = OptionInfo::Kind;
  OptionInfo info{name};
  info.most = highest;
  if constexpr (std::is_same_v<T, bool>) info.kind = Kind::flag, info.most = 1;
  else if constexpr (std::is_enum_v<T>) info.kind = Kind::choice;
  else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>>)
    info.kind = Kind::whole, info.most = 0x1p53;
  info.may_be_none = IsOptional<T>::value;
  return {info, member};
}

/// Specialised for each options struct: `name`, and `fields`, a tuple of Field in the order of Group::values.
template <class O>
struct Description;

/// The OptionInfo of each field of the struct.
template <class O>
constexpr auto infos = std::apply([](const auto&... f) { return std::array{f.info...}; }, Description<O>::fields);

template <class T>
double encoded(const T& value) {
  if constexpr (IsOptional<T>::value) return value ? static_cast<double>(*value) : std::nan("");
  else return static_cast<double>(value);
}
template <class T>
T decoded(double value) {
  if constexpr (IsOptional<T>::value) {
    if (value != value) return {};
    return T(static_cast<typename T::value_type>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    return static_cast<T>(value);
  }
}

/// The options as numbers. Options that are not set default to `others`, if not empty.
template <class O>
std::vector<double> values_of(const O& options, std::span<const double> others = {}) {
  std::vector<double> values;
  std::apply(
      [&](const auto&... f) {
        const auto add = [&]<class T>(const Option<T>& option) {
          const bool own = option.is_given() || others.empty();
          values.push_back(own ? encoded(static_cast<T>(option)) : others[values.size()]);
        };
        (add(options.*f.member), ...);
      },
      Description<O>::fields);
  return values;
}
template <class O>
O options_of(std::span<const double> values) {
  O options;
  size_t i = 0;
  const auto set = [&]<class T>(Option<T>& option) { option = Option<T>(decoded<T>(values[i++])); };
  std::apply([&](const auto&... f) { (set(options.*f.member), ...); }, Description<O>::fields);
  return options;
}

/// Raises ValueError if a value is out of range, or if options conflict.
void check_values(const Rule& rule, std::span<const double> values, Location where);
size_t find_option(const Rule& rule, std::string_view name, Location where);

/// The states of a step, from functors/optimizer_rows.hpp.
std::span<const char* const> states_of(OptimizerStep step);

/// The members of OptimizerOf, for its explicit instantiation.
template <class O>
const Rule& rule_of();

template <class O, class S>
OptimizerOf<O, S>::OptimizerOf(std::vector<Tensor> parameters, O options, Location where) : S(rule_of<O>()) {
  this->defaults_ = values_of(options);
  this->add_values(std::move(parameters), this->defaults_, where);
}
template <class O, class S>
OptimizerOf<O, S>::OptimizerOf(std::initializer_list<ParameterGroup<O>> groups, O options, Location where)
    : OptimizerOf(std::span<const ParameterGroup<O>>(groups.begin(), groups.size()), std::move(options), where) {}
template <class O, class S>
OptimizerOf<O, S>::OptimizerOf(std::span<const ParameterGroup<O>> groups, O options, Location where) : S(rule_of<O>()) {
  this->defaults_ = values_of(options);
  if (groups.empty()) this->add_values({}, this->defaults_, where);
  for (const ParameterGroup<O>& group : groups) add_group(group.parameters, group.options, where);
}
template <class O, class S>
void OptimizerOf<O, S>::add_group(std::vector<Tensor> parameters, O options, Location where) {
  this->add_values(std::move(parameters), values_of(options, this->defaults_), where);
}
template <class O, class S>
std::span<const OptionInfo> OptimizerOf<O, S>::option_list() {
  return rule_of<O>().options;
}
template <class O, class S>
O OptimizerOf<O, S>::options(size_t group) const {
  return options_of<O>(this->groups_[group].values);
}

template <class O>
O options_named(const NamedOptions& named, Location where) {
  std::vector<double> values = values_of(O());
  std::vector<bool> given(values.size());
  for (const auto& [name, value] : named) {
    const size_t i = find_option(rule_of<O>(), name, where);
    values[i] = value, given[i] = true;
  }
  check_values(rule_of<O>(), values, where);
  O options;
  size_t i = 0;
  const auto set = [&]<class T>(Option<T>& option) {
    if (given[i]) option = Option<T>(decoded<T>(values[i]));
    ++i;
  };
  std::apply([&](const auto&... f) { (set(options.*f.member), ...); }, Description<O>::fields);
  return options;
}

}  // namespace weft::optim
