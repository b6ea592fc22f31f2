// Options of optimizers: a value that was given or a default, and what is said of each option once, for checks, groups,
// files and Python.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace weft::optim {

/// A value that was given, or the default of who declared it. A group takes what it was not given from its optimizer.
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

/// `Option<double> lr = otherwise(1e-3);`
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

/// What an optimizer says of one of its options.
struct OptionInfo {
  enum class Kind : uint8_t { real, whole, flag, choice };
  const char* name;  ///< "lr", "beta1"
  Kind kind = Kind::real;
  /// The numbers that it may have; an open end is excluded.
  double least = 0, most = 0;
  bool least_open = false, most_open = false;
  bool may_be_none = false;  ///< held as NaN then
  /// Python's name where it is a part of a tuple, "betas", and which part.
  const char* tuple = nullptr;
  int part = 0;
  /// The names of a choice's values 0, 1, …
  std::span<const char* const> choices = {};
};

/// Options by name; flags are 0 and 1, a choice is its number, and none is NaN.
using NamedOptions = std::map<std::string, double>;

}  // namespace weft::optim
