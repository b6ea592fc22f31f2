// JSON values, and files with one JSON value per line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "table.hpp"
#include "../io/file.hpp"
#include "../tensor/shared.hpp"

namespace weft::io {
struct JsonTree;
}

namespace weft::data {

namespace detail {
/// The index of operator[], with the location of the call.
struct Position {
  Position(int64_t number_, Location where_ = {}) : number(number_), where(where_) {}  // NOLINT: converts implicitly
  int64_t number;
  Location where;
};
}  // namespace detail

/// A read-only JSON value. An accessor of another type raises FormatError. A nested value keeps the whole document
/// alive.
class WEFT_API Json {
 public:
  enum class Kind : uint8_t { null, boolean, integer, number, text, list, object };

  /// Raises FormatError for malformed text, duplicate field names in an object and more than 500 levels.
  static Json parse(std::string_view text, Location where = {});

  Kind kind() const;
  bool is_null() const { return kind() == Kind::null; }
  /// Number of items of a list or fields of an object; 0 for other values.
  int64_t size() const;
  bool has(std::string_view name) const;
  /// Returns a field of an object. Raises KeyError if it is missing.
  Json operator[](detail::Name name) const { return field(name.text, name.where); }
  Json field(std::string_view name, Location where = {}) const;
  /// Returns an item of a list, or a field of an object by index. Raises IndexError.
  Json operator[](detail::Position i) const { return item(i.number, i.where); }
  Json item(int64_t i, Location where = {}) const;
  /// Returns the field names of an object, in the order of the text.
  std::vector<std::string> names() const;

  bool boolean(Location where = {}) const;
  int64_t integer(Location where = {}) const;
  /// Also accepts an integer.
  double number(Location where = {}) const;
  const std::string& text(Location where = {}) const;
  /// Converts a number, a bool or nested lists of them: i64 if all are integers, bool if all are bools, else f32.
  /// Raises ShapeError for lists of unequal lengths and for more than 8 levels.
  Tensor tensor(Location where = {}) const;
  /// Returns the value as JSON text.
  std::string dump(Location where = {}) const;

 private:
  friend class JsonLines;
  Json(Shared<const io::JsonTree> root, const io::JsonTree* tree) : root_(std::move(root)), tree_(tree) {}
  Shared<const io::JsonTree> root_;
  const io::JsonTree* tree_;
};

/// The values of a file with one per line, parsed lazily:
///   for (const Json& row : data::read_json_lines("rows.jsonl")) texts.push_back(row["text"].text());
/// Blank lines are skipped.
class WEFT_API JsonLines {
 public:
  class Iterator {
   public:
    const Json& operator*() const { return *value_; }
    const Json* operator->() const { return &*value_; }
    Iterator& operator++() {
      lines_->advance(*this);
      return *this;
    }
    bool operator==(const Iterator& other) const { return value_.has_value() == other.value_.has_value(); }
    /// Line number of the value, counted from 1.
    int64_t line() const { return line_; }

   private:
    friend class JsonLines;
    const JsonLines* lines_ = nullptr;
    std::string_view rest_ = {};
    int64_t line_ = 0;
    std::optional<Json> value_ = {};
  };

  /// begin() and ++ raise FormatError, with file and line, if the next line is not JSON.
  Iterator begin() const;
  Iterator end() const { return {}; }

 private:
  friend WEFT_API JsonLines read_json_lines(const io::Path& path, Location where);
  void advance(Iterator& iterator) const;
  io::MappedFile file_;
  std::string name_;
  Location where_ = Location::none();
};

/// Raises IoError if the file cannot be read.
WEFT_API JsonLines read_json_lines(const io::Path& path, Location where = {});

/// Returns fields of all lines as columns; the default is the fields of the first line. Columns are texts, or the
/// stacked results of Json::tensor, [rows, …]. Integers mixed with floating-point numbers become floating-point. Raises
/// FormatError, with file and line, for a line that is not an object or lacks a field. Raises FormatError also for a
/// value with another type or shape than in the earlier lines.
WEFT_API Table read_json_table(const io::Path& path, const std::vector<std::string>& fields = {}, Location where = {});

}  // namespace weft::data
