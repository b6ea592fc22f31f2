#include "config.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../tensor/error.hpp"
#include "../tensor/shortened.hpp"
#include "attribute_value-inl.hpp"
#include "layer-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

using Value = Attribute::Value;
using Type = Attribute::Type;

template <class T>
Shared<const Value> holding(T value) {
  return Shared<Value>::make(Value{std::move(value)});
}

Shared<const Value> holding(Scalar value) {
  if (value.is_bool()) return holding(value.to<bool>());
  if (value.is_floating()) return holding(value.to<double>());
  return holding(value.to<int64_t>());
}

template <class T>
const T* held(const Attribute& a) {
  return a.value() == nullptr ? nullptr : std::get_if<T>(&a.value()->held);
}

template <class T>
bool assign_if_held(const Attribute& a, T& out) {
  const T* value = held<T>(a);
  if (value != nullptr) out = *value;
  return value != nullptr;
}

bool is_number_text(const std::string& text, double& out) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (text == "NaN") out = std::numeric_limits<double>::quiet_NaN();
  else if (text == "Infinity" || text == "-Infinity") out = text == "Infinity" ? infinity : -infinity;
  else return false;
  return true;
}

std::string quoted(const std::string& text) { return fmt::format("'{}'", text); }

}  // namespace

Attribute::Attribute(Scalar value) : value_(holding(value)) {
  if (value.held_as() != DType::u64 || value.to<int64_t>() >= 0) return;
  raise<ValueError>({.op = "nn::Attribute", .problem = fmt::format("{} is no 64-bit integer", value.to<uint64_t>())},
                    Location::none());
}
Attribute::Attribute(std::string text) : value_(holding(std::move(text))) {}
Attribute::Attribute(const Dims& list) : value_(holding(std::vector<int64_t>(list.begin(), list.end()))) {}
Attribute::Attribute(std::vector<int64_t> list) : value_(holding(std::move(list))) {}
Attribute::Attribute(std::vector<int32_t> list) : value_(holding(std::move(list))) {}
Attribute::Attribute(std::vector<double> list) : value_(holding(std::move(list))) {}
Attribute::Attribute(std::vector<bool> list) : value_(holding(std::move(list))) {}
Attribute::Attribute(std::vector<std::string> list) : value_(holding(std::move(list))) {}

Attribute::Type Attribute::type() const {
  return value_ == nullptr ? Type::none : static_cast<Type>(value_->held.index());
}

bool Attribute::read(bool& out) const { return assign_if_held(*this, out); }
bool Attribute::read(int64_t& out) const { return assign_if_held(*this, out); }
bool Attribute::read(std::string& out) const { return assign_if_held(*this, out); }
bool Attribute::read(std::vector<bool>& out) const { return assign_if_held(*this, out); }
bool Attribute::read(std::vector<std::string>& out) const { return assign_if_held(*this, out); }

bool Attribute::read(int& out) const {
  int64_t wide = 0;
  if (!read(wide) || static_cast<int>(wide) != wide) return false;
  out = static_cast<int>(wide);
  return true;
}

bool Attribute::read(double& out) const {
  if (const auto* integer = held<int64_t>(*this)) out = static_cast<double>(*integer);
  else if (const auto* text = held<std::string>(*this)) return is_number_text(*text, out);
  else return assign_if_held(*this, out);
  return true;
}

bool Attribute::read(Scalar& out) const {
  double number = 0;
  if (const auto* integer = held<int64_t>(*this)) out = *integer;
  else if (const auto* boolean = held<bool>(*this)) out = *boolean;
  else if (read(number)) out = number;
  else return false;
  return true;
}

bool Attribute::read(std::vector<int64_t>& out) const {
  if (const auto* one = held<int64_t>(*this)) out = {*one};
  else if (const auto* narrow = held<std::vector<int32_t>>(*this)) out.assign(narrow->begin(), narrow->end());
  else return assign_if_held(*this, out);
  return true;
}

bool Attribute::read(Dims& out) const {
  std::vector<int64_t> list;
  if (!read(list) || list.size() > static_cast<size_t>(max_rank)) return false;
  out = Dims(list);
  return true;
}

bool Attribute::read(std::vector<double>& out) const {
  double one = 0;
  std::vector<int64_t> integers;
  if (assign_if_held(*this, out)) return true;
  if (read(one)) out = {one};
  else if (read(integers)) out.assign(integers.begin(), integers.end());
  else return false;
  return true;
}

void Attribute::raise_other_type(std::string_view option, const char* wanted, Location where) const {
  const std::string name = option.empty() ? "value" : fmt::format("option \"{}\"", option);
  raise<ValueError>({.op = "nn::Config", .problem = mismatch_text(name, wanted, shortened(text(), 100))}, where);
}

