#include "csv_columns-inl.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

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
    // Out of range: infinite or 0, as in strtod.
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

template <class T, class Values>
Tensor tensor_of(const Values& values, DType dtype) {
  const Tensor out = empty({std::ssize(values)}, {.dtype = dtype});
  std::ranges::transform(values, static_cast<T*>(out.data_ptr()), [](auto v) { return static_cast<T>(v); });
  return out;
}

const char* kind_of(ColumnType type) {
  return type == ColumnType::i64 ? "of 64-bit integers" : type == ColumnType::boolean ? "of bools" : "of numbers";
}

}  // namespace

// ---- columns --------------------------------------------------------------------------------------------------------

CsvColumn::CsvColumn(std::string name, ColumnType type, const CsvOptions& options)
    : name_(std::move(name)), infer_(type == ColumnType::infer), options_(options) {
  type_ = infer_ ? ColumnType::boolean : type;
  single_ = type == ColumnType::f32 || (infer_ && options.floating == DType::f32);
}

bool CsvColumn::add(std::string_view raw, int64_t row) {
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

Column CsvColumn::take() {
  Column out{.name = name_};
  if (infer_ && type_ == ColumnType::boolean && only_missing_) become_floating();
  switch (type_) {
    case ColumnType::text:
      earlier_.insert(earlier_.end(), std::make_move_iterator(texts_.begin()), std::make_move_iterator(texts_.end()));
      out.texts = std::move(earlier_);
      break;
    case ColumnType::category:
      out.categories = categories_;
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
  drop_fields();
  return out;
}

void CsvColumn::drop_fields() {
  texts_.clear();
  earlier_.clear();
  wholes_.clear();
  fractions_.clear();
}

ColumnType CsvColumn::forget() {
  drop_fields();
  const bool fractions = type_ == ColumnType::f64 || (type_ == ColumnType::boolean && only_missing_);
  return !fractions ? type_ : single_ ? ColumnType::f32 : ColumnType::f64;
}

void CsvColumn::set_categories(std::vector<std::string> categories) {
  codes_.clear();
  for (size_t i = 0; i < categories.size(); ++i) codes_.emplace(categories[i], static_cast<int64_t>(i));
  categories_ = std::move(categories);
}

bool CsvColumn::is_missing(std::string_view text) const {
  return std::ranges::find(options_.missing, text) != options_.missing.end();
}
void CsvColumn::add_category(std::string_view text) {
  if (is_missing(text)) return wholes_.push_back(-1);
  const auto [at, added] = codes_.emplace(text, std::ssize(categories_));
  if (added) categories_.emplace_back(text);
  wholes_.push_back(at->second);
}

bool CsvColumn::add_number(std::string_view text) {
  if (type_ == ColumnType::boolean || type_ == ColumnType::i64) {
    bool truth = false;
    int64_t whole = 0;
    const bool good = type_ == ColumnType::boolean ? parse_bool(text, truth) : parse(text, whole);
    if (good && missing_before_ == 0) {
      wholes_.push_back(type_ == ColumnType::boolean ? truth : whole);
      only_missing_ = false;
      return true;
    }
    // An inferred column with only missing values so far has no type yet.
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

void CsvColumn::become_floating() {
  fractions_.assign(wholes_.begin(), wholes_.end());
  if (single_) {
    for (double& value : fractions_) value = static_cast<float>(value);
  }
  std::fill_n(fractions_.begin(), std::min<int64_t>(missing_before_, std::ssize(fractions_)),
              std::numeric_limits<double>::quiet_NaN());
  wholes_.clear();
  type_ = ColumnType::f64;
}
/// Widens to the next type; returns false if that is text.
bool CsvColumn::widen(int64_t row) {
  const bool any_truth = type_ == ColumnType::boolean && !only_missing_;
  if (type_ == ColumnType::boolean && !any_truth && missing_before_ == 0) return type_ = ColumnType::i64, true;
  if (type_ != ColumnType::f64 && !any_truth) return become_floating(), true;
  type_ = ColumnType::text;
  texts_from_ = row;
  wholes_.clear();
  fractions_.clear();
  return false;
}

// ---- rows into columns ----------------------------------------------------------------------------------------------

CsvReader::CsvReader(std::string_view text, const CsvOptions& options, CsvPlace place)
    : options_(options), place_(std::move(place)), text_rows_(text, options.delimiter, options.comment, place_) {
  const auto refuse = [&](const char* problem) {
    raise<ValueError>({.op = place_.op, .problem = problem}, place_.where);
  };
  if (options.delimiter == '"' || options.delimiter == '\n' || options.delimiter == '\r') {
    refuse("a quote or the end of a line cannot be the delimiter");
  }
  if (options.comment && (*options.comment == options.delimiter || *options.comment == '"')) {
    refuse("a comment begins as a field does");
  }
  if (options.floating != DType::f32 && options.floating != DType::f64) refuse("fractions become f32 or f64");
  for (int64_t i = 0; i < options.skip_lines; ++i) text_rows_.skip_line();
}

void CsvReader::start() {
  if (options_.header && text_rows_.next(fields_)) {
    for (const CsvField& field : fields_) names_.emplace_back(field.text);
    header_line_ = text_rows_.line();
  }
  first_row_ = text_rows_.position();
  make_columns(text_rows_.next(fields_) ? fields_.size() : names_.size());
  text_rows_.go_to(first_row_);
}

void CsvReader::go_to(CsvRows::Position position, int64_t row) {
  text_rows_.go_to(position);
  rows_ = row;
}

bool CsvReader::read(int64_t row_limit) {
  const int64_t last = row_limit > options_.max_rows - rows_ ? options_.max_rows : rows_ + row_limit;
  const int64_t before = rows_;
  while (rows_ < last && text_rows_.next(fields_)) add_row();
  return rows_ > before;
}

void CsvReader::add_row() {
  if (fields_.size() != columns_.size()) {
    place_.fail(text_rows_.line(), 0, fmt::format("{} fields, and {} columns", fields_.size(), columns_.size()));
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (columns_[i].add(fields_[i].text, rows_)) continue;
    place_.fail(fields_[i].line, i + 1,
                fmt::format("{} in the column {}, which is {}", io::quoted(fields_[i].text),
                            io::quoted(columns_[i].name()), kind_of(columns_[i].type())));
  }
  ++rows_;
}

void CsvReader::read_texts_again() {
  int64_t last = 0;
  for (const CsvColumn& column : columns_) {
    if (column.infers() && column.type() == ColumnType::text) last = std::max(last, column.texts_from());
  }
  CsvRows rows = text_rows_;
  rows.go_to(first_row_);
  for (int64_t row = 0; row < last && rows.next(fields_); ++row) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      CsvColumn& column = columns_[i];
      if (column.infers() && column.type() == ColumnType::text && row < column.texts_from()) {
        column.put_text_before(fields_[i].text);
      }
    }
  }
}

Table CsvReader::take() {
  Table table;
  for (CsvColumn& column : columns_) {
    if (column.type() != ColumnType::skip) table.add(column.take(), place_.where);
  }
  return table;
}

void CsvReader::make_columns(size_t count) {
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
    raise<KeyError>({.op = place_.op, .problem = fmt::format("there is no column {}", io::quoted(name))}, place_.where);
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

}  // namespace weft::data
