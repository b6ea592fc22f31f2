// Headers are parsed from events and not into a tree: linear time, and a failed allocation raises an exception.
#include "safetensors_header-inl.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../json/json_reader-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::io {

namespace {

using Json = nlohmann::json;

constexpr const char* op = "load_file";

struct TypeName {
  const char* name;
  DType dtype;
};
constexpr std::array<TypeName, 19> type_names = {{{"BOOL", DType::boolean},
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
                                                  {"F8_E5M2", DType::f8_e5m2},
                                                  {"F8_E4M3FNUZ", DType::f8_e4m3fnuz},
                                                  {"F8_E5M2FNUZ", DType::f8_e5m2fnuz},
                                                  {"F8_E8M0", DType::f8_e8m0fnu},
                                                  {"C64", DType::c64}}};

// Truncates a name from a file for a message.
std::string shortened(std::string_view text, size_t limit = 80) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return fmt::format("{}… ({} bytes)", text.substr(0, limit), text.size());
}

}  // namespace

void malformed(std::string problem, const Path& path, Location where) {
  raise<FormatError>({.op = op,
                      .problem = "not a valid safetensors file: " + std::move(problem),
                      .details = shortened(path.string(), 300)},
                     where);
}

namespace {

enum class HeaderPlace { header, metadata, entry, shape, offsets, ignored };

// Reads the header in one pass and stores only the result. A tree of JSON values would cost memory, and an allocation
// failure in its destructor would end the process.
class HeaderReader final : public JsonReader<HeaderPlace> {
 public:
  HeaderReader(const Path& path, Location where) : path_(path), where_(where) {}

  bool number_unsigned(number_unsigned_t value) override {
    if (place() == Place::shape) add_size(value);
    else if (place() == Place::offsets) add_offset(value);
    else return other("a number");
    return true;
  }
  bool string(string_t& value) override {
    if (place() == Place::metadata) header.metadata.emplace(field_, value);
    else if (place() == Place::entry && field_ == "dtype") set_dtype(value);
    else return other("a string");
    return true;
  }

  bool start_object(size_t) override {
    if (is_outside()) enter(Place::header);
    else if (place() != Place::header) skip_within("an object");
    else if (name_ == "__metadata__") enter(Place::metadata);
    else entry_ = {}, enter(Place::entry);
    begin_object();
    return true;
  }
  bool key(string_t& value) override {
    add_key(value);
    if (place() == Place::header) name_ = std::move(value);
    else if (place() != Place::ignored) field_ = std::move(value);
    return true;
  }
  bool end_object() override {
    if (place() == Place::entry) finish_entry();
    return leave_object();
  }

  bool start_array(size_t) override {
    const bool field = place() == Place::entry;
    if (field && field_ == "shape") entry_.has_shape = true, enter(Place::shape);
    else if (field && field_ == "data_offsets") enter(Place::offsets);
    else skip_within("an array");
    return true;
  }
  SafeHeader header;

 private:
  using Place = HeaderPlace;
  struct Entry {
    SafeFile::Info info{};
    bool has_dtype = false, has_shape = false, overflows = false;
    uint64_t elements = 1, rank = 0, offsets = 0;
  };

  [[noreturn]] void fail(const std::string& problem) const override { io::malformed(problem, path_, where_); }
  void malformed(size_t byte) const override {
    fail(fmt::format("the header is no JSON at byte {} of the file", 8 + byte));
  }
  Place place() const { return innermost(Place::ignored); }
  // JSON path of a key of the current object.
  std::string path_to(const std::string& key) const override {
    const std::string last = shortened(key);
    if (place() == Place::header) return fmt::format("\"{}\"", last);
    if (place() == Place::ignored) return fmt::format("{}.{}…{}", shortened(name_), shortened(field_), last);
    return fmt::format("{}.{}", shortened(name_), last);
  }
  std::string path_to_value() const override { return fmt::format("{}.{}", shortened(name_), shortened(field_)); }

  // Handles a value of an unexpected type; unknown fields are skipped.
  bool other(const char* kind) const override {
    const std::string name = shortened(name_);
    switch (place()) {
      case Place::header:
        fail(mismatch_text(fmt::format("\"{}\"", name), "an object", kind));
      case Place::metadata:
        fail(mismatch_text("__metadata__." + shortened(field_), "a string", kind));
      case Place::shape:
        fail(mismatch_text(name + ".shape", "integers", kind));
      case Place::offsets:
        fail(mismatch_text(name + ".data_offsets", "integers", kind));
      case Place::entry:
        if (field_ == "dtype") fail(mismatch_text(name + ".dtype", "a string", kind));
        if (field_ == "shape" || field_ == "data_offsets")
          fail(mismatch_text(fmt::format("{}.{}", name, field_), "an array", kind));
        return true;
      case Place::ignored:
        return true;
    }
    return true;
  }
  void skip_within(const char* kind) {
    other(kind);
    enter(Place::ignored);
  }

  void set_dtype(const std::string& text) {
    const auto found = std::ranges::find_if(type_names, [&](const TypeName& t) { return text == t.name; });
    if (found == type_names.end()) {
      raise<DTypeError>({.op = op,
                         .problem = fmt::format("tensor \"{}\" has the dtype {}, which Weft lacks", shortened(name_),
                                                shortened(text)),
                         .details = path_.string()},
                        where_);
    }
    entry_.info.dtype = found->dtype;
    entry_.has_dtype = true;
  }
  void add_size(uint64_t size) {
    entry_.overflows |= size > INT64_MAX || __builtin_mul_overflow(entry_.elements, size, &entry_.elements);
    if (entry_.rank++ < max_rank && !entry_.overflows) entry_.info.shape.push_back(static_cast<int64_t>(size));
  }
  void add_offset(uint64_t byte) {
    if (entry_.offsets == 0) entry_.info.begin = byte;
    if (entry_.offsets == 1) entry_.info.end = byte;
    ++entry_.offsets;
  }

