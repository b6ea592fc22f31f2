// JSON as a tree of values. Internal to io/ and data/. The library's own tree allocates where it is destroyed, so that
// a failed allocation would end the process.
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
  /// A text, or a number as it was written: a floating one, or an integer beyond 64 bits with a sign.
  std::string text = {};
  /// Of a list without names.
  Items items = {};

  static JsonTree of(bool value) { return {.kind = Kind::boolean, .boolean = value}; }
  static JsonTree of(int64_t value) { return {.kind = Kind::integer, .integer = value}; }
  static JsonTree of(std::string text) { return {.kind = Kind::text, .text = std::move(text)}; }
  static JsonTree of(const char* text) { return of(std::string(text)); }
  /// "NaN", "Infinity" and "-Infinity" where it is not finite.
  static JsonTree of(double value);
  static JsonTree list() { return {.kind = Kind::list}; }
  static JsonTree object() { return {.kind = Kind::object}; }

  bool is(Kind wanted) const { return kind == wanted; }
  /// Null where there is none of this name.
  const JsonTree* find(std::string_view name) const;
  /// The field of an object, which is added where it is missing.
  JsonTree& operator[](std::string_view name);
  /// Adds to a list, which a null becomes.
  void add(JsonTree item);
};

/// FormatError, with the byte or the name, for malformed text, two fields of one name in an object, more than 500
/// levels and more than 100 MB. `place` stands before what the error says.
JsonTree parse_json(std::string_view text, const char* op, Location where, std::string_view place = {});

/// A value of a tree and the way to it, "model.children[0].config". What is not as it is asked for is a FormatError
/// with that way.
class JsonPlace {
 public:
  JsonPlace(const JsonTree& json, const char* op, Location where) : JsonPlace(json, {}, op, where) {}

  [[noreturn]] void fail(const std::string& problem) const;
  const JsonTree& json() const { return json_; }

  /// The place itself where it is an object.
  const JsonPlace& object() const;
  bool has(std::string_view name) const { return json_.find(name) != nullptr; }
  JsonPlace at(const std::string& name) const;
  std::string text() const;
  bool boolean() const;
  int64_t integer() const;
  /// Of an integer too, and of "NaN", "Infinity" and "-Infinity".
  double number() const;
  /// Calls `read` with each item of a list.
  template <class Read>
  void each(Read&& read) const {
    if (!json_.is(JsonTree::Kind::list)) fail("it is no list");
    for (size_t i = 0; i < json_.items.size(); ++i) {
      read(JsonPlace(json_.items[i].second, path_ + '[' + std::to_string(i) + ']', op_, where_));
    }
  }
  /// Calls `read` with the name and the place of each field of an object.
  template <class Read>
  void each_field(Read&& read) const {
    for (const auto& [name, value] : object().json_.items) read(name, at(name));
  }

 private:
  JsonPlace(const JsonTree& json, std::string path, const char* op, Location where)
      : json_(json), path_(std::move(path)), op_(op), where_(where) {}

  const JsonTree& json_;
  std::string path_;
  const char* op_;
  Location where_;
};

/// Lists and objects of single values on one line, others with a line for each value. ValueError for a text that is not
/// UTF-8.
std::string json_text(const JsonTree& tree, const char* op, Location where);

}  // namespace weft::io
