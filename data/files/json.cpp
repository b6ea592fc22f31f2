#include <limits>

#include <fmt/format.h>

#include "text_lines-inl.hpp"
#include "../json_lines.hpp"
#include "../../io/json/json_tree-inl.hpp"
#include "../../io/json/utf8-inl.hpp"
#include "../../ops/create.hpp"
#include "../../ops/join.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data {

using io::JsonTree;

namespace {

const char* name_of(JsonTree::Kind kind) {
  constexpr const char* names[] = {"null", "a bool", "an integer", "a number", "a text", "a list", "an object"};
  return names[static_cast<size_t>(kind)];
}

[[noreturn]] void wrong_kind(const JsonTree& tree, const char* wanted, Location where) {
  raise<FormatError>({.op = "Json", .problem = mismatch_text("", wanted, name_of(tree.kind))}, where);
}

const JsonTree& checked(const JsonTree& tree, JsonTree::Kind kind, Location where) {
  if (!tree.is(kind)) wrong_kind(tree, name_of(kind), where);
  return tree;
}

double number_of(const JsonTree& tree, Location where) {
  if (tree.is(JsonTree::Kind::integer)) return static_cast<double>(tree.integer);
  return std::strtod(checked(tree, JsonTree::Kind::floating, where).text.c_str(), nullptr);
}

/// Flattens nested lists of numbers.
class Numbers {
 public:
  explicit Numbers(Location where) : where_(where) {}

  Tensor tensor(const JsonTree& tree) {
    for (const JsonTree* t = &tree; t->is(JsonTree::Kind::list); t = &t->items[0].second) {
      if (shape_.size() == size_t{max_rank}) refuse_shape();
      shape_.push_back(std::ssize(t->items));
      if (t->items.empty()) break;
    }
    add(tree, 0);
    if (!bools_.empty() && !all_bools_) wrong_kind(tree, "a list of one kind of values", where_);
    if (!bools_.empty()) {
      const Tensor out = empty(shape_, {.dtype = DType::boolean});
      std::copy(bools_.begin(), bools_.end(), static_cast<bool*>(out.data_ptr()));
      return out;
    }
    if (all_integers_ && !integers_.empty()) {
      return weft::tensor(std::span<const int64_t>(integers_), shape_, {}, where_);
    }
    return weft::tensor(std::span<const double>(numbers_), shape_, {.dtype = DType::f32}, where_);
  }

 private:
  [[noreturn]] void refuse_shape() const {
    raise<ShapeError>({.op = "Json.tensor", .problem = "lists of unequal lengths, or more than 8 levels of them"},
                      where_);
  }
  void add(const JsonTree& tree, int level) {
    if (tree.is(JsonTree::Kind::list)) {
      if (level == shape_.size() || std::ssize(tree.items) != shape_[level]) refuse_shape();
      for (const auto& [name, item] : tree.items) add(item, level + 1);
      return;
    }
    if (level != shape_.size()) refuse_shape();
    if (tree.is(JsonTree::Kind::boolean)) return bools_.push_back(tree.boolean);
    all_bools_ = false;
    if (tree.is(JsonTree::Kind::integer)) integers_.push_back(tree.integer);
    else all_integers_ = false;
    numbers_.push_back(number_of(tree, where_));
  }

  Location where_;
  Dims shape_;
  bool all_bools_ = true, all_integers_ = true;
  std::vector<char> bools_;
  std::vector<int64_t> integers_;
  std::vector<double> numbers_;
};

}  // namespace

Json Json::parse(std::string_view text, Location where) {
  const auto root = Shared<JsonTree>::make(io::parse_json(text, "Json.parse", where));
  return {root, root.get()};
}

Json::Kind Json::kind() const { return static_cast<Kind>(tree_->kind); }
int64_t Json::size() const { return std::ssize(tree_->items); }
bool Json::has(std::string_view name) const {
  return tree_->is(JsonTree::Kind::object) && tree_->find(name) != nullptr;
}

Json Json::field(std::string_view name, Location where) const {
  const JsonTree* found = checked(*tree_, JsonTree::Kind::object, where).find(name);
  if (found != nullptr) return {root_, found};
  raise<KeyError>({.op = "Json", .problem = fmt::format("there is no field {}", io::quoted(name))}, where);
}

Json Json::item(int64_t i, Location where) const {
  if (i >= 0 && i < size()) return {root_, &tree_->items[static_cast<size_t>(i)].second};
  raise<IndexError>({.op = "Json", .problem = fmt::format("item {} of {}", i, size())}, where);
}

std::vector<std::string> Json::names() const {
  std::vector<std::string> out;
  if (!tree_->is(JsonTree::Kind::object)) return out;
  for (const auto& [name, value] : tree_->items) out.push_back(name);
  return out;
}

