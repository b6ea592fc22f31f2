// Splits CSV text into rows and fields, and quotes fields. Internal to data/ and train/.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../../tensor/error.hpp"

namespace weft::data {

struct CsvField {
  std::string_view text;
  bool quoted = false;
  int64_t line = 0;
};

/// Context of an error: the file and the op.
struct CsvPlace {
  std::string file;
  const char* op;
  Location where;
  [[noreturn]] void fail(int64_t line, size_t column, const std::string& problem) const;
};

class CsvRows {
 public:
  CsvRows(std::string_view text, char delimiter, std::optional<char> comment, const CsvPlace& place)
      : text_(text), delimiter_(delimiter), comment_(comment), place_(place) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  void skip_line() {
    const size_t end = text_.find('\n', at_);
    at_ = end == text_.npos ? text_.size() : end + 1;
    ++line_;
  }
  /// Reads the next row that is not empty; false at the end. Fields are valid until the next call.
  bool next(std::vector<CsvField>& fields);
  /// Start of the next row.
  struct Position {
    size_t at = 0;
    int64_t line = 1;
  };
  Position position() const { return {at_, line_}; }
  void go_to(Position position) {
    at_ = position.at;
    line_ = position.line;
  }
  int64_t line() const { return row_line_; }

 private:
  bool skip_empty();
  CsvField plain();
  CsvField quoted(size_t column);
  bool ends_line(size_t at) const {
    return at >= text_.size() || text_[at] == '\n' ||
           (text_[at] == '\r' && (at + 1 == text_.size() || text_[at + 1] == '\n'));
  }

  std::string_view text_;
  char delimiter_;
  std::optional<char> comment_;
  const CsvPlace& place_;
  size_t at_ = 0;
  int64_t line_ = 1, row_line_ = 1;
  /// Unescaped copies of fields with doubled quotes.
  std::deque<std::string> unescaped_;
};

/// Appends a field to a row, quoted if necessary; `alone` if it is the only field of the row.
void put_csv_field(std::string& out, std::string_view text, char delimiter, bool alone);

}  // namespace weft::data
