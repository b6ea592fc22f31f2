#include <weft/io/safetensors_header-inl.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace weft::io {

namespace {

using Json = nlohmann::json;

constexpr const char* op = "load_file";
constexpr int depth_limit = 8;

struct TypeName {
  const char* name;
  DType dtype;
};
constexpr std::array<TypeName, dtype_count> type_names = {{{"BOOL", DType::boolean},
                                                           {"U8", DType::u8},
                                                           {"I8", DType::i8},
                                                           {"U16", DType::u16},
                                                           {"I16", DType::i16},
                                                           {"U32", DType::u32},
                                                           {"I32", DType::i32},
                                                           {"U64", DType::u64},
                                                           {"I64", DType::i64},
                                                           {"F16", DType::f16},
                                                           {"BF16", DType::bf16},
                                                           {"F32", DType::f32},
                                                           {"F64", DType::f64},
                                                           {"F8_E4M3", DType::f8_e4m3fn},
                                                           {"F8_E5M2", DType::f8_e5m2}}};

[[noreturn]] void malformed(std::string problem, Location where) {
  raise<FormatError>({.op = op, .problem = "not a valid safetensors file: " + std::move(problem)}, where);
}

// Parses strictly: no key twice in one object, no deep nesting, nothing behind but spaces.
Json parse_strictly(std::string_view text, Location where) {
  if (text.empty() || text.front() != '{') malformed("the header does not begin with {", where);
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  // The parser would take a zero byte for the end.
  if (text.back() != '}' || text.find('\0') != text.npos) malformed("something but spaces follows the header", where);
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > depth_limit) malformed("the header is nested too deeply", where);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      malformed(fmt::format("the key \"{}\" occurs twice", parsed.get<std::string>()), where);
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    malformed(error.what(), where);
  }
}

Metadata parse_metadata(const Json& json, Location where) {
  Metadata out;
  if (!json.is_object()) malformed("__metadata__ is no object", where);
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) malformed(fmt::format("__metadata__.{} is no string", key), where);
    out.emplace(key, value.get<std::string>());
  }
  return out;
}

DType parse_dtype(const std::string& name, const Json& json, Location where) {
  if (!json.is_string()) malformed(fmt::format("{}.dtype is no string", name), where);
  const auto& text = json.get_ref<const std::string&>();
  const auto found = std::ranges::find_if(type_names, [&](const TypeName& t) { return text == t.name; });
  if (found != type_names.end()) return found->dtype;
  raise<DTypeError>({.op = op, .problem = fmt::format("tensor \"{}\" has the dtype {}, which Weft lacks", name, text)},
                    where);
}

uint64_t parse_count(const std::string& name, const char* field, const Json& json, Location where) {
  if (!json.is_number_unsigned()) malformed(fmt::format("{}.{} is no non-negative integer", name, field), where);
  return json.get<uint64_t>();
}

const Json& member(const std::string& name, const Json& entry, const char* field, Location where) {
  const auto found = entry.find(field);
  if (found == entry.end()) malformed(fmt::format("{}.{} is missing", name, field), where);
  return *found;
}

SafeFile::Info parse_entry(const std::string& name, const Json& entry, Location where) {
  if (!entry.is_object()) malformed(fmt::format("the entry of \"{}\" is no object", name), where);
  SafeFile::Info info{};
  info.dtype = parse_dtype(name, member(name, entry, "dtype", where), where);
  const Json& shape = member(name, entry, "shape", where);
  if (!shape.is_array()) malformed(fmt::format("{}.shape is no array", name), where);
  if (shape.size() > static_cast<size_t>(max_rank)) {
    raise<ShapeError>(
        {.op = op,
         .problem = fmt::format("tensor \"{}\" has {} dimensions, at most {} are held", name, shape.size(), max_rank)},
        where);
  }
  uint64_t bytes = static_cast<uint64_t>(itemsize(info.dtype));
  bool overflows = false;
  for (const Json& size : shape) {
    const uint64_t n = parse_count(name, "shape", size, where);
    overflows |= n > INT64_MAX || __builtin_mul_overflow(bytes, n, &bytes);
    if (!overflows) info.shape.push_back(static_cast<int64_t>(n));
  }
  const Json& offsets = member(name, entry, "data_offsets", where);
  if (!offsets.is_array() || offsets.size() != 2) malformed(fmt::format("{}.data_offsets is no pair", name), where);
  info.begin = parse_count(name, "data_offsets", offsets[0], where);
  info.end = parse_count(name, "data_offsets", offsets[1], where);
  if (overflows || info.begin > info.end || info.end - info.begin != bytes) {
    malformed(fmt::format("the bytes of \"{}\" do not fit its shape", name), where);
  }
  return info;
}

// Sorted by offset, the tensors follow each other without hole or overlap up to the end of the file.
void check_tiling(const std::map<std::string, SafeFile::Info>& entries, size_t data_bytes, Location where) {
  std::vector<std::pair<const std::string*, const SafeFile::Info*>> order;
  for (const auto& [name, info] : entries) order.emplace_back(&name, &info);
  std::ranges::sort(order, {}, [](const auto& e) { return std::pair(e.second->begin, e.second->end); });
  size_t at = 0;
  for (const auto& [name, info] : order) {
    if (info->begin != at) {
      malformed(fmt::format("\"{}\" starts at byte {} of the data, not at {}", *name, info->begin, at), where);
    }
    at = info->end;
  }
  if (at != data_bytes) malformed(fmt::format("the data has {} bytes, the header tells of {}", data_bytes, at), where);
}

}  // namespace

SafeHeader parse_header(std::string_view text, size_t data_bytes, Location where) {
  const Json json = parse_strictly(text, where);
  SafeHeader header;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") header.metadata = parse_metadata(entry, where);
    else header.entries.emplace(name, parse_entry(name, entry, where));
  }
  check_tiling(header.entries, data_bytes, where);
  return header;
}

std::string header_text(const std::vector<HeaderEntry>& entries, const Metadata& metadata, Location where) {
  try {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (!metadata.empty()) json["__metadata__"] = metadata;
    for (const auto& [name, info] : entries) {
      const auto type = std::ranges::find(type_names, info.dtype, &TypeName::dtype);
      auto& entry = json[name];
      entry["dtype"] = type->name;
      entry["shape"] = std::vector<int64_t>(info.shape.begin(), info.shape.end());
      entry["data_offsets"] = {info.begin, info.end};
    }
    std::string text = json.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    return text;
  } catch (const Json::exception& error) {
    raise<ValueError>(
        {.op = "save_file", .problem = "a name or a metadata string is not UTF-8", .details = error.what()}, where);
  }
}

}  // namespace weft::io
