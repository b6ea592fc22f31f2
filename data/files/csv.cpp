#include "../csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "csv_rows-inl.hpp"
#include "../../io/file.hpp"
#include "../../io/json/utf8-inl.hpp"
#include "../../ops/create.hpp"

namespace weft::data {

namespace {

// ---- fields ---------------------------------------------------------------------------------------------------------

std::string_view without_blanks(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

template <class T>
bool parse(std::string_view text, T& out) {
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc::result_out_of_range && std::is_floating_point_v<T> && end == text.data() + text.size()) {
    // Too large or too small: infinite or 0, as strtod has it.
    const std::string copy(text);
    out = static_cast<T>(std::strtod(copy.c_str(), nullptr));
    return true;
  }
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_bool(std::string_view text, bool& out) {
  for (const char* word : {"true", "True", "TRUE"}) {
    if (text == word) return out = true, true;
  }
  for (const char* word : {"false", "False", "FALSE"}) {
    if (text == word) return out = false, true;
  }
  return false;
}

// ---- columns --------------------------------------------------------------------------------------------------------

/// A column that grows, and, where its type is inferred, becomes wider when a field asks for it.
class Builder {
 public:
  Builder(std::string name, ColumnType type, const CsvOptions& options)
      : name_(std::move(name)), infer_(type == ColumnType::infer), options_(options) {
    type_ = infer_ ? ColumnType::boolean : type;
    single_ = type == ColumnType::f32 || (infer_ && options.floating == DType::f32);
  }

  const std::string& name() const { return name_; }
  ColumnType type() const { return type_; }
  bool infers() const { return infer_; }
  /// The row from which on texts are kept; earlier ones are read again.
  int64_t texts_from() const { return texts_from_; }
  void put_text_before(std::string_view text) { earlier_.emplace_back(text); }

  /// False where the field is not of the column's type.
  bool add(std::string_view raw, int64_t row) {
    if (type_ == ColumnType::skip) return true;
    if (type_ == ColumnType::text) return texts_.emplace_back(raw), true;
    if (type_ == ColumnType::category) return add_category(raw), true;
    const std::string_view text = without_blanks(raw);
    for (;;) {
      if (add_number(text)) return true;
      if (!infer_) return false;
      if (!widen(row)) return texts_.emplace_back(raw), true;
    }
  }

  Column finish() && {
    Column out{.name = std::move(name_)};
    if (infer_ && type_ == ColumnType::boolean && only_missing_) become_floating();
    switch (type_) {
      case ColumnType::text:
        earlier_.insert(earlier_.end(), std::make_move_iterator(texts_.begin()), std::make_move_iterator(texts_.end()));
        out.texts = std::move(earlier_);
        break;
      case ColumnType::category:
        out.categories = std::move(texts_);
        [[fallthrough]];
      case ColumnType::i64:
        out.values = tensor_of<int64_t>(wholes_, DType::i64);
        break;
      case ColumnType::boolean:
        out.values = tensor_of<bool>(wholes_, DType::boolean);
        break;
      default:
        out.values = single_ ? tensor_of<float>(fractions_, DType::f32) : tensor_of<double>(fractions_, DType::f64);
    }
    return out;
  }

 private:
  template <class T, class Values>
  static Tensor tensor_of(const Values& values, DType dtype) {
    const Tensor out = empty({std::ssize(values)}, {.dtype = dtype});
    std::ranges::transform(values, static_cast<T*>(out.data_ptr()), [](auto v) { return static_cast<T>(v); });
    return out;
  }
  bool is_missing(std::string_view text) const {
    return std::ranges::find(options_.missing, text) != options_.missing.end();
  }
  void add_category(std::string_view text) {
    if (is_missing(text)) return wholes_.push_back(-1);
    const auto [at, added] = codes_.emplace(text, std::ssize(texts_));
    if (added) texts_.emplace_back(text);
    wholes_.push_back(at->second);
  }

  bool add_number(std::string_view text) {
    if (type_ == ColumnType::boolean || type_ == ColumnType::i64) {
      bool truth = false;
      int64_t whole = 0;
      const bool good = type_ == ColumnType::boolean ? parse_bool(text, truth) : parse(text, whole);
      if (good && missing_before_ == 0) {
        wholes_.push_back(type_ == ColumnType::boolean ? truth : whole);
        only_missing_ = false;
        return true;
      }
      // An inferred column of nothing but missing numbers may still become anything.
      if (infer_ && only_missing_ && is_missing(text)) return wholes_.push_back(0), ++missing_before_, true;
      return false;
    }
    if (type_ == ColumnType::text) return false;
    double value = 0;
    float narrow = 0;
    bool good = single_ ? parse(text, narrow) : parse(text, value);
    if (good && single_) value = narrow;
    if (!good && is_missing(text)) good = true, value = std::numeric_limits<double>::quiet_NaN();
    else if (good) only_missing_ = false;
    if (good) fractions_.push_back(value);
    return good;
  }

  void become_floating() {
    fractions_.assign(wholes_.begin(), wholes_.end());
    if (single_) {
      for (double& value : fractions_) value = static_cast<float>(value);
    }
    std::fill_n(fractions_.begin(), std::min<int64_t>(missing_before_, std::ssize(fractions_)),
                std::numeric_limits<double>::quiet_NaN());
    wholes_.clear();
    type_ = ColumnType::f64;
  }
  /// The next wider type; false where that is texts.
  bool widen(int64_t row) {
    const bool any_truth = type_ == ColumnType::boolean && !only_missing_;
    if (type_ == ColumnType::boolean && !any_truth && missing_before_ == 0) return type_ = ColumnType::i64, true;
    if (type_ != ColumnType::f64 && !any_truth) return become_floating(), true;
    type_ = ColumnType::text;
    texts_from_ = row;
    wholes_.clear();
    fractions_.clear();
    return false;
  }

  std::string name_;
  bool infer_, single_ = false, only_missing_ = true;
  const CsvOptions& options_;
  ColumnType type_;
  int64_t texts_from_ = 0, missing_before_ = 0;
  std::vector<int64_t> wholes_;
  std::vector<double> fractions_;
  /// Or the categories.
  std::vector<std::string> texts_, earlier_;
  std::unordered_map<std::string, int64_t> codes_;
};

// ---- the table ------------------------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(std::string_view text, const CsvOptions& options, CsvPlace place)
      : text_(text), options_(options), place_(std::move(place)) {
    if (options.delimiter == '"' || options.delimiter == '\n' || options.delimiter == '\r') {
      refuse("a quote or the end of a line cannot be the delimiter");
    }
    if (options.comment && (*options.comment == options.delimiter || *options.comment == '"')) {
      refuse("a comment begins as a field does");
    }
    if (options.floating != DType::f32 && options.floating != DType::f64) refuse("fractions become f32 or f64");
  }

  Table read() {
    CsvRows rows = start();
    std::vector<CsvField> fields;
    bool more = rows.next(fields);
    if (options_.header && more) {
      for (const CsvField& field : fields) names_.emplace_back(field.text);
      header_line_ = rows.line();
      more = rows.next(fields);
    }
    make_columns(more ? fields.size() : names_.size());
    for (; more && rows_ < options_.max_rows; more = rows.next(fields)) add_row(fields, rows.line());
    read_texts_again();
    Table table;
    for (Builder& column : columns_) {
      if (column.type() != ColumnType::skip) table.add(std::move(column).finish(), place_.where);
    }
    return table;
  }

 private:
  [[noreturn]] void refuse(const char* problem) const {
    raise<ValueError>({.op = place_.op, .problem = problem}, place_.where);
  }
  CsvRows start() const {
    CsvRows rows(text_, options_.delimiter, options_.comment, place_);
    for (int64_t i = 0; i < options_.skip_lines; ++i) rows.skip_line();
    return rows;
  }

  void make_columns(size_t count) {
    if (!options_.names.empty()) {
      if (count == 0) count = options_.names.size();
      names_ = options_.names;
      if (names_.size() != count) {
        place_.fail(header_line_, 0, fmt::format("there are {} columns and {} names", count, names_.size()));
      }
    }
    if (names_.empty()) {
      for (size_t i = 0; i < count; ++i) names_.push_back(std::to_string(i));
    }
    for (const auto& [name, type] : options_.types) {
      if (std::ranges::find(names_, name) != names_.end()) continue;
      raise<KeyError>({.op = place_.op, .problem = fmt::format("there is no column {}", io::quoted(name))},
                      place_.where);
    }
    std::unordered_map<std::string_view, size_t> seen;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!seen.emplace(names_[i], i).second) {
        place_.fail(header_line_, i + 1, fmt::format("two columns are named {}", io::quoted(names_[i])));
      }
    }
    for (const std::string& name : names_) {
      const auto given = std::ranges::find(options_.types, name, &std::pair<std::string, ColumnType>::first);
      columns_.emplace_back(name, given == options_.types.end() ? options_.type : given->second, options_);
    }
  }

