// Options of optimizers: a value with a default, and the description of each option for checks, groups, files and
// Python.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace weft::optim {

/// An option that is set, or a default. Options that a group does not set default to the optimizer's.
template <class T>
class Option {
 public:
  constexpr Option(T value) : value_(value), given_(true) {}
  template <class U>
    requires(std::is_arithmetic_v<U>&& std::is_arithmetic_v<T> && !std::is_same_v<U, T>)
  constexpr Option(U value) : Option(static_cast<T>(value)) {}
  template <class U>
    requires(std::is_arithmetic_v<U>&& std::is_constructible_v<T, U> && !std::is_arithmetic_v<T>)
  constexpr Option(U value) : Option(T(static_cast<typename T::value_type>(value))) {}

  static constexpr Option otherwise(T value) {
    Option option(value);
    option.given_ = false;
    return option;
  }

  constexpr operator T() const { return value_; }
  constexpr bool is_given() const { return given_; }

 private:
  T value_;
  bool given_;
};

/// The default of an option: `Option<double> lr = otherwise(1e-3);`
template <class T>
struct Otherwise {
  T value;
  template <class U>
  constexpr operator Option<U>() const {
    return Option<U>::otherwise(static_cast<U>(value));
  }
};
template <class T>
constexpr Otherwise<T> otherwise(T value) {
  return {value};
}

/// The description of an option.
struct OptionInfo {
  enum class Kind : uint8_t { real, whole, flag, choice };
  const char* name;  ///< "lr", "beta1"
  Kind kind = Kind::real;
  /// The range of values; an open end is excluded.
  double least = 0, most = 0;
  bool least_open = false, most_open = false;
  bool may_be_none = false;  ///< none is stored as NaN
  /// For an option that is an element of a tuple in Python: the tuple's name, "betas", and the index.
  const char* tuple = nullptr;
  int part = 0;
  /// The names of a choice's values 0, 1, …
  std::span<const char* const> choices = {};
};

/// Options by name. Flags are 0 and 1, a choice is its index, and none is NaN.
using NamedOptions = std::map<std::string, double>;

}  // namespace weft::optim
