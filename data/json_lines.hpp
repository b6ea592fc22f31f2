// JSON values, and files with one on each line.
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
/// A position between brackets, with the place of the call.
struct Position {
  Position(int64_t number_, Location where_ = {}) : number(number_), where(where_) {}  // NOLINT: converts implicitly
  int64_t number;
  Location where;
};
}  // namespace detail

/// A JSON value that is read, never changed. What is asked for and is another kind of value is a FormatError. A part
/// keeps the whole alive.
class WEFT_API Json {
 public:
  enum class Kind : uint8_t { null, boolean, integer, number, text, list, object };

  /// FormatError for malformed text, two fields of one name in an object and more than 500 levels.
  static Json parse(std::string_view text, Location where = {});

  Kind kind() const;
  bool is_null() const { return kind() == Kind::null; }
  /// Items of a list or fields of an object; 0 for everything else.
  int64_t size() const;
  bool has(std::string_view name) const;
  /// A field of an object; KeyError where there is none of this name.
  Json operator[](detail::Name name) const { return field(name.text, name.where); }
  Json field(std::string_view name, Location where = {}) const;
  /// An item of a list, or a field of an object by its place; IndexError.
  Json operator[](detail::Position i) const { return item(i.number, i.where); }
  Json item(int64_t i, Location where = {}) const;
  /// Of an object, in the order of the text.
  std::vector<std::string> names() const;

  bool boolean(Location where = {}) const;
  int64_t integer(Location where = {}) const;
  /// Of an integer too.
  double number(Location where = {}) const;
  const std::string& text(Location where = {}) const;
  /// A number, a bool or lists of them in lists: i64 where all are integers, bool where all are bools, else f32.
  /// ShapeError for lists of unequal lengths, and more than 8 levels.
  Tensor tensor(Location where = {}) const;
  /// The text again, on one line or several.
  std::string dump(Location where = {}) const;

 private:
  friend class JsonLines;
  Json(Shared<const io::JsonTree> root, const io::JsonTree* tree) : root_(std::move(root)), tree_(tree) {}
  Shared<const io::JsonTree> root_;
  const io::JsonTree* tree_;
};

/// The values of a file with one on each line, read as they are asked for:
///   for (const Json& row : data::read_json_lines("rows.jsonl")) texts.push_back(row["text"].text());
/// Lines of blanks alone are left out.
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
    /// Of the value, counted from 1.
    int64_t line() const { return line_; }

   private:
    friend class JsonLines;
    const JsonLines* lines_ = nullptr;
    std::string_view rest_ = {};
    int64_t line_ = 0;
    std::optional<Json> value_ = {};
  };

  /// FormatError, with file and line, for a line that is no JSON; so when the iterator comes to the next one.
  Iterator begin() const;
  Iterator end() const { return {}; }

 private:
  friend WEFT_API JsonLines read_json_lines(const io::Path& path, Location where);
  void advance(Iterator& iterator) const;
  io::MappedFile file_;
  std::string name_;
  Location where_ = Location::none();
};

/// IoError where the file cannot be read.
WEFT_API JsonLines read_json_lines(const io::Path& path, Location where = {});

/// Chosen fields of all lines as columns, those of the first line where none is named: texts, or what Json::tensor
/// makes of a field, one after the other, [rows, …]. Integers among fractions are fractions. FormatError, with file and
/// line, for a line that is no object or has not all the fields, and for another kind of value or another shape than in
/// the lines before.
WEFT_API Table read_json_table(const io::Path& path, const std::vector<std::string>& fields = {}, Location where = {});

}  // namespace weft::data
