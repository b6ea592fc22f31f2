// Columns of a CSV text during parsing. Internal to data/.
//
// Columns widen in place, from bool to integer, double and text. So a file is read once, and only the start of a
// column that became text is read a second time.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../csv.hpp"
#include "csv_rows-inl.hpp"

namespace weft::data {

/// A growing column. An inferred type is widened when a field requires it.
class CsvColumn {
 public:
  CsvColumn(std::string name, ColumnType type, const CsvOptions& options);

  const std::string& name() const { return name_; }
  ColumnType type() const { return type_; }
  bool infers() const { return infer_; }
  /// The first row with stored texts; texts of earlier rows must be read again.
  int64_t texts_from() const { return texts_from_; }
  void put_text_before(std::string_view text) { earlier_.emplace_back(text); }

  /// Returns false if the field does not fit the column's type.
  bool add(std::string_view raw, int64_t row);
  /// Returns the rows since the last call; codes of categories stay the same.
  Column take();
  /// For an inferred column: returns the type of its fields so far, and drops the fields.
  ColumnType forget();

  /// The text of each code.
  const std::vector<std::string>& categories() const { return categories_; }
  void set_categories(std::vector<std::string> categories);

 private:
  bool is_missing(std::string_view text) const;
  void add_category(std::string_view text);
  bool add_number(std::string_view text);
  void become_floating();
  bool widen(int64_t row);
  void drop_fields();

  std::string name_;
  bool infer_, single_ = false, only_missing_ = true;
  const CsvOptions& options_;
  ColumnType type_;
  int64_t texts_from_ = 0, missing_before_ = 0;
  std::vector<int64_t> wholes_;
  std::vector<double> fractions_;
  std::vector<std::string> texts_, earlier_, categories_;
  std::unordered_map<std::string, int64_t> codes_;
};

/// Parses the rows of a text into columns.
class CsvReader {
 public:
  /// Raises ValueError for contradictory options. Text and options must outlive this.
  CsvReader(std::string_view text, const CsvOptions& options, CsvPlace place);
  CsvReader(const CsvReader&) = delete;

  /// Names the columns and moves to the first row.
  void start();
  /// Adds up to `row_limit` rows to the columns; false if there is no further row within max_rows.
  bool read(int64_t row_limit);
  /// Reads texts again that a column dropped while it was numeric.
  void read_texts_again();
  /// Moves the columns out.
  Table take();

  std::vector<CsvColumn>& columns() { return columns_; }
  /// Number of rows read, and position of the next one.
  int64_t row() const { return rows_; }
  CsvRows::Position position() const { return text_rows_.position(); }
  void go_to(CsvRows::Position position, int64_t row);
  CsvRows::Position first_row() const { return first_row_; }

 private:
  void make_columns(size_t count);
  void add_row();

  const CsvOptions& options_;
  CsvPlace place_;
  CsvRows text_rows_;
  CsvRows::Position first_row_;
  std::vector<std::string> names_;
  std::vector<CsvColumn> columns_;
  std::vector<CsvField> fields_;
  int64_t rows_ = 0, header_line_ = 1;
};

}  // namespace weft::data
