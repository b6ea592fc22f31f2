// Tables as text (RFC 4180): fields with a delimiter between them, in quotes where they hold one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stream.hpp"
#include "table.hpp"
#include "../io/path.hpp"
#include "../tensor/pimpl.hpp"

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

/// A table in parts of up to `rows` rows, of a file that may be larger than memory. One after the other they are the
/// table of `read_csv`, with the same types: columns without a type are read once before the first part. A part of a
/// column of categories has those that occurred so far.
///
///   data::CsvChunks chunks("large.csv", 100000, {.types = {{"kind", data::ColumnType::category}}});
///   while (const std::optional<data::Table> part = chunks.next()) …
class WEFT_API CsvChunks {
 public:
  using Types = std::vector<std::pair<std::string, ColumnType>>;
  /// Reads the header. Errors are read_csv's; ValueError for less than one row.
  CsvChunks(const io::Path& path, int64_t rows, CsvOptions options = {}, Location where = {});
  ~CsvChunks();
  CsvChunks(CsvChunks&&) noexcept;
  CsvChunks& operator=(CsvChunks&&) noexcept;

  /// The next part, nothing at the end. Where a row is malformed, every call raises the FormatError for it anew.
  std::optional<Table> next(Location where = {});
  /// Each column with its type, none of which is `infer`.
  Types types(Location where = {});
  /// Of the next part's first row, from 0 on.
  int64_t row() const;

  /// The place behind the last part that `next` gave, as JSON. ValueError where a category is not UTF-8.
  std::string state(Location where = {}) const;
  /// Goes there, also with another number of rows in a part. FormatError for a text that is none; ValueError, and no
  /// change, where file, columns or types are others.
  void restore(const std::string& state, Location where = {});

 private:
  struct Impl;
  weft::detail::Pimpl<Impl> impl_;
};

/// The parts of a file as a stream, <weft/data/stream.hpp>; every epoch reads it from the start. Types are found once.
inline auto csv_stream(const io::Path& path, int64_t rows, CsvOptions options = {}, Location where = {}) {
  options.types = CsvChunks(path, rows, options, where).types(where);
  return stream([=](int64_t) {
    return [chunks = Shared<CsvChunks>::make(path, rows, options, where)] { return chunks->next(); };
  });
}

/// The fewest digits that lead back to each number; categories as texts; NaN as an empty field. The file is replaced
/// atomically. IoError; ShapeError for columns that are not 1-d.
WEFT_API void write_csv(const Table& table, const io::Path& path, char delimiter = ',', Location where = {});

}  // namespace weft::data
