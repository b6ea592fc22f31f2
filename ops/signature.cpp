// Taking a record's schema apart.
#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "detail/signature.hpp"
#include "../tensor/error.hpp"

namespace weft {

namespace {

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

// Parts between separators outside of brackets and quotes.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    if (c == '\'') quoted = !quoted;
    if (!quoted) depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (c == separator && depth == 0 && !quoted) parts.push_back(trimmed(std::exchange(part, {})));
    else part += c;
  }
  if (!trimmed(part).empty()) parts.push_back(trimmed(part));
  return parts;
}

[[noreturn]] void refuse(std::string_view schema, const std::string& problem) {
  raise<ValueError>({.op = "signature", .problem = fmt::format("the schema \"{}\" {}", schema, problem)},
                    Location::none());
}

// "(0, 1)"
Value parse_tuple(const std::string& text, std::string_view schema) {
  Dims dims;
  for (const std::string& part : split(text.substr(1, text.size() - 2), ',')) {
    int64_t value = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), value);
    if (read.ec != std::errc() || read.ptr != part.data() + part.size()) {
      refuse(schema, fmt::format("has a default {} that is no list of integers", text));
    }
    dims.push_back(value);
  }
  return dims;
}

// A literal of Python's.
Value parse_literal(const std::string& text, std::string_view schema) {
  if (text == "None") return {};
  if (text == "True" || text == "False") return text == "True";
  if (text.size() >= 2 && text.front() == '(' && text.back() == ')') return parse_tuple(text, schema);
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') return text.substr(1, text.size() - 2);
  const char *const begin = text.data(), *const end = begin + text.size();
  int64_t whole = 0;
  if (const auto read = std::from_chars(begin, end, whole); read.ec == std::errc() && read.ptr == end) return whole;
  double number = 0;
  if (const auto read = std::from_chars(begin, end, number); read.ec == std::errc() && read.ptr == end) return number;
  refuse(schema, fmt::format("has a default {} that is no literal", text));
}

// Those that have a value for "none": an undefined tensor, an empty list, no generator.
constexpr ArgumentType::Kind may_be_none[] = {ArgumentType::Kind::any, ArgumentType::Kind::tensor,
                                              ArgumentType::Kind::dims, ArgumentType::Kind::generator};

// The text after the colon in "axis: int = 0"; empty if there is none.
std::string annotation_in(const std::string& part) {
  const std::string before = part.substr(0, part.find('='));
  const size_t colon = before.find(':');
  return colon == before.npos ? std::string() : trimmed(before.substr(colon + 1));
}

ArgumentType type_named(std::string text, std::string_view schema) {
  using Kind = ArgumentType::Kind;
  static const std::map<std::string_view, Kind> kinds = {
      {"Tensor", Kind::tensor}, {"Tensor[]", Kind::tensors}, {"operand", Kind::operand},     {"bool", Kind::boolean},
      {"int", Kind::integer},   {"float", Kind::number},     {"int[]", Kind::dims},          {"dtype", Kind::dtype},
      {"device", Kind::device}, {"str", Kind::text},         {"Generator", Kind::generator}, {"any", Kind::any}};
  const bool optional = text.back() == '?';
  if (optional) text.pop_back();
  const auto found = kinds.find(text);
  if (found == kinds.end()) refuse(schema, fmt::format("has a type {} that is none", text));
  return {found->second, optional};
}

Argument parse_argument(std::string part, ArgumentType type, std::string_view schema) {
  Argument argument;
  argument.type = type;
  argument.variadic = part[0] == '*';
  argument.written = part[0] == '&';
  if (argument.variadic || argument.written) part = part.substr(1);
  const size_t equals = part.find('=');
  argument.required = equals == part.npos;
  if (!argument.required) {
    argument.default_text = trimmed(part.substr(equals + 1));
    argument.default_value = parse_literal(argument.default_text, schema);
    if (std::holds_alternative<std::monostate>(argument.default_value) && !type.optional &&
        std::ranges::find(may_be_none, type.kind) == std::end(may_be_none)) {
      refuse(schema, fmt::format("has no default for {}, and its function none either", part));
    }
  }
  const std::string names = part.substr(0, equals);
  argument.aliases = split(names.substr(0, names.find(':')), '|');
  if (argument.aliases.empty()) refuse(schema, "has an argument without a name");
  argument.name = argument.aliases.front();
  argument.aliases.erase(argument.aliases.begin());
  return argument;
}

