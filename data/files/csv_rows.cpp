#include <optional>

#include "csv_rows-inl.hpp"

#include <fmt/format.h>

namespace weft::data {

void CsvPlace::fail(int64_t line, size_t column, const std::string& problem) const {
  const std::string in = file.empty() ? "" : file + ": ";
  const std::string at = column == 0 ? "" : fmt::format(", column {}", column);
  raise<FormatError>({.op = op, .problem = fmt::format("{}line {}{}: {}", in, line, at, problem)}, where);
}

bool CsvRows::skip_empty() {
  while (at_ < text_.size()) {
    if (comment_ && text_[at_] == *comment_) {
      skip_line();
    } else if (ends_line(at_)) {
      at_ += text_[at_] == '\r' ? 2 : 1;
      ++line_;
    } else {
      return true;
    }
  }
  return false;
}

bool CsvRows::next(std::vector<CsvField>& fields) {
  fields.clear();
  unescaped_.clear();
  if (!skip_empty()) return false;
  row_line_ = line_;
  for (;;) {
    const bool in_quotes = at_ < text_.size() && text_[at_] == '"';
    fields.push_back(in_quotes ? quoted(fields.size() + 1) : plain());
    if (ends_line(at_)) break;
    ++at_;  // the delimiter
  }
  if (at_ < text_.size() && text_[at_] == '\r') ++at_;
  ++at_;
  ++line_;
  return true;
}

CsvField CsvRows::plain() {
  const size_t begin = at_;
  const char *data = text_.data(), delimiter = delimiter_;
  size_t i = at_;
  for (const size_t size = text_.size(); i < size && data[i] != delimiter && data[i] != '\n'; ++i) {
    if (data[i] == '\r' && ends_line(i)) break;
  }
  at_ = i;
  return {text_.substr(begin, i - begin), false, line_};
}

CsvField CsvRows::quoted(size_t column) {
  const int64_t line = line_;
  const size_t begin = ++at_;
  std::string* whole = nullptr;
  for (size_t from = begin;;) {
    const size_t end = text_.find('"', from);
    if (end == text_.npos) place_.fail(line, column, "a quote is not closed");
    for (size_t i = text_.find('\n', from); i < end; i = text_.find('\n', i + 1)) ++line_;
    const bool doubled = end + 1 < text_.size() && text_[end + 1] == '"';
    if (whole == nullptr && doubled) whole = &unescaped_.emplace_back();
    if (whole != nullptr) *whole += text_.substr(from, end - from + (doubled ? 1 : 0));
    from = end + 2;
    if (doubled) continue;
    at_ = end + 1;
    if (!ends_line(at_) && text_[at_] != delimiter_) place_.fail(line_, column, "something follows a closing quote");
    return {whole != nullptr ? std::string_view(*whole) : text_.substr(begin, end - begin), true, line};
  }
}

void put_csv_field(std::string& out, std::string_view text, char delimiter, bool alone) {
  const char special[] = {delimiter, '"', '\n', '\r'};
  // Quote a row of one empty field, which would be an empty line, and a byte-order mark at the start, which would be
  // skipped.
  const bool quotes = text.find_first_of({special, 4}) != text.npos || (alone && text.empty()) ||
                      (out.empty() && text.starts_with("\xEF\xBB\xBF"));
  if (!quotes) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  out += '"';
}

}  // namespace weft::data
