// The options that a module was made with, by name, as a file of a model keeps them.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../tensor/dims.hpp"
#include "../tensor/location.hpp"
#include "../tensor/scalar.hpp"
#include "../tensor/shared.hpp"

namespace weft::nn {

namespace detail {
template <class T>
constexpr const char* type_words() {
  if (std::same_as<T, bool> || std::same_as<T, std::optional<bool>>) return "a bool";
  if (std::integral<T> || std::same_as<T, std::optional<int64_t>>) return "an integer";
  if (std::floating_point<T> || std::same_as<T, std::optional<double>> || std::same_as<T, Scalar>) return "a number";
  if (std::same_as<T, std::string> || std::same_as<T, std::optional<std::string>>) return "a text";
  return "such a list";
}
}  // namespace detail

/// The value of an option, which knows its type: nothing, a bool, a number, a text, or a list of one of those. A list
/// keeps the type of its elements where it is empty.
class WEFT_API Attribute {
 public:
  enum class Type : uint8_t { none, boolean, i64, f64, text, booleans, i32s, i64s, f64s, texts };

  Attribute() = default;
  template <std::integral T>
  Attribute(T value) : Attribute(Scalar(value)) {}
  template <std::floating_point T>
  Attribute(T value) : Attribute(Scalar(value)) {}
  Attribute(Scalar value);
  Attribute(const char* text) : Attribute(std::string(text)) {}
  Attribute(std::string text);
  Attribute(std::string_view text) : Attribute(std::string(text)) {}
  Attribute(const Dims& list);
  Attribute(std::vector<int64_t> list);
  Attribute(std::vector<int32_t> list);
  Attribute(std::vector<double> list);
  Attribute(std::vector<bool> list);
  Attribute(std::vector<std::string> list);
  template <class T>
  Attribute(const std::optional<T>& value) : Attribute(value ? Attribute(*value) : Attribute()) {}

  Type type() const;
  /// As a bool, int, int64_t, double, Scalar, std::string, Dims, a vector of int64_t, double, bool or std::string, or
  /// an optional of one of those. An integer serves as a double and as a list of one, and "NaN", "Infinity" and
  /// "-Infinity" are doubles. ValueError for any other type than the value's.
  template <class T>
  T to(Location where = {}) const {
    T out{};
    if (!read(out)) raise_other_type("", detail::type_words<T>(), where);
    return out;
  }
  /// The same value as another type: an integer as a double, numbers element by element, a number or a text as a list
  /// of one. ValueError where the type does not fit, or a number is lost.
  Attribute as(Type type, Location where = {}) const;

  /// As Python writes it: "True", "1e-05", "'same'", "(3, 3)"; a list of one number is that number.
  std::string text() const;
  /// Of the same type and value; NaN equals NaN.
  bool operator==(const Attribute& other) const;

  struct Value;
  /// Null for none. For what writes and reads files.
  const Value* value() const { return value_.get(); }

 private:
  friend class Config;
  bool read(bool& out) const;
  bool read(int& out) const;
  bool read(int64_t& out) const;
  bool read(double& out) const;
  bool read(Scalar& out) const;
  bool read(std::string& out) const;
  bool read(Dims& out) const;
  bool read(std::vector<int64_t>& out) const;
  bool read(std::vector<double>& out) const;
  bool read(std::vector<bool>& out) const;
  bool read(std::vector<std::string>& out) const;
  template <class T>
  bool read(std::optional<T>& out) const {
    return type() == Type::none || read(out.emplace());
  }
  [[noreturn]] void raise_other_type(std::string_view option, const char* wanted, Location where) const;

  Shared<const Value> value_;
};

/// Options in order.
class WEFT_API Config {
 public:
  struct Option {
    std::string name;
    Attribute value;
  };

  Config() = default;
  /// ValueError for a name that is empty or occurs twice.
  Config(std::initializer_list<Option> options);

  const std::vector<Option>& options() const { return options_; }
  bool empty() const { return options_.empty(); }
  /// Null where there is none of this name.
  const Attribute* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Attribute::to of an option. KeyError where there is none of this name; ValueError, with the name, for another
  /// type.
  template <class T>
  T get(std::string_view name, Location where = {}) const {
    return read<T>(name, required(name, where), where);
  }
  /// The same, or `otherwise` where there is no such option.
  template <class T>
  T get_or(std::string_view name, T otherwise, Location where = {}) const {
    const Attribute* found = find(name);
    return found != nullptr ? read<T>(name, *found, where) : otherwise;
  }
  /// The place of a text in a list of names. Errors as get; ValueError for a text that is none of them.
  size_t choice(std::string_view name, std::span<const std::string_view> names, Location where = {}) const;
  size_t choice(std::string_view name, std::initializer_list<std::string_view> names, Location where = {}) const {
    return choice(name, std::span(names.begin(), names.size()), where);
  }

  /// Replaces the option, or adds it behind the others.
  void set(std::string_view name, Attribute value);
  /// False where there is none of this name. The new name takes the place of the old one.
  bool rename(std::string_view from, std::string_view to);
  bool remove(std::string_view name);

  /// "in_features=2, bias=True"; the first `bare` options without their names.
  std::string text(size_t bare = 0) const;

 private:
  const Attribute& required(std::string_view name, Location where) const;
  template <class T>
  static T read(std::string_view name, const Attribute& value, Location where) {
    T out{};
    if (!value.read(out)) value.raise_other_type(name, detail::type_words<T>(), where);
    return out;
  }

  std::vector<Option> options_;
};

}  // namespace weft::nn
