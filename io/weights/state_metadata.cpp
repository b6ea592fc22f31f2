#include "state_metadata-inl.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../json/json_reader-inl.hpp"
#include "../../tensor/shortened.hpp"
#include "state_plan-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::io {

namespace {

using Json = nlohmann::json;

constexpr const char *loader = "load_state_dict", *saver = "save_state_dict";
constexpr size_t size_limit = 1'000'000'000, shown = 80;
constexpr int64_t format_version = 2;
constexpr std::string_view extension = ".safetensors";

enum class MetadataPlace {
  top,
  tensors,
  tensor,
  global_shape,
  shards,
  shard,
  global_offset,
  local_shape,
  flattened_range,
  nested_names,
  nested_name,
  ignored
};

class MetadataReader final : public JsonReader<MetadataPlace> {
 public:
  MetadataReader(int64_t id, const Path& path, Location where) : path_(path), where_(where) { metadata.id = id; }

  bool number_unsigned(number_unsigned_t value) override {
    if (value > INT64_MAX) fail(fmt::format("{} is beyond 2^63 - 1", path_to_value()));
    const auto number = static_cast<int64_t>(value);
    switch (place()) {
      case Place::global_shape:
        return add(tensor_.global_shape, number);
      case Place::global_offset:
        return add(shard_.global_offset, number);
      case Place::local_shape:
        return add(shard_.local_shape, number);
      case Place::flattened_range:
        range_.push_back(number);
        return true;
      default:
        return number_field(number);
    }
  }
  bool string(string_t& value) override {
    if (place() == Place::tensor && field_ == "dtype") set_dtype(value);
    else if (place() == Place::shard && field_ == "file") set_file(value);
    else if (place() == Place::nested_name) metadata.nested_names[name_].push_back(std::move(value));
    else return other("a string");
    return true;
  }

  bool start_object(size_t) override {
    const Place at = place();
    if (is_outside()) enter(Place::top);
    else if (at == Place::top && field_ == "tensors") enter(Place::tensors);
    else if (at == Place::top && field_ == "nested_names") enter(Place::nested_names);
    else if (at == Place::tensors) tensor_ = {DType::f32, {}}, enter(Place::tensor);
    else if (at == Place::shards) shard_ = {}, enter(Place::shard);
    else other("an object"), enter(Place::ignored);
    begin_object();
    return true;
  }
  bool key(string_t& value) override {
    add_key(value);
    const bool names = place() == Place::tensors || place() == Place::nested_names;
    (names ? name_ : field_) = std::move(value);
    return true;
  }
  bool end_object() override {
    if (place() == Place::tensor) finish_tensor();
    if (place() == Place::shard) finish_shard();
    if (place() == Place::top) require({"format_version", "tensors"});
    return leave_object();
  }

  bool start_array(size_t) override {
    const Place at = place();
    if (at == Place::tensor && field_ == "global_shape") enter(Place::global_shape);
    else if (at == Place::tensor && field_ == "shards") enter(Place::shards);
    else if (at == Place::shard && field_ == "global_offset") enter(Place::global_offset);
    else if (at == Place::shard && field_ == "local_shape") enter(Place::local_shape);
    else if (at == Place::shard && field_ == "flattened_range") range_.clear(), enter(Place::flattened_range);
    else if (at == Place::nested_names) metadata.nested_names[name_], enter(Place::nested_name);
    else other("an array"), enter(Place::ignored);
    return true;
  }
  bool end_array() override {
    if (place() == Place::flattened_range) {
      if (range_.size() != 2) fail(fmt::format("{} is no pair", path_to_value()));
      shard_.flattened_range = FlatRange{range_[0], range_[1]};
    }
    return JsonReader::end_array();
  }

  StateMetadata metadata;

 private:
  using Place = MetadataPlace;

