#include "shard_index-inl.hpp"

#include <unordered_set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../../tensor/shortened.hpp"

namespace weft::io {

namespace {

using Json = nlohmann::json;

constexpr size_t depth_limit = 8, size_limit = 100'000'000, shown = 80;

// Whether a file of this name lies in the folder of the index or below it.
bool stays_inside(std::string_view file) {
  if (file.empty() || file.front() == '/' || file.find('\0') != file.npos) return false;
  for (size_t start = 0; start <= file.size();) {
    const size_t end = std::min(file.find_first_of("/\\", start), file.size());
    const std::string_view part = file.substr(start, end - start);
    if (part == ".." || part == "." || part.empty()) return false;
    start = end + 1;
  }
  return true;
}

// Reads the index in one pass, as the headers of the files are read.
class IndexReader final : public nlohmann::json_sax<Json> {
 public:
  IndexReader(const Path& path, Location where) : path_(path), where_(where) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a bool"); }
  bool number_integer(number_integer_t) override { return other("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a fraction"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (!is_total_size()) return other("a number");
    index.total_size = value;
    return true;
  }
  bool string(string_t& value) override {
    if (place() != Place::weight_map) return other("a string");
    if (!stays_inside(value)) {
      fail(fmt::format("weight_map.{}: \"{}\" is no file of this folder", shortened(key_, shown),
                       shortened(value, shown)));
    }
    index.weight_map.emplace(key_, std::move(value));
    return true;
  }

  bool start_object(size_t) override {
    if (places_.empty()) enter(Place::top);
    else if (place() == Place::top && key_ == "weight_map") has_weight_map_ = true, enter(Place::weight_map);
    else if (place() == Place::top && key_ == "metadata") enter(Place::metadata);
    else other("an object"), enter(Place::ignored);
    keys_.emplace_back();
    return true;
  }
  bool key(string_t& value) override {
    if (!keys_.back().insert(value).second) {
      fail(
          fmt::format("{}{} occurs twice", place() == Place::weight_map ? "weight_map." : "", shortened(value, shown)));
    }
    key_ = std::move(value);
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    places_.pop_back();
    if (places_.empty() && !has_weight_map_) fail("weight_map is missing");
    return true;
  }
  bool start_array(size_t) override {
    if (places_.empty()) fail("it is an array, not an object");
    other("an array");
    enter(Place::ignored);
    return true;
  }
  bool end_array() override {
    places_.pop_back();
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    fail(fmt::format("it is no JSON at byte {}", byte - std::min<size_t>(byte, 1)));
  }

  ShardIndex index;

 private:
  enum class Place { top, metadata, weight_map, ignored };

  [[noreturn]] void fail(const std::string& problem) const {
    raise<FormatError>({.op = "load_sharded",
                        .problem = "not a valid index of shards: " + problem,
                        .details = shortened(path_.string(), 300)},
                       where_);
  }
  Place place() const { return places_.empty() ? Place::top : places_.back(); }
  bool is_total_size() const { return place() == Place::metadata && key_ == "total_size"; }
  void enter(Place place) {
    if (places_.size() == depth_limit) fail(fmt::format("{} is nested too deeply", shortened(key_, shown)));
    places_.push_back(place);
  }
  // A value where none of its kind belongs; fields that the format does not know are passed over.
  bool other(const char* kind) const {
    const std::string key = shortened(key_, shown);
    if (places_.empty()) fail(fmt::format("it is {}, not an object", kind));
    if (place() == Place::weight_map) fail(fmt::format("weight_map.{} is {}, not a string", key, kind));
    if (is_total_size()) fail(fmt::format("metadata.total_size is {}, not a number of bytes", kind));
    if (place() == Place::top && (key_ == "weight_map" || key_ == "metadata")) {
      fail(fmt::format("{} is {}, not an object", key, kind));
    }
    return true;
  }

  const Path& path_;
  Location where_;
  std::vector<Place> places_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
  bool has_weight_map_ = false;
};

}  // namespace

ShardIndex parse_index(std::string_view text, const Path& path, Location where) {
  const auto refuse = [&](std::string problem) {
    raise<FormatError>({.op = "load_sharded",
                        .problem = "not a valid index of shards: " + std::move(problem),
                        .details = shortened(path.string(), 300)},
                       where);
  };
  if (text.size() > size_limit) refuse(fmt::format("it has {} bytes", text.size()));
  // The parser would take a zero byte for the end.
  if (const size_t zero = text.find('\0'); zero != text.npos) refuse(fmt::format("it is no JSON at byte {}", zero));
  IndexReader reader(path, where);
  Json::sax_parse(text, &reader);
  return std::move(reader.index);
}

std::string index_text(const ShardIndex& index, const char* op, Location where) {
  const auto quoted = [](const std::string& text) { return Json(text).dump(-1, ' ', true); };
  try {
    std::string out = fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{",
                                  index.total_size.value_or(0));
    for (const auto& [name, file] : index.weight_map) {
      out += fmt::format("{}\n    {}: {}", out.back() == '{' ? "" : ",", quoted(name), quoted(file));
    }
    return out + "\n  }\n}\n";
  } catch (const Json::exception& error) {
    raise<ValueError>({.op = op, .problem = "a name is not UTF-8", .details = error.what()}, where);
  }
}

}  // namespace weft::io
