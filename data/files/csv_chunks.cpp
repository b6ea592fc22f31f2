#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "csv_columns-inl.hpp"
#include "../../io/file.hpp"
#include "../../io/json/json_tree-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data {

namespace {

using io::JsonNode;
using io::JsonTree;

constexpr const char* op = "CsvChunks";
constexpr int64_t version = 1;

constexpr std::pair<ColumnType, const char*> type_names[] = {
    {ColumnType::f32, "f32"},      {ColumnType::f64, "f64"},   {ColumnType::i64, "i64"},
    {ColumnType::boolean, "bool"}, {ColumnType::text, "text"}, {ColumnType::category, "category"},
    {ColumnType::skip, "skip"}};

const char* name_of(ColumnType type) {
  return std::ranges::find(type_names, type, &std::pair<ColumnType, const char*>::first)->second;
}

}  // namespace

struct CsvChunks::Impl {
  Impl(const io::Path& path, int64_t rows_, CsvOptions options_, Location where)
      : file(io::MappedFile::open(path, op, where)), name(path.string()), rows(rows_), options(std::move(options_)) {
    const io::ReadScope reading;
    if (rows < 1) raise<ValueError>({.op = op, .problem = mismatch_text("rows", "at least 1", rows)}, where);
    start(where);
    reading.check(op, where);
  }