  [[noreturn]] void fail(const std::string& problem) const override {
    raise<FormatError>({.op = loader,
                        .problem = "not valid metadata of a state: " + problem,
                        .details = shortened(path_.string(), 300)},
                       where_);
  }
  Place place() const { return innermost(Place::ignored); }
  std::string path_to(const std::string& key) const override { return shortened(key, shown); }
  std::string path_to_value() const override {
    const std::string name = shortened(name_, shown), field = shortened(field_, shown);
    switch (place()) {
      case Place::top:
        return field;
      case Place::tensors:
        return "tensors." + name;
      case Place::tensor:
      case Place::global_shape:
        return fmt::format("tensors.{}.{}", name, field);
      case Place::shards:
        return fmt::format("tensors.{}.shards[{}]", name, tensor_.shards.size());
      case Place::nested_names:
      case Place::nested_name:
        return "nested_names." + name;
      case Place::ignored:
        return field;
      default:
        return fmt::format("tensors.{}.shards[{}].{}", name, tensor_.shards.size(), field);
    }
  }
  // Handles a value of an unexpected type; unknown fields are skipped.
  bool other(const char* kind) const override {
    constexpr std::string_view known[] = {"format_version",  "tensors", "nested_names",  "dtype",
                                          "global_shape",    "shards",  "global_offset", "local_shape",
                                          "flattened_range", "replica", "file",          "blocks"};
    if (is_outside()) fail(mismatch_text("", "an object", kind));
    const Place at = place();
    const bool has_fields = at == Place::top || at == Place::tensor || at == Place::shard;
    if (at == Place::ignored || (has_fields && std::ranges::find(known, field_) == std::end(known))) return true;
    fail(fmt::format("{} is {}", path_to_value(), kind));
  }
  void require(std::initializer_list<const char*> fields) const {
    for (const char* field : fields) {
      if (has_key(field)) continue;
      const std::string name = shortened(name_, shown);
      if (place() == Place::top) fail(fmt::format("{} is missing", field));
      if (place() == Place::tensor) fail(fmt::format("tensors.{}.{} is missing", name, field));
      fail(fmt::format("tensors.{}.shards[{}].{} is missing", name, tensor_.shards.size(), field));
    }
  }

  bool add(Dims& dims, int64_t number) const {
    if (dims.size() == max_rank) fail(fmt::format("{} has more than {} dimensions", path_to_value(), max_rank));
    dims.push_back(number);
    return true;
  }
  bool number_field(int64_t number) {
    if (place() == Place::shard && field_ == "replica") {
      shard_.replica = number;
    } else if (place() == Place::shard && field_ == "blocks") {
      shard_.blocks = number;
    } else if (place() == Place::top && field_ == "format_version") {
      if (number <= format_version) return true;
      raise<VersionError>({.op = loader,
                           .problem = fmt::format("{} is of version {}, newer than this program's {}",
                                                  shortened(path_.string(), 300), number, format_version)},
                          where_);
    } else {
      return other("a number");
    }
    return true;
  }
  void set_dtype(const std::string& text) {
    const auto found = find_dtype(text);
    if (!found) fail(fmt::format("{}: no dtype is named \"{}\"", path_to_value(), shortened(text, shown)));
    tensor_.dtype = *found;
  }
  void set_file(const std::string& text) {
    const auto numbers = numbers_of_file(text);
    if (!numbers || numbers->second != metadata.id) {
      fail(fmt::format("{}: \"{}\" is no file of state {}", path_to_value(), shortened(text, shown), metadata.id));
    }
    shard_.rank = numbers->first;
  }
  void finish_shard() {
    require({"global_offset", "local_shape", "file"});
    tensor_.shards.push_back(shard_);
  }
  void finish_tensor() {
    require({"dtype", "global_shape", "shards"});
    for (size_t i = 0; i < std::max<size_t>(tensor_.shards.size(), 1); ++i) {
      // An empty tensor needs no shard.
      const StoredShard whole{Dims::filled(tensor_.global_shape.size(), 0), tensor_.global_shape};
      const StoredShard& s = tensor_.shards.empty() ? whole : tensor_.shards[i];
      const std::string problem = problem_of(info_of(tensor_, s));
      if (!problem.empty()) fail(fmt::format("tensors.{}.shards[{}]: {}", shortened(name_, shown), i, problem));
    }
    metadata.tensors.emplace(name_, std::move(tensor_));
  }

