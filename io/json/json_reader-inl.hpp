// Event-based JSON readers, which build no tree of values. Internal to io/.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

namespace weft::io {

/// A reader that handles expected values and calls `other` for all others.
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

  void read(std::string_view text, size_t most_bytes) {
    if (text.size() > most_bytes) fail("it has " + std::to_string(text.size()) + " bytes");
    // the parser would treat a zero byte as the end
    if (const size_t zero = text.find('\0'); zero != text.npos) malformed(zero);
    nlohmann::json::sax_parse(text, this);
  }

 protected:
  [[noreturn]] virtual void fail(const std::string& problem) const = 0;
  /// Raises; bytes are counted from 0.
  virtual void malformed(size_t byte) const { fail("it is no JSON at byte " + std::to_string(byte)); }
  virtual void number_too_large(size_t byte) const { malformed(byte - std::min<size_t>(byte, 1)); }
  /// Handles an unexpected value: raises, or returns true to skip it.
  virtual bool other(const char* kind) const = 0;
};

/// A reader with a stack of the enclosing lists and objects, as values of an enum. Rejects duplicate names in an
/// object.
template <class Place>
class JsonReader : public JsonEvents {
 public:
  bool end_array() override {
    places_.pop_back();
    return true;
  }

 protected:
  /// Path of the current value, and of a field of the current object.
  virtual std::string path_to_value() const = 0;
  virtual std::string path_to(const std::string& key) const = 0;

  bool is_outside() const { return places_.empty(); }
  Place innermost(Place outside) const { return places_.empty() ? outside : places_.back(); }
  void enter(Place place) {
    constexpr size_t depth_limit = 8;
    if (places_.size() == depth_limit) fail(path_to_value() + " is nested too deeply");
    places_.push_back(place);
  }
  /// Call after `enter`.
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
