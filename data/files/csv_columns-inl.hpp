// Columns of a CSV text while they are read. Internal to data/.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../csv.hpp"
#include "csv_rows-inl.hpp"

namespace weft::data {

/// A column that grows, and, where its type is inferred, becomes wider when a field asks for it.
class CsvColumn {
 public:
  CsvColumn(std::string name, ColumnType type, const CsvOptions& options);

  const std::string& name() const { return name_; }
  ColumnType type() const { return type_; }
  bool infers() const { return infer_; }
  /// The row from which on texts are kept; earlier ones are read again.
  int64_t texts_from() const { return texts_from_; }
  void put_text_before(std::string_view text) { earlier_.emplace_back(text); }

  /// False where the field is not of the column's type.
  bool add(std::string_view raw, int64_t row);
  /// What was read since; codes of categories stay what they are.
  Column take();
  /// Of an inferred column, what its fields so far are; the fields themselves are forgotten.
  ColumnType forget();

  /// What the codes stand for.
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

/// A text's rows, and the columns that they are put into.
class CsvReader {
 public:
  /// ValueError for options that contradict each other. Text and options stay as long as this.
  CsvReader(std::string_view text, const CsvOptions& options, CsvPlace place);
  CsvReader(const CsvReader&) = delete;

  /// Names the columns, and stands before the first row.
  void start();
  /// Puts up to `most` rows into the columns; false where there was none left, or none that max_rows allows.
  bool read(int64_t most);
  /// A column that turned out to be texts had forgotten those that looked like numbers.
  void read_texts_again();
  /// What the columns have; they are empty then.
  Table take();

  std::vector<CsvColumn>& columns() { return columns_; }
  /// How many rows were read, and where the next one is.
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
