// The options of a module, by name, as saved in model files.
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

/// A typed option value: none, bool, number, text, or a list of one of those. An empty list keeps its element type.
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
  /// Converts to bool, int, int64_t, double, Scalar, std::string, Dims, a vector of int64_t, double, bool or
  /// std::string, or an optional of one of those. An integer converts to double and to a list of one element; "NaN",
  /// "Infinity" and "-Infinity" convert to double. Raises ValueError for any other type than the value's.
  template <class T>
  T to(Location where = {}) const {
    T out{};
    if (!read(out)) raise_other_type("", detail::type_words<T>(), where);
    return out;
  }
  /// Converts to another type: an integer to a double, numbers element by element, a number or a text to a list of one
  /// element. Raises ValueError if the type does not match, or if a value would change.
  Attribute as(Type type, Location where = {}) const;

  /// The value in Python's syntax: "True", "1e-05", "'same'", "(3, 3)"; a list of one number is printed as that number.
  std::string text() const;
  /// Compares type and value; NaN equals NaN.
  bool operator==(const Attribute& other) const;

  struct Value;
  /// The stored value, for file readers and writers; null for none.
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

/// An ordered list of options.
class WEFT_API Config {
 public:
  struct Option {
    std::string name;
    Attribute value;
  };

  Config() = default;
  /// Raises ValueError for an empty or repeated name.
  Config(std::initializer_list<Option> options);

  const std::vector<Option>& options() const { return options_; }
  bool empty() const { return options_.empty(); }
  /// The option of this name, or null.
  const Attribute* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Returns an option as T, see Attribute::to. Raises KeyError if it does not exist; ValueError, with the name, for
  /// another type.
  template <class T>
  T get(std::string_view name, Location where = {}) const {
    return read<T>(name, required(name, where), where);
  }
  /// As `get`, but returns `otherwise` if the option does not exist.
  template <class T>
  T get_or(std::string_view name, T otherwise, Location where = {}) const {
    const Attribute* found = find(name);
    return found != nullptr ? read<T>(name, *found, where) : otherwise;
  }
  /// The index in `names` of an option's text. Raises the errors of get; ValueError for a text that is not in the list.
  size_t choice(std::string_view name, std::span<const std::string_view> names, Location where = {}) const;
  size_t choice(std::string_view name, std::initializer_list<std::string_view> names, Location where = {}) const {
    return choice(name, std::span(names.begin(), names.size()), where);
  }

  /// Replaces the option, or appends it.
  void set(std::string_view name, Attribute value);
  /// Renames an option and keeps its position. Returns false if there is none of this name.
  bool rename(std::string_view from, std::string_view to);
  bool remove(std::string_view name);

  /// "in_features=2, bias=True"; the first `bare` options are printed without names.
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
