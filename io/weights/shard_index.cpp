#include "shard_index-inl.hpp"

#include <fmt/format.h>

#include "../json/json_reader-inl.hpp"
#include "../../tensor/shortened.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::io {

namespace {

using Json = nlohmann::json;

constexpr size_t size_limit = 100'000'000, shown = 80;

// Whether the file is in the index's folder or below it.
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

enum class IndexPlace { top, metadata, weight_map, ignored };

class IndexReader final : public JsonReader<IndexPlace> {
 public:
  IndexReader(const Path& path, Location where) : path_(path), where_(where) {}

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
    if (is_outside()) enter(Place::top);
    else if (place() == Place::top && key_ == "weight_map") has_weight_map_ = true, enter(Place::weight_map);
    else if (place() == Place::top && key_ == "metadata") enter(Place::metadata);
    else other("an object"), enter(Place::ignored);
    begin_object();
    return true;
  }
  bool key(string_t& value) override {
    add_key(value);
    key_ = std::move(value);
    return true;
  }
  bool end_object() override {
    leave_object();
    if (is_outside() && !has_weight_map_) fail("weight_map is missing");
    return true;
  }
  bool start_array(size_t) override {
    if (is_outside()) fail("expected an object, got an array");
    other("an array");
    enter(Place::ignored);
    return true;
  }

  ShardIndex index;

 private:
  using Place = IndexPlace;

  [[noreturn]] void fail(const std::string& problem) const override {
    raise<FormatError>({.op = "load_sharded",
                        .problem = "not a valid index of shards: " + problem,
                        .details = shortened(path_.string(), 300)},
                       where_);
  }
  Place place() const { return innermost(Place::top); }
  std::string path_to_value() const override { return shortened(key_, shown); }
  std::string path_to(const std::string& key) const override {
    return (place() == Place::weight_map ? "weight_map." : "") + shortened(key, shown);
  }
  bool is_total_size() const { return place() == Place::metadata && key_ == "total_size"; }
  // Handles a value of an unexpected type; unknown fields are skipped.
  bool other(const char* kind) const override {
    const std::string key = shortened(key_, shown);
    if (is_outside()) fail(mismatch_text("", "an object", kind));
    if (place() == Place::weight_map) fail(mismatch_text("weight_map." + key, "a string", kind));
    if (is_total_size()) fail(mismatch_text("metadata.total_size", "a number of bytes", kind));
    if (place() == Place::top && (key_ == "weight_map" || key_ == "metadata")) {
      fail(mismatch_text(key, "an object", kind));
    }
    return true;
  }

  const Path& path_;
  Location where_;
  std::string key_;
  bool has_weight_map_ = false;
};

}  // namespace

ShardIndex parse_index(std::string_view text, const Path& path, Location where) {
  IndexReader reader(path, where);
  reader.read(text, size_limit);
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
