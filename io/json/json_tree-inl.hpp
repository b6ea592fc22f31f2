// JSON as a tree of values. Internal to io/ and data/. nlohmann's tree allocates in its destructor, where a failed
// allocation would end the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../tensor/error.hpp"

namespace weft::io {

struct JsonTree {
  enum class Kind : uint8_t { null, boolean, integer, floating, text, list, object };
  using Items = std::vector<std::pair<std::string, JsonTree>>;

  Kind kind = Kind::null;
  bool boolean = false;
  int64_t integer = 0;
  /// A text, or the literal of a floating-point number or of an integer beyond 64 bits.
  std::string text = {};
  /// The names are empty in a list.
  Items items = {};

  static JsonTree of(bool value) { return {.kind = Kind::boolean, .boolean = value}; }
  static JsonTree of(int64_t value) { return {.kind = Kind::integer, .integer = value}; }
  static JsonTree of(std::string text) { return {.kind = Kind::text, .text = std::move(text)}; }
  static JsonTree of(const char* text) { return of(std::string(text)); }
  /// "NaN", "Infinity" or "-Infinity" if it is not finite.
  static JsonTree of(double value);
  static JsonTree list() { return {.kind = Kind::list}; }
  static JsonTree object() { return {.kind = Kind::object}; }

  bool is(Kind wanted) const { return kind == wanted; }
  /// Returns null if the field is missing.
  const JsonTree* find(std::string_view name) const;
  /// Returns a field of an object; adds it if it is missing.
  JsonTree& operator[](std::string_view name);
  /// Appends to a list; a null becomes a list.
  void add(JsonTree item);
};

/// Raises FormatError, with the byte or the name, for malformed text, duplicate field names in an object, more than 500
/// levels and more than 100 MB. `place` is the prefix of the error message.
JsonTree parse_json(std::string_view text, const char* op, Location where, std::string_view place = {});

/// A value of a tree with its path, "model.children[0].config". Accessors raise FormatError with the path if the type
/// does not match.
class JsonNode {
 public:
  JsonNode(const JsonTree& json, const char* op, Location where) : JsonNode(json, {}, op, where) {}

  [[noreturn]] void fail(const std::string& problem) const;
  const JsonTree& json() const { return json_; }

  /// Returns *this if it is an object.
  const JsonNode& object() const;
  bool has(std::string_view name) const { return json_.find(name) != nullptr; }
  JsonNode at(const std::string& name) const;
  std::string text() const;
  bool boolean() const;
  int64_t integer() const;
  /// Also accepts an integer, "NaN", "Infinity" and "-Infinity".
  double number() const;
  template <class Read>
  void each(Read&& read) const {
    if (!json_.is(JsonTree::Kind::list)) fail("it is no list");
    for (size_t i = 0; i < json_.items.size(); ++i) {
      read(JsonNode(json_.items[i].second, path_ + '[' + std::to_string(i) + ']', op_, where_));
    }
  }
  template <class Read>
  void each_field(Read&& read) const {
    for (const auto& [name, value] : object().json_.items) read(name, at(name));
  }

 private:
  JsonNode(const JsonTree& json, std::string path, const char* op, Location where)
      : json_(json), path_(std::move(path)), op_(op), where_(where) {}

  const JsonTree& json_;
  std::string path_;
  const char* op_;
  Location where_;
};

/// Formats a tree: lists and objects of scalars on one line, others with one line per value. Raises ValueError for a
/// text that is not UTF-8.
std::string json_text(const JsonTree& tree, const char* op, Location where);

}  // namespace weft::io