  void add_row(const std::vector<CsvField>& fields, int64_t line) {
    if (fields.size() != columns_.size()) {
      place_.fail(line, 0, fmt::format("{} fields, and {} columns", fields.size(), columns_.size()));
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      if (columns_[i].add(fields[i].text, rows_)) continue;
      place_.fail(fields[i].line, i + 1,
                  fmt::format("{} in the column {}, which is {}", io::quoted(fields[i].text),
                              io::quoted(columns_[i].name()), kind_of(columns_[i].type())));
    }
    ++rows_;
  }
  static const char* kind_of(ColumnType type) {
    return type == ColumnType::i64 ? "of 64-bit integers" : type == ColumnType::boolean ? "of bools" : "of numbers";
  }

  /// A column that turned out to be texts had forgotten those that looked like numbers.
  void read_texts_again() {
    int64_t last = 0;
    for (const Builder& column : columns_) {
      if (column.infers() && column.type() == ColumnType::text) last = std::max(last, column.texts_from());
    }
    if (last == 0) return;
    CsvRows rows = start();
    std::vector<CsvField> fields;
    if (options_.header) rows.next(fields);
    for (int64_t row = 0; row < last && rows.next(fields); ++row) {
      for (size_t i = 0; i < columns_.size(); ++i) {
        Builder& column = columns_[i];
        if (column.infers() && column.type() == ColumnType::text && row < column.texts_from()) {
          column.put_text_before(fields[i].text);
        }
      }
    }
  }