  const Path& path_;
  Location where_;
  /// Key of a tensor, and key in the tensor or in a shard.
  std::string name_, field_;
  StoredTensor tensor_{DType::f32, {}};
  StoredShard shard_;
  std::vector<int64_t> range_;
};

std::string shard_text(const StoredShard& s, int64_t id) {
  std::string range = s.flattened_range ? fmt::format(R"("flattened_range": [{}, {}], )", s.flattened_range->begin,
                                                      s.flattened_range->end)
                                        : "";
  if (s.blocks != 1) range += fmt::format(R"("blocks": {}, )", s.blocks);
  return fmt::format(R"({{"global_offset": {}, "local_shape": {}, {}"replica": {}, "file": "{}"}})",
                     s.global_offset.text(), s.local_shape.text(), range, s.replica, rank_file(s.rank, id));
}

}  // namespace

std::string rank_file(int64_t rank, int64_t id) { return fmt::format("{}_{}{}", rank, id, extension); }

std::optional<int64_t> number_in(std::string_view digits) {
  int64_t number = 0;
  if (digits.empty() || digits.front() == '-' || (digits.front() == '0' && digits.size() > 1)) return {};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? std::optional(number) : std::nullopt;
}

std::optional<std::pair<int64_t, int64_t>> numbers_of_file(std::string_view name) {
  if (!name.ends_with(extension)) return {};
  name.remove_suffix(extension.size());
  const size_t line = name.find('_');
  if (line == name.npos) return {};
  const std::optional<int64_t> rank = number_in(name.substr(0, line)), id = number_in(name.substr(line + 1));
  return rank && id ? std::optional(std::pair(*rank, *id)) : std::nullopt;
}

std::string metadata_text(const StateMetadata& metadata, Location where) {
  const auto quoted = [](const std::string& text) { return Json(text).dump(-1, ' ', true); };
  const auto comma = [](std::string& out) { out += out.back() == '{' || out.back() == '[' ? "\n" : ",\n"; };
  try {
    // States without blocks use version 1, which older versions of Weft can read.
    const auto is_in_blocks = [](const StoredShard& s) { return s.blocks != 1; };
    const auto needs_two = [&](const auto& entry) { return std::ranges::any_of(entry.second.shards, is_in_blocks); };
    const int version = std::ranges::any_of(metadata.tensors, needs_two) ? 2 : 1;
    std::string out = fmt::format("{{\"format_version\": {},\n\"tensors\": {{", version);
    for (const auto& [key, tensor] : metadata.tensors) {
      comma(out);
      out += fmt::format(R"( {}: {{"dtype": "{}", "global_shape": {}, "shards": [)", quoted(key), name(tensor.dtype),
                         tensor.global_shape.text());
      for (const StoredShard& s : tensor.shards) comma(out), out += "  " + shard_text(s, metadata.id);
      out += "]}";
    }
    out += "},\n\"nested_names\": {";
    for (const auto& [key, path] : metadata.nested_names) {
      std::vector<std::string> parts;
      for (const std::string& part : path) parts.push_back(quoted(part));
      comma(out);
      out += fmt::format(" {}: [{}]", quoted(key), fmt::join(parts, ", "));
    }
    return out + "}}\n";
  } catch (const Json::exception& error) {
    raise<ValueError>({.op = saver, .problem = "a name is not UTF-8", .details = error.what()}, where);
  }
}

StateMetadata parse_metadata(std::string_view text, int64_t id, const Path& path, Location where) {
  MetadataReader reader(id, path, where);
  reader.read(text, size_limit);
  return std::move(reader.metadata);
}

}  // namespace weft::io