  void finish_entry() {
    const std::string name = shortened(name_);
    if (!entry_.has_dtype) fail(fmt::format("{}.dtype is missing", name));
    if (!entry_.has_shape) fail(fmt::format("{}.shape is missing", name));
    if (entry_.offsets != 2) fail(fmt::format("{}.data_offsets is no pair", name));
    if (entry_.rank > max_rank) {
      raise<ShapeError>(
          {.op = op,
           .problem = fmt::format("tensor \"{}\" has {} dimensions, at most {} are held", name, entry_.rank, max_rank),
           .details = path_.string()},
          where_);
    }
    const SafeFile::Info& info = entry_.info;
    uint64_t bytes = static_cast<uint64_t>(itemsize(info.dtype));
    entry_.overflows |= __builtin_mul_overflow(bytes, entry_.elements, &bytes);
    if (entry_.overflows || info.begin > info.end || info.end - info.begin != bytes) {
      fail(fmt::format("{}.data_offsets, [{}, {}], do not fit its shape and dtype", name, info.begin, info.end));
    }
    header.entries.emplace(name_, info);
  }

  const Path& path_;
  Location where_;
  /// Key in the header, and key in an entry or in the metadata.
  std::string name_, field_;
  Entry entry_;
};

// Checks that the tensors, sorted by offset, cover the data without gaps or overlaps.
void check_tiling(const std::map<std::string, SafeFile::Info>& entries, size_t data_bytes, const Path& path,
                  Location where) {
  std::vector<std::pair<const std::string*, const SafeFile::Info*>> order;
  for (const auto& [name, info] : entries) order.emplace_back(&name, &info);
  std::ranges::sort(order, {}, [](const auto& e) { return std::pair(e.second->begin, e.second->end); });
  size_t at = 0;
  for (const auto& [name, info] : order) {
    if (info->begin != at) {
      malformed(mismatch_text(fmt::format("first byte of \"{}\"", shortened(*name)), at, info->begin), path, where);
    }
    at = info->end;
    if (at > data_bytes) {
      raise<FormatError>(
          {.op = op,
           .problem = fmt::format("the file is cut off: \"{}\" ends at byte {} of the data, the file has {}",
                                  shortened(*name), at, data_bytes),
           .details = shortened(path.string(), 300),
           .remedy = "copy or save it again"},
          where);
    }
  }
  if (at != data_bytes) {
    malformed(fmt::format("the data has {} bytes, the header tells of {}", data_bytes, at), path, where);
  }
}

void take_aliases(SafeHeader& header, const Path& path, Location where) {
  for (auto at = header.metadata.lower_bound(std::string(alias_prefix));
       at != header.metadata.end() && at->first.starts_with(alias_prefix);) {
    const std::string alias = at->first.substr(alias_prefix.size());
    const auto refuse = [&](const char* problem, const std::string& name) {
      malformed(fmt::format("__metadata__.{}: \"{}\" {}", shortened(at->first), shortened(name), problem), path, where);
    };
    if (header.entries.contains(alias)) refuse("is a tensor of its own", alias);
    if (!header.entries.contains(at->second)) refuse("is no tensor of the file", at->second);
    header.aliases.emplace(alias, at->second);
    at = header.metadata.erase(at);
  }
}

}  // namespace

SafeHeader parse_header(std::string_view text, size_t data_bytes, const Path& path, Location where) {
  if (text.empty() || text.front() != '{') malformed("the header, at byte 8, does not begin with {", path, where);
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  // The parser would treat a zero byte as the end.
  const size_t zero = text.find('\0');
  if (text.back() != '}' || zero != text.npos) {
    malformed(fmt::format("byte {} is neither of the header nor a space behind it",
                          7 + (zero != text.npos ? zero + 1 : text.size())),
              path, where);
  }
  HeaderReader reader(path, where);
  Json::sax_parse(text, &reader);
  check_tiling(reader.header.entries, data_bytes, path, where);
  take_aliases(reader.header, path, where);
  return std::move(reader.header);
}

std::string header_text(const std::vector<HeaderEntry>& entries, const Metadata& metadata, const char* saver,
                        Location where) {
  std::string text = "{";
  const auto key = [&](const std::string& name) {
    if (text.back() != '{') text += ',';
    text += Json(name).dump() + ':';
  };
  try {
    if (!metadata.empty()) {
      text += R"("__metadata__":{)";
      for (const auto& [name, value] : metadata) key(name), text += Json(value).dump();
      text += '}';
    }
    for (const auto& [name, info] : entries) {
      const auto type = std::ranges::find(type_names, info.dtype, &TypeName::dtype);
      if (type == type_names.end()) {
        raise<DTypeError>({.op = saver,
                           .problem = fmt::format("'{}' is {}, which safetensors has no name for", shortened(name),
                                                  weft::name(info.dtype)),
                           .remedy = "save view_as_real(x), or an npz archive"},
                          where);
      }
      key(name);
      fmt::format_to(std::back_inserter(text), R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", type->name,
                     fmt::join(info.shape, ","), info.begin, info.end);
    }
  } catch (const Json::exception& error) {
    raise<ValueError>({.op = saver, .problem = "a name or a metadata string is not UTF-8", .details = error.what()},
                      where);
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace weft::io
