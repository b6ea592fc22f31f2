// Tables as text (RFC 4180): fields with a delimiter between them, in quotes where they hold one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "table.hpp"
#include "../io/path.hpp"

namespace weft::data {

/// What a column becomes. `infer` takes the first that all fields are: bool ("true", "False", …), i64, fractions,
/// texts. `category` gives i64 codes, numbered as the texts first occur.
enum class ColumnType : uint8_t { infer, f32, f64, i64, boolean, text, category, skip };

struct CsvOptions {
  char delimiter = ',';
  /// The first row names the columns; else they are "0", "1", ….
  bool header = true;
  /// Lines that begin with it are left out.
  std::optional<char> comment = {};
  /// Names instead of those of the file.
  std::vector<std::string> names = {};
  /// By the column's name; columns that are not here have the type `type`.
  std::vector<std::pair<std::string, ColumnType>> types = {};
  ColumnType type = ColumnType::infer;
  /// What a missing number looks like: NaN in a column of fractions, -1 among codes. An inferred column of integers
  /// becomes one of fractions, one of bools texts; in a column that is to be i64 or bool it is an error. Texts are kept
  /// as they are.
  std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "null"};
  /// f32 or f64: what inferred fractions become.
  DType floating = DType::f32;
  /// Lines that are left out at the start, and rows that are read at most.
  int64_t skip_lines = 0, max_rows = INT64_MAX;
};

/// Lines end in "\n" or "\r\n"; a byte-order mark at the start and empty lines are left out; a quote within quotes is
/// doubled. Blanks around numbers do not count. The file is mapped, not copied. IoError where it cannot be read;
/// FormatError with line and column for a row of another length, for quotes that do not close or that something
/// follows, for a field that is not of its column's type and for two columns of one name; ValueError for options that
/// contradict each other, and KeyError for types of columns that are not there.
WEFT_API Table read_csv(const io::Path& path, const CsvOptions& options = {}, Location where = {});
/// The same from memory.
WEFT_API Table parse_csv(std::string_view text, const CsvOptions& options = {}, Location where = {});

/// The fewest digits that lead back to each number; categories as texts; NaN as an empty field. The file is replaced
/// atomically. IoError; ShapeError for columns that are not 1-d.
WEFT_API void write_csv(const Table& table, const io::Path& path, char delimiter = ',', Location where = {});

}  // namespace weft::data