Attribute Attribute::as(Type wanted, Location where) const {
  if (wanted == type()) return *this;
  switch (wanted) {
    case Type::f64:
      return to<double>(where);
    case Type::i64s:
      return to<std::vector<int64_t>>(where);
    case Type::f64s:
      return to<std::vector<double>>(where);
    case Type::i64:
      if (const auto* number = held<double>(*this); number != nullptr && std::abs(*number) < 0x1p62) {
        if (std::trunc(*number) == *number) return static_cast<int64_t>(*number);
      }
      break;
    case Type::i32s: {
      const auto wide = to<std::vector<int64_t>>(where);
      const auto fits = [](int64_t n) { return static_cast<int32_t>(n) == n; };
      if (std::ranges::all_of(wide, fits)) return std::vector<int32_t>(wide.begin(), wide.end());
      break;
    }
    case Type::texts:
      if (const auto* text = held<std::string>(*this)) return std::vector<std::string>{*text};
      break;
    case Type::booleans:
      if (const auto* boolean = held<bool>(*this)) return std::vector<bool>{*boolean};
      break;
    default:
      break;
  }
  raise_other_type("", "of that type", where);
}

namespace {

std::string python_text(bool value) { return python_bool(value); }
std::string python_text(int64_t value) { return std::to_string(value); }
std::string python_text(double value) { return python_float(value); }
std::string python_text(const std::string& value) { return quoted(value); }
std::string python_text(std::monostate) { return "None"; }

template <class T>
std::string python_text(const std::vector<T>& list) {
  std::vector<std::string> items;
  for (const auto& item : list) items.push_back(python_text(item));
  return items.size() == 1 ? items[0] : fmt::format("({})", fmt::join(items, ", "));
}
template <>
std::string python_text(const std::vector<int32_t>& list) {
  return python_text(std::vector<int64_t>(list.begin(), list.end()));
}

bool same(double a, double b) { return a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b; }

}  // namespace

std::string Attribute::text() const {
  if (value_ == nullptr) return "None";
  return std::visit([](const auto& value) { return python_text(value); }, value_->held);
}

bool Attribute::operator==(const Attribute& other) const {
  if (type() != other.type()) return false;
  if (value_ == nullptr) return true;
  if (const auto* number = held<double>(*this)) return same(*number, *held<double>(other));
  if (const auto* list = held<std::vector<double>>(*this)) {
    return std::ranges::equal(*list, *held<std::vector<double>>(other), same);
  }
  return value_->held == other.value_->held;
}

Config::Config(std::initializer_list<Option> options) : options_(options) {
  for (size_t i = 0; i < options_.size(); ++i) {
    const std::string& name = options_[i].name;
    if (!name.empty() && find(name) == &options_[i].value) continue;
    raise<ValueError>(
        {.op = "nn::Config", .problem = fmt::format("the option \"{}\" is there twice or has no name", name)},
        Location::none());
  }
}

const Attribute* Config::find(std::string_view name) const {
  const auto found = std::ranges::find(options_, name, &Option::name);
  return found == options_.end() ? nullptr : &found->value;
}

const Attribute& Config::required(std::string_view name, Location where) const {
  if (const Attribute* found = find(name)) return *found;
  raise<KeyError>({.op = "nn::Config", .problem = fmt::format("there is no option \"{}\"", name)}, where);
}

size_t Config::choice(std::string_view name, std::span<const std::string_view> names, Location where) const {
  const auto given = get<std::string>(name, where);
  const auto found = std::ranges::find(names, given);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  raise<ValueError>(
      {.op = "nn::Config",
       .problem = mismatch_text(fmt::format("option \"{}\"", name), fmt::format("one of {}", fmt::join(names, ", ")),
                                in_quotes(shortened(given, 100)))},
      where);
}

void Config::set(std::string_view name, Attribute value) {
  const auto found = std::ranges::find(options_, name, &Option::name);
  if (found != options_.end()) found->value = std::move(value);
  else options_.push_back({std::string(name), std::move(value)});
}

bool Config::rename(std::string_view from, std::string_view to) {
  if (!contains(from)) return false;
  if (from != to) remove(to);
  std::ranges::find(options_, from, &Option::name)->name = to;
  return true;
}

bool Config::remove(std::string_view name) {
  return std::erase_if(options_, [name](const Option& option) { return option.name == name; }) > 0;
}

std::string Config::text(size_t bare) const {
  std::vector<std::string> items;
  for (const auto& [name, value] : options_) {
    items.push_back(items.size() < bare ? value.text() : fmt::format("{}={}", name, value.text()));
  }
  return fmt::format("{}", fmt::join(items, ", "));
}

}  // namespace weft::nn
