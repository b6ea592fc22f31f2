// What reads JSON by events, without a tree of values. Internal to io/.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

namespace weft::io {

/// A reader that takes some kinds of values, where they belong, and asks `other` about all the rest.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a bool"); }
  bool number_integer(number_integer_t) override { return other("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a fraction"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    if (dynamic_cast<const nlohmann::detail::out_of_range*>(&error) != nullptr) number_too_large(byte);
    malformed(byte - std::min<size_t>(byte, 1));
    return false;
  }

  /// Reads a whole text.
  void read(std::string_view text, size_t most_bytes) {
    if (text.size() > most_bytes) fail("it has " + std::to_string(text.size()) + " bytes");
    // The parser would take a zero byte for the end.
    if (const size_t zero = text.find('\0'); zero != text.npos) malformed(zero);
    nlohmann::json::sax_parse(text, this);
  }

 protected:
  [[noreturn]] virtual void fail(const std::string& problem) const = 0;
  /// Raises; bytes are counted from 0.
  virtual void malformed(size_t byte) const { fail("it is no JSON at byte " + std::to_string(byte)); }
  virtual void number_too_large(size_t byte) const { malformed(byte - std::min<size_t>(byte, 1)); }
  /// A value where none of its kind belongs: raises, or returns true to pass over it.
  virtual bool other(const char* kind) const = 0;
};

/// One that knows which lists and objects it stands in, as values of an enum, and no name occurs twice in an object.
template <class Place>
class JsonReader : public JsonEvents {
 public:
  bool end_array() override {
    places_.pop_back();
    return true;
  }

 protected:
  /// The way to the value that is being read, and to a field of the object that is.
  virtual std::string path_to_value() const = 0;
  virtual std::string path_to(const std::string& key) const = 0;

  bool is_outside() const { return places_.empty(); }
  Place innermost(Place outside) const { return places_.empty() ? outside : places_.back(); }
  void enter(Place place) {
    constexpr size_t depth_limit = 8;
    if (places_.size() == depth_limit) fail(path_to_value() + " is nested too deeply");
    places_.push_back(place);
  }
  /// After `enter`.
  void begin_object() { keys_.emplace_back(); }
  void add_key(const std::string& key) {
    if (!keys_.back().insert(key).second) fail(path_to(key) + " occurs twice");
  }
  bool has_key(const std::string& key) const { return keys_.back().contains(key); }
  bool leave_object() {
    keys_.pop_back();
    places_.pop_back();
    return true;
  }

 private:
  std::vector<Place> places_;
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace weft::io
