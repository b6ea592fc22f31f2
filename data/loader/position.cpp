#include "position-inl.hpp"

#include <charconv>

#include <fmt/format.h>

#include "../../hooks/detail/text.hpp"
#include "../../io/json/json_tree-inl.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data::detail {

namespace {

constexpr const char* op = "DataLoader.restore";
constexpr int64_t version = 1;

/// Reads the fields of a saved position; errors name the field.
class Fields {
 public:
  Fields(const io::JsonTree& tree, Location where) : tree_(tree), where_(where) {}

  int64_t integer(const char* name, int64_t least) const {
    const io::JsonTree& field = get(name, io::JsonTree::Kind::integer, "an integer");
    if (!field.text.empty() || field.integer < least) fail(fmt::format("\"{}\" is out of range", name));
    return field.integer;
  }
  bool boolean(const char* name) const { return get(name, io::JsonTree::Kind::boolean, "true or false").boolean; }
  const std::string& text(const char* name) const { return get(name, io::JsonTree::Kind::text, "a text").text; }
  /// Stored as text, since JSON readers may convert numbers to double.
  uint64_t word(const char* name) const {
    const std::string& digits = text(name);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) fail(fmt::format("\"{}\" is no number", name));
    return value;
  }
  [[noreturn]] void fail(const std::string& problem) const {
    raise<FormatError>({.op = op, .problem = "this is no saved position: " + problem}, where_);
  }

 private:
  const io::JsonTree& get(const char* name, io::JsonTree::Kind kind, const char* kind_name) const {
    const io::JsonTree* field = tree_.is(io::JsonTree::Kind::object) ? tree_.find(name) : nullptr;
    if (field == nullptr) fail(fmt::format("\"{}\" is missing", name));
    if (!field->is(kind)) fail(fmt::format("\"{}\": expected {}", name, kind_name));
    return *field;
  }

  const io::JsonTree& tree_;
  Location where_;
};

}  // namespace

std::string to_json(const SavedPosition& s) {
  return fmt::format(
      "{{\"version\": {}, \"epoch\": {}, \"batch\": {}, \"seed\": \"{}\", \"samples\": {}, \"sampler\": {}, "
      "\"batch_size\": {}, \"drop_last\": {}, \"world\": {}}}",
      version, s.position.epoch, s.position.batch, s.seed, s.samples, weft::detail::json_text(s.sampler), s.batch_size,
      s.drop_last, s.world);
}

SavedPosition position_from_json(const std::string& text, Location where) {
  const io::JsonTree tree = io::parse_json(text, op, where);
  const Fields fields(tree, where);
  if (const int64_t found = fields.integer("version", 1); found > version) {
    raise<VersionError>({.op = op, .problem = mismatch_text("version", fmt::format("at most {}", version), found)},
                        where);
  }
  SavedPosition s;
  s.position = {fields.integer("epoch", 0), fields.integer("batch", 0)};
  s.seed = fields.word("seed");
  s.samples = fields.integer("samples", -1);
  s.sampler = fields.text("sampler");
  s.batch_size = fields.integer("batch_size", 0);
  s.drop_last = fields.boolean("drop_last");
  s.world = fields.integer("world", 1);
  return s;
}

void check_same(const SavedPosition& found, const SavedPosition& own, bool seed_matters, Location where) {
  const auto require = [&](const char* field, const auto& saved, const auto& here) {
    if (saved == here) return;
    raise<ValueError>({.op = op,
                       .problem = fmt::format("{} was {} when the position was saved, and is {}", field, saved, here),
                       .remedy = "restore onto a loader made in the same way"},
                      where);
  };
  require("samples", found.samples, own.samples);
  require("sampler", found.sampler, own.sampler);
  require("batch_size", found.batch_size, own.batch_size);
  require("drop_last", found.drop_last, own.drop_last);
  require("world", found.world, own.world);
  if (seed_matters) require("seed", found.seed, own.seed);
}

}  // namespace weft::data::detail
