// Tables as text (RFC 4180): delimited fields, quoted if they contain a delimiter.
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

/// The type of a column. `infer` takes the first type that fits all fields: bool ("true", "False", …), i64,
/// floating-point, text. `category` gives i64 codes, numbered in order of first occurrence.
enum class ColumnType : uint8_t { infer, f32, f64, i64, boolean, text, category, skip };

struct CsvOptions {
  char delimiter = ',';
  /// The first row names the columns; otherwise they are "0", "1", ….
  bool header = true;
  /// Lines that begin with it are skipped.
  std::optional<char> comment = {};
  /// Names that replace those of the file.
  std::vector<std::string> names = {};
  /// Types by column name; all other columns have the type `type`.
  std::vector<std::pair<std::string, ColumnType>> types = {};
  ColumnType type = ColumnType::infer;
  /// Spellings of a missing number. It becomes NaN in a floating-point column and -1 in a category column. An inferred
  /// integer column becomes floating-point, an inferred bool column becomes text; an explicit i64 or bool column raises
  /// an error. Text columns are not affected.
  std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "null"};
  /// dtype of inferred floating-point columns: f32 or f64.
  DType floating = DType::f32;
  /// Number of lines to skip at the start, and maximum number of rows to read.
  int64_t skip_lines = 0, max_rows = INT64_MAX;
};

/// Reads a table. Lines end in "\n" or "\r\n". A byte-order mark at the start and empty lines are skipped. A quote
/// within quotes is doubled. Blanks around numbers are ignored. The file is mapped, not copied.
///
/// Raises IoError if the file cannot be read. Raises FormatError, with line and column, for a row of another length,
/// and for quotes that are not closed or are followed by text. Raises FormatError also for a field that does not fit
/// its column's type, and for duplicate column names. Raises ValueError for options that contradict each other, and
/// KeyError for types of unknown columns.
WEFT_API Table read_csv(const io::Path& path, const CsvOptions& options = {}, Location where = {});
/// Same, from memory. Raises the errors of read_csv, except IoError.
WEFT_API Table parse_csv(std::string_view text, const CsvOptions& options = {}, Location where = {});

/// Reads a table in chunks of up to `rows` rows, from a file that may be larger than memory. The concatenated chunks
/// equal the table of `read_csv`, with the same types: columns without a type are inferred in an extra pass before the
/// first chunk. The categories of a chunk are those that occurred so far.
///
///   data::CsvChunks chunks("large.csv", 100000, {.types = {{"kind", data::ColumnType::category}}});
///   while (const std::optional<data::Table> part = chunks.next()) …
class WEFT_API CsvChunks {
 public:
  using Types = std::vector<std::pair<std::string, ColumnType>>;
  /// Reads the header. Errors as read_csv; ValueError if `rows` is less than 1.
  CsvChunks(const io::Path& path, int64_t rows, CsvOptions options = {}, Location where = {});
  ~CsvChunks();
  CsvChunks(CsvChunks&&) noexcept;
  CsvChunks& operator=(CsvChunks&&) noexcept;

  /// Returns the next chunk, or nothing at the end. A malformed row raises the same FormatError on every call.
  std::optional<Table> next(Location where = {});
  /// Returns each column with its resolved type; never `infer`.
  Types types(Location where = {});
  /// Index of the next chunk's first row.
  int64_t row() const;

  /// Returns the position after the last chunk, as JSON. Raises ValueError if a category is not UTF-8.
  std::string state(Location where = {}) const;
  /// Restores such a position; `rows` may differ. Raises FormatError for a malformed text. Raises ValueError, and
  /// changes nothing, if the file, columns or types differ.
  void restore(const std::string& state, Location where = {});

 private:
  struct Impl;
  weft::detail::Pimpl<Impl> impl_;
};

/// Returns a stream (<weft/data/stream.hpp>) of the chunks. Every epoch starts at the beginning of the file; types are
/// inferred once.
inline auto csv_stream(const io::Path& path, int64_t rows, CsvOptions options = {}, Location where = {}) {
  options.types = CsvChunks(path, rows, options, where).types(where);
  return stream([=](int64_t) {
    return [chunks = Shared<CsvChunks>::make(path, rows, options, where)] { return chunks->next(); };
  });
}

/// Writes a table. Numbers have the fewest digits that round-trip; categories are written as texts, NaN as an empty
/// field. The file is replaced atomically. Raises IoError, and ShapeError for columns that are not 1-d.
WEFT_API void write_csv(const Table& table, const io::Path& path, char delimiter = ',', Location where = {});

}  // namespace weft::data