void add_aliases(Signature& signature, Argument& argument, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (signature.find(name) == nullptr) argument.aliases.emplace_back(name);
  }
}

void add_conventional_aliases(Signature& signature) {
  using Kind = ArgumentType::Kind;
  for (Argument& argument : signature.arguments) {
    if (argument.name == "dim") add_aliases(signature, argument, {"axis"});
    if (argument.name == "dims") add_aliases(signature, argument, {"axis", "axes"});
    if (argument.name == "keepdim") add_aliases(signature, argument, {"keepdims"});
  }
  if (signature.arguments.empty()) return;
  Argument& first = signature.arguments.front();
  if (first.type.kind == Kind::tensor || first.type.kind == Kind::operand)
    add_aliases(signature, first, {"input", "self"});
}

std::string text_of(std::string_view name, const Signature& signature) {
  std::string text(name);
  bool keyword_only = false;
  const char* separator = "(";
  for (const Argument& argument : signature.arguments) {
    if (argument.keyword_only && !keyword_only && (text += std::exchange(separator, ", "), true)) text += "*";
    keyword_only = argument.keyword_only || argument.variadic;
    text += fmt::format("{}{}{}", std::exchange(separator, ", "), argument.variadic ? "*" : "", argument.name);
    if (!argument.required && !argument.variadic) text += "=" + argument.default_text;
  }
  return text + (signature.arguments.empty() ? "()" : ")");
}

// The parts of "name(x, *, y=1)" between the brackets.
std::vector<std::string> arguments_in(std::string_view schema) {
  const std::string_view call = schema.substr(0, schema.find(" -> "));
  const size_t open = call.find('(');
  if (open == call.npos || call.back() != ')') refuse(schema, "is none");
  return split(call.substr(open + 1, call.size() - open - 2), ',');
}

}  // namespace

std::vector<std::optional<ArgumentType>> annotations_in(std::string_view schema) {
  std::vector<std::optional<ArgumentType>> types;
  for (const std::string& part : arguments_in(schema)) {
    if (part == "*") continue;
    const std::string text = annotation_in(part);
    types.push_back(text.empty() ? std::nullopt : std::optional(type_named(text, schema)));
  }
  return types;
}

Signature parse_schema(std::string_view schema, std::span<const ArgumentType> types) {
  Signature signature;
  bool keyword_only = false;
  for (const std::string& part : arguments_in(schema)) {
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    const size_t i = signature.arguments.size();
    if (i == types.size()) refuse(schema, "names more arguments than the function takes");
    signature.arguments.push_back(parse_argument(part, types[i], schema));
    signature.arguments.back().keyword_only = keyword_only;
    keyword_only = keyword_only || signature.arguments.back().variadic;
  }
  if (signature.arguments.size() != types.size()) refuse(schema, "names fewer arguments than the function takes");
  if (const size_t arrow = schema.find(" -> "); arrow != schema.npos) {
    const std::string_view results = schema.substr(arrow + 4);
    if (results.size() < 3 || results.front() != '(' || results.back() != ')') {
      refuse(schema, "does not name its results in brackets");
    }
    signature.results = split(results.substr(1, results.size() - 2), ',');
  }
  add_conventional_aliases(signature);
  signature.text = text_of(schema.substr(0, schema.find('(')), signature);
  return signature;
}

bool Argument::answers_to(std::string_view keyword) const {
  return name == keyword || std::ranges::find(aliases, keyword) != aliases.end();
}

const Argument* Signature::find(std::string_view keyword) const {
  const auto found =
      std::ranges::find_if(arguments, [&](const Argument& argument) { return argument.answers_to(keyword); });
  return found == arguments.end() ? nullptr : &*found;
}

const Signature& OpRecord::signature() const {
  static std::mutex mutex;
  static std::map<const char*, Signature> parsed;
  const std::lock_guard lock(mutex);
  const auto found = parsed.find(schema);
  return found != parsed.end() ? found->second
                               : parsed.emplace(schema, parse_schema(schema, function.types)).first->second;
}

Value OpRecord::call(std::span<const Value> given) const {
  const std::vector<Argument>& arguments = signature().arguments;
  Values values(given.begin(), given.end());
  values.resize(std::max(values.size(), arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!std::holds_alternative<std::monostate>(values[i])) continue;
    if (arguments[i].required) throw BadArgument(static_cast<int>(i));
    values[i] = arguments[i].default_value;
  }
  const CallScope call(name, Location::none());  // for errors before the op's own
  return function(values);
}

}  // namespace weft