bool Json::boolean(Location where) const { return checked(*tree_, JsonTree::Kind::boolean, where).boolean; }
int64_t Json::integer(Location where) const { return checked(*tree_, JsonTree::Kind::integer, where).integer; }
double Json::number(Location where) const { return number_of(*tree_, where); }
const std::string& Json::text(Location where) const { return checked(*tree_, JsonTree::Kind::text, where).text; }
Tensor Json::tensor(Location where) const { return Numbers(where).tensor(*tree_); }
std::string Json::dump(Location where) const { return io::json_text(*tree_, "Json.dump", where); }

// ---- lines ----------------------------------------------------------------------------------------------------------

JsonLines read_json_lines(const io::Path& path, Location where) {
  JsonLines lines;
  lines.file_ = io::MappedFile::open(path, "read_json_lines", where);
  lines.name_ = path.string();
  lines.where_ = where;
  return lines;
}

JsonLines::Iterator JsonLines::begin() const {
  Iterator out;
  out.lines_ = this;
  out.rest_ = without_mark({reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()});
  advance(out);
  return out;
}

void JsonLines::advance(Iterator& iterator) const {
  const io::ReadScope reading;
  iterator.value_.reset();
  while (!iterator.rest_.empty()) {
    const std::string_view line = take_line(iterator.rest_);
    ++iterator.line_;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    reading.check("read_json_lines", where_);
    const std::string place = fmt::format("{}: line {}: ", name_, iterator.line_);
    const auto root = Shared<JsonTree>::make(io::parse_json(line, "read_json_lines", where_, place));
    iterator.value_ = Json(root, root.get());
    return;
  }
}

// ---- tables ---------------------------------------------------------------------------------------------------------

namespace {

struct Field {
  std::string name;
  bool is_text = false;
  std::vector<std::string> texts = {};
  std::vector<Tensor> values = {};
};

class Collector {
 public:
  Collector(const io::Path& path, Location where) : path_(path), where_(where) {}

  void add(Field& field, const Json& row, int64_t line) {
    if (!row.has(field.name)) fail(line, fmt::format("there is no field {}", io::quoted(field.name)));
    const Json value = row[field.name];
    const bool first = field.texts.empty() && field.values.empty();
    if (first) field.is_text = value.kind() == Json::Kind::text;
    if (field.is_text != (value.kind() == Json::Kind::text)) another(field, line);
    if (field.is_text) return field.texts.push_back(value.text());
    Tensor numbers;
    try {
      numbers = value.tensor(Location::none());
    } catch (const Error&) {
      fail(line,
           fmt::format("the field {} is neither a text nor numbers in lists of equal lengths", io::quoted(field.name)));
    }
    if (!first) {
      const Tensor& before = field.values[0];
      if ((before.dtype() == DType::boolean) != (numbers.dtype() == DType::boolean)) another(field, line);
      if (before.shape() != numbers.shape()) {
        fail(line, fmt::format("the field {} has the shape {}, and {} before", io::quoted(field.name),
                               numbers.shape().text(), before.shape().text()));
      }
    }
    field.values.push_back(std::move(numbers));
  }
  [[noreturn]] void fail(int64_t line, const std::string& problem) const {
    raise<FormatError>(
        {.op = "read_json_table", .problem = fmt::format("{}: line {}: {}", path_.string(), line, problem)}, where_);
  }

 private:
  [[noreturn]] void another(const Field& field, int64_t line) const {
    fail(line, fmt::format("the field {} is another kind of value than before", io::quoted(field.name)));
  }
  const io::Path& path_;
  Location where_;
};

Column column_of(Field&& field) {
  Column out{.name = std::move(field.name), .texts = std::move(field.texts)};
  if (field.is_text) return out;
  DType common = field.values[0].dtype();
  for (const Tensor& value : field.values) common = value.dtype() == DType::f32 ? DType::f32 : common;
  for (Tensor& value : field.values) value = value.to(common);
  out.values = stack(field.values);
  return out;
}

}  // namespace

Table read_json_table(const io::Path& path, const std::vector<std::string>& fields, Location where) {
  const CallScope call("read_json_table", where);
  const JsonLines lines = read_json_lines(path, where);
  Collector collector(path, where);
  std::vector<Field> columns;
  for (const std::string& name : fields) columns.push_back({.name = name});
  bool first = true;
  for (auto row = lines.begin(); row != lines.end(); ++row, first = false) {
    if (row->kind() != Json::Kind::object) collector.fail(row.line(), "it is no object");
    if (first && fields.empty()) {
      for (std::string& name : row->names()) columns.push_back({.name = std::move(name)});
    }
    for (Field& field : columns) collector.add(field, *row, row.line());
  }
  Table table;
  for (Field& field : columns) {
    if (first) field.is_text = true;  // no rows
    table.add(column_of(std::move(field)), where);
  }
  return table;
}

}  // namespace weft::data
