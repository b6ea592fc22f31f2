// The tree is built from the JSON library's events. The library's own tree allocates in its destructor, where a
// failure ends the process.
#include "json_tree-inl.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "../../tensor/shortened.hpp"
#include "decimal-inl.hpp"
#include "json_reader-inl.hpp"

namespace weft::io {

namespace {

using Json = nlohmann::json;
using Kind = JsonTree::Kind;

constexpr size_t most_levels = 500, most_bytes = 100'000'000;

}  // namespace

JsonTree JsonTree::of(double value) {
  if (value != value) return of("NaN");
  if (std::isinf(value)) return of(value > 0 ? "Infinity" : "-Infinity");
  return {.kind = Kind::floating, .text = shortest_decimal(value, DType::f64)};
}

const JsonTree* JsonTree::find(std::string_view name) const {
  const auto found = std::ranges::find(items, name, &Items::value_type::first);
  return found == items.end() ? nullptr : &found->second;
}

JsonTree& JsonTree::operator[](std::string_view name) {
  kind = Kind::object;
  const auto found = std::ranges::find(items, name, &Items::value_type::first);
  return found != items.end() ? found->second : items.emplace_back(std::string(name), JsonTree()).second;
}

void JsonTree::add(JsonTree item) {
  kind = Kind::list;
  items.emplace_back(std::string(), std::move(item));
}

// ---- reading --------------------------------------------------------------------------------------------------------

namespace {

class TreeReader final : public JsonEvents {
 public:
  TreeReader(const char* op, Location where, std::string_view place) : op_(op), where_(where), place_(place) {}
  JsonTree root;

  bool null() override { return put({}); }
  bool boolean(bool value) override { return put(JsonTree::of(value)); }
  bool number_integer(number_integer_t value) override { return put(JsonTree::of(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (std::in_range<int64_t>(value)) return put(JsonTree::of(static_cast<int64_t>(value)));
    return put({.kind = Kind::floating, .text = std::to_string(value)});
  }
  bool number_float(number_float_t, const string_t& text) override {
    return put({.kind = Kind::floating, .text = text});
  }
  bool string(string_t& value) override { return put(JsonTree::of(std::move(value))); }
  bool start_object(size_t) override { return open(Kind::object); }
  bool start_array(size_t) override { return open(Kind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!open_.back().names.insert(name).second) {
      fail(fmt::format("\"{}\" is there twice in one object", shortened(name, 80)));
    }
    open_.back().name = std::move(name);
    return true;
  }

 private:
  /// An open list or object, the name of its next item, and all names so far.
  struct Level {
    JsonTree tree;
    std::string name = {};
    std::set<std::string> names = {};
  };

  [[noreturn]] void fail(const std::string& problem) const override {
    raise<FormatError>({.op = op_, .problem = std::string(place_) + problem}, where_);
  }
  void malformed(size_t byte) const override { fail(fmt::format("malformed JSON at byte {}", byte + 1)); }
  void number_too_large(size_t byte) const override {
    fail(fmt::format("a number before byte {} of the JSON is too large", byte));
  }
  bool other(const char* kind) const override { fail(fmt::format("{} is no JSON", kind)); }
  bool open(Kind kind) {
    if (open_.size() == most_levels) fail(fmt::format("more than {} levels of JSON", most_levels));
    open_.push_back({.tree = {.kind = kind}});
    return true;
  }
  bool close() {
    JsonTree tree = std::move(open_.back().tree);
    open_.pop_back();
    return put(std::move(tree));
  }
  bool put(JsonTree tree) {
    if (open_.empty()) root = std::move(tree);
    else open_.back().tree.items.emplace_back(std::move(open_.back().name), std::move(tree));
    return true;
  }

  const char* op_;
  Location where_;
  std::string_view place_;
  std::vector<Level> open_;
};

}  // namespace

JsonTree parse_json(std::string_view text, const char* op, Location where, std::string_view place) {
  TreeReader reader(op, where, place);
  reader.read(text, most_bytes);
  return std::move(reader.root);
}

void JsonNode::fail(const std::string& problem) const {
  const std::string place = path_.empty() ? "the text" : shortened(path_, 120);
  raise<FormatError>({.op = op_, .problem = fmt::format("{}: {}", place, problem)}, where_);
}

const JsonNode& JsonNode::object() const {
  if (!json_.is(Kind::object)) fail("it is no object");
  return *this;
}

JsonNode JsonNode::at(const std::string& name) const {
  const JsonTree* found = json_.find(name);
  if (found == nullptr) fail(fmt::format("there is no \"{}\"", shortened(name, 80)));
  return {*found, path_.empty() ? name : path_ + '.' + name, op_, where_};
}

std::string JsonNode::text() const {
  if (!json_.is(Kind::text)) fail("it is no text");
  return json_.text;
}

bool JsonNode::boolean() const {
  if (!json_.is(Kind::boolean)) fail("it is no bool");
  return json_.boolean;
}

int64_t JsonNode::integer() const {
  if (!json_.is(Kind::integer)) fail("it is no 64-bit integer");
  return json_.integer;
}

double JsonNode::number() const {
  if (json_.is(Kind::integer)) return static_cast<double>(json_.integer);
  if (json_.is(Kind::floating)) return std::strtod(json_.text.c_str(), nullptr);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (json_.is(Kind::text) && json_.text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (json_.is(Kind::text) && json_.text == "Infinity") return infinity;
  if (!json_.is(Kind::text) || json_.text != "-Infinity") fail("it is no number");
  return -infinity;
}

// ---- writing --------------------------------------------------------------------------------------------------------

namespace {

class TreeWriter {
 public:
  TreeWriter(const char* op, Location where) : op_(op), where_(where) {}
  std::string out;

  void write(const JsonTree& tree, size_t level) {
    switch (tree.kind) {
      case Kind::null:
        out += "null";
        break;
      case Kind::boolean:
        out += tree.boolean ? "true" : "false";
        break;
      case Kind::integer:
        out += std::to_string(tree.integer);
        break;
      case Kind::floating:
        out += tree.text;
        break;
      case Kind::text:
        write_text(tree.text);
        break;
      default:
        write_items(tree, level);
    }
  }

 private:
  static bool is_single(const JsonTree& tree) { return !tree.is(Kind::list) && !tree.is(Kind::object); }

  void write_items(const JsonTree& tree, size_t level) {
    const bool is_object = tree.is(Kind::object);
    const bool on_one_line = std::ranges::all_of(
        tree.items, [](const auto& item) { return is_single(item.second) || item.second.items.empty(); });
    const std::string separator = on_one_line ? " " : "\n" + std::string(level + 1, ' ');
    out += is_object ? '{' : '[';
    for (size_t i = 0; i < tree.items.size(); ++i) {
      if (i > 0) out += ',';
      if (i > 0 || !on_one_line) out += separator;
      if (is_object) write_text(tree.items[i].first), out += ": ";
      write(tree.items[i].second, level + 1);
    }
    out += is_object ? '}' : ']';
  }
  void write_text(const std::string& text) {
    try {
      out += Json(text).dump();
    } catch (const Json::type_error&) {
      raise<ValueError>({.op = op_, .problem = "a text for JSON is not UTF-8"}, where_);
    }
  }

  const char* op_;
  Location where_;
};

}  // namespace

std::string json_text(const JsonTree& tree, const char* op, Location where) {
  TreeWriter writer(op, where);
  writer.write(tree, 0);
  return std::move(writer.out) + "\n";
}

}  // namespace weft::io