  std::string_view text() const { return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}; }
  std::unique_ptr<CsvReader> reader_of(const CsvOptions& wanted, Location where) const {
    auto made = std::make_unique<CsvReader>(text(), wanted, CsvPlace{name, op, where});
    made->start();
    return made;
  }
  void start(Location where) { reader = reader_of(options, where); }

  Types types() const {
    Types out;
    for (const CsvColumn& column : reader->columns()) {
      out.emplace_back(column.name(), column.infers() ? ColumnType::infer : column.type());
    }
    return out;
  }
  bool is_typed() const { return std::ranges::none_of(reader->columns(), &CsvColumn::infers); }

  void set_types(Types types, Location where) {
    options.types = std::move(types);
    start(where);
  }
  /// Reads the whole file to infer the types of columns without one.
  void find_types(Location where) {
    if (is_typed()) return;
    Types all = types();
    CsvOptions wanted = options;
    wanted.types = all;
    for (auto& [column, type] : wanted.types) {
      if (type != ColumnType::infer) type = ColumnType::skip;
    }
    const auto scan = reader_of(wanted, where);
    const auto note = [&] {
      for (size_t i = 0; i < all.size(); ++i) {
        CsvColumn& column = scan->columns()[i];
        if (column.infers()) all[i].second = column.forget();
      }
    };
    note();
    const io::ReadScope reading;
    while (scan->read(4096)) note();
    reading.check(op, where);
    set_types(std::move(all), where);
  }

  std::optional<Table> next(Location where) {
    find_types(where);
    const CsvRows::Position before = reader->position();
    const int64_t row = reader->row();
    try {
      return io::read_checked(op, where,
                              [&] { return reader->read(rows) ? std::optional(reader->take()) : std::nullopt; });
    } catch (...) {
      for (CsvColumn& column : reader->columns()) column.forget();
      reader->go_to(before, row);
      throw;
    }
  }

  // ---- positions ----
  JsonTree state() const {
    JsonTree out = JsonTree::object(), columns = JsonTree::list();
    out["version"] = JsonTree::of(version);
    out["bytes"] = JsonTree::of(std::ssize(text()));
    out["at"] = JsonTree::of(static_cast<int64_t>(std::min(reader->position().at, text().size())));
    out["line"] = JsonTree::of(reader->position().line);
    out["row"] = JsonTree::of(reader->row());
    for (const CsvColumn& column : reader->columns()) {
      JsonTree& one = columns.items.emplace_back().second;
      one["name"] = JsonTree::of(column.name());
      one["type"] = column.infers() ? JsonTree() : JsonTree::of(name_of(column.type()));
      if (column.type() != ColumnType::category) continue;
      JsonTree& names = one["categories"] = JsonTree::list();
      for (const std::string& category : column.categories()) names.add(JsonTree::of(category));
    }
    out["columns"] = std::move(columns);
    return out;
  }

  struct Saved {
    CsvRows::Position position;
    int64_t row = 0;
    Types types;
    std::vector<std::vector<std::string>> categories;
  };
  Saved read_state(const JsonNode& place, Location where) const {
    const auto whole = [&](const char* field, int64_t least) {
      const int64_t value = place.at(field).integer();
      if (value < least) place.at(field).fail("it is out of range");
      return value;
    };
    if (const int64_t found = whole("version", 1); found != version) {
      place.at("version").fail(mismatch_text("", version, found));
    }
    require("bytes", whole("bytes", 0), std::ssize(text()), where);
    Saved out;
    out.position = {static_cast<size_t>(whole("at", 0)), whole("line", 1)};
    out.row = whole("row", 0);
    const size_t at = out.position.at;
    const bool begins = at == reader->first_row().at || (at > 0 && at <= text().size() && text()[at - 1] == '\n');
    if (!begins && at != text().size()) place.at("at").fail("no row begins there");
    place.at("columns").each([&](const JsonNode& column) {
      ColumnType type = ColumnType::infer;
      if (!column.at("type").json().is(JsonTree::Kind::null)) {
        const std::string written = column.at("type").text();
        const auto known = std::ranges::find(type_names, written, &std::pair<ColumnType, const char*>::second);
        if (known == std::end(type_names)) column.at("type").fail("there is no such type");
        type = known->first;
      }
      out.types.emplace_back(column.at("name").text(), type);
      std::vector<std::string>& names = out.categories.emplace_back();
      if (type != ColumnType::category) return;
      column.at("categories").each([&](const JsonNode& name) { names.push_back(name.text()); });
    });
    return out;
  }
  template <class T>
  void require(const char* what, const T& saved, const T& here, Location where) const {
    if (saved == here) return;
    raise<ValueError>({.op = "CsvChunks.restore",
                       .problem = fmt::format("{} was {} when the place was saved, and is {}", what, saved, here)},
                      where);
  }
  void restore(const std::string& state, Location where) {
    const JsonTree tree = io::parse_json(state, "CsvChunks.restore", where);
    Saved saved = read_state(JsonNode(tree, "CsvChunks.restore", where).object(), where);
    const Types own = types();
    require("the number of columns", saved.types.size(), own.size(), where);
    for (size_t i = 0; i < own.size(); ++i) {
      require("a column", saved.types[i].first, own[i].first, where);
      if (own[i].second == ColumnType::infer || saved.types[i].second == ColumnType::infer) continue;
      require("a type", std::string(name_of(saved.types[i].second)), std::string(name_of(own[i].second)), where);
    }
    const auto is_open = [](const auto& column) { return column.second == ColumnType::infer; };
    if (!is_typed() && std::ranges::none_of(saved.types, is_open)) set_types(saved.types, where);
    find_types(where);
    for (size_t i = 0; i < own.size(); ++i) reader->columns()[i].set_categories(std::move(saved.categories[i]));
    reader->go_to(saved.position, saved.row);
  }

  io::MappedFile file;
  std::string name;
  int64_t rows;
  CsvOptions options;
  std::unique_ptr<CsvReader> reader;
};

CsvChunks::CsvChunks(const io::Path& path, int64_t rows, CsvOptions options, Location where)
    : impl_(new Impl(path, rows, std::move(options), where)) {}
CsvChunks::~CsvChunks() = default;
CsvChunks::CsvChunks(CsvChunks&&) noexcept = default;
CsvChunks& CsvChunks::operator=(CsvChunks&&) noexcept = default;

std::optional<Table> CsvChunks::next(Location where) { return impl_->next(where); }

CsvChunks::Types CsvChunks::types(Location where) {
  impl_->find_types(where);
  return impl_->types();
}

int64_t CsvChunks::row() const { return impl_->reader->row(); }

std::string CsvChunks::state(Location where) const { return io::json_text(impl_->state(), "CsvChunks.state", where); }

void CsvChunks::restore(const std::string& state, Location where) { impl_->restore(state, where); }

}  // namespace weft::data