  std::string_view text_;
  const CsvOptions& options_;
  CsvPlace place_;
  std::vector<std::string> names_;
  std::vector<Builder> columns_;
  int64_t rows_ = 0, header_line_ = 1;
};

// ---- writing --------------------------------------------------------------------------------------------------------

/// A column's fields, one after the other.
class Printer {
 public:
  explicit Printer(const Column& column) : column_(column) {
    if (column.is_text()) return;
    const DType dtype = column.values.dtype();
    const Tensor cpu = column.values.to(Device());
    if (dtype == DType::boolean || !is_floating(dtype)) wholes_ = cpu.to(DType::i64).to_vector<int64_t>();
    else fractions_ = cpu.to(DType::f64).to_vector<double>();
  }
  std::string field(size_t row) const {
    if (column_.is_text()) return column_.texts[row];
    if (!fractions_.empty()) {
      const double value = fractions_[row];
      if (std::isnan(value)) return {};
      return column_.values.dtype() == DType::f64 ? fmt::format("{}", value)
                                                  : fmt::format("{}", static_cast<float>(value));
    }
    const int64_t value = wholes_[row];
    if (column_.values.dtype() == DType::boolean) return value != 0 ? "true" : "false";
    if (column_.categories.empty()) return fmt::format("{}", value);
    return value < 0 || value >= std::ssize(column_.categories) ? std::string()
                                                                : column_.categories[static_cast<size_t>(value)];
  }

 private:
  const Column& column_;
  std::vector<int64_t> wholes_;
  std::vector<double> fractions_;
};

}  // namespace

Table parse_csv(std::string_view text, const CsvOptions& options, Location where) {
  return Reader(text, options, {{}, "parse_csv", where}).read();
}

Table read_csv(const io::Path& path, const CsvOptions& options, Location where) {
  const io::MappedFile file = io::MappedFile::open(path, "read_csv", where);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  return Reader(text, options, {path.string(), "read_csv", where}).read();
}

void write_csv(const Table& table, const io::Path& path, char delimiter, Location where) {
  const CallScope call("write_csv", where);
  std::vector<Printer> columns;
  std::string out;
  const bool alone = table.columns().size() == 1;
  for (const Column& column : table.columns()) {
    if (!column.is_text() && column.values.dim() != 1) {
      raise<ShapeError>(
          {.op = "write_csv",
           .problem = fmt::format("column {} has the shape {}", io::quoted(column.name), column.values.shape().text())},
          where);
    }
    if (!columns.empty()) out += delimiter;
    put_csv_field(out, column.name, delimiter, alone);
    columns.emplace_back(column);
  }
  out += '\n';
  for (size_t row = 0; row < static_cast<size_t>(table.rows()); ++row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) out += delimiter;
      put_csv_field(out, columns[i].field(row), delimiter, alone);
    }
    out += '\n';
  }
  io::write_file(path, out, "write_csv", where);
}

}  // namespace weft::data
