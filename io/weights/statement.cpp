#include "statement-inl.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "../json/utf8-inl.hpp"
#include "../../tensor/shortened.hpp"

namespace weft::io {

namespace {

constexpr size_t size_limit = 16'000'000, shown = 120;
constexpr std::string_view blanks = " \t\r";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }

class LineReader {
 public:
  LineReader(std::string_view line, int number, const std::string& path, Location where)
      : line_(line), number_(number), path_(path), where_(where) {}

  bool at_end() {
    skip_blanks();
    return at_ == line_.size() || line_[at_] == '#';
  }

  Statement statement() {
    Statement out;
    out.line = number_;
    out.text = shortened(std::string(line_.substr(at_)), shown);
    do out.sources.push_back(name());
    while (accept(","));
    if (!accept("->")) fail("-> is missing");
    out.destinations.push_back(name());
    while (accept(",")) {
      if (begins_attribute()) out.attributes.push_back(attribute());
      else if (out.attributes.empty()) out.destinations.push_back(name());
      else fail("an attribute is missing, such as axis=0");
    }
    if (!at_end()) fail("a comma or the end of the line is missing");
    check(out);
    return out;
  }

  [[noreturn]] void fail_at(int column, const std::string& problem) const {
    raise_at<FormatError>({path_, number_, column, shortened(std::string(line_), shown)}, problem, where_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) {
    skip_blanks();
    fail_at(column(), problem);
  }
  // In characters, from 1.
  int column() {
    for (; counted_ < at_; ++counted_) column_ += (line_[counted_] & 0xC0) != 0x80;
    return column_;
  }
  void skip_blanks() { at_ = std::min(line_.find_first_not_of(blanks, at_), line_.size()); }
  bool starts(std::string_view word) const { return line_.substr(at_).starts_with(word); }
  bool accept(std::string_view word) {
    skip_blanks();
    if (!starts(word)) return false;
    at_ += word.size();
    return true;
  }
  std::string_view word() {
    const size_t begin = at_;
    while (at_ < line_.size() && is_word(line_[at_])) ++at_;
    return line_.substr(begin, at_ - begin);
  }

  // ---- names --------------------------------------------------------------------------------------------------------

  NamePattern name() {
    skip_blanks();
    NamePattern out{.parts = {}, .column = column()};
    if (starts("\"")) {
      out.parts.push_back({quoted()});
      return out;
    }
    while (!ends_name()) {
      if (starts("$")) out.parts.push_back({variable(), true});
      else out.parts.push_back({literal(), false});
    }
    if (out.parts.empty()) fail("a name is missing");
    check_variables(out);
    const bool nothing = out.parts.size() == 1 && !out.parts[0].variable && out.parts[0].text == "_";
    if (nothing) out.parts.clear();
    return out;
  }
  bool ends_name() const {
    return at_ == line_.size() || starts("->") || (blanks.find(line_[at_]) != blanks.npos) || line_[at_] == ',' ||
           line_[at_] == '#' || line_[at_] == '=' || line_[at_] == '"';
  }
  std::string literal() {
    const size_t begin = at_;
    while (!ends_name() && line_[at_] != '$') ++at_;
    return std::string(line_.substr(begin, at_ - begin));
  }
  std::string variable() {
    ++at_;
    const bool braces = starts("{");
    if (braces) ++at_;
    const std::string out(word());
    if (out.empty() || is_digit(out.front())) fail("a variable's name is missing");
    if (braces && !starts("}")) fail("} is missing");
    if (braces) ++at_;
    return out;
  }
  // Rejects ambiguous names: digits next to a variable could belong to either.
  void check_variables(const NamePattern& name) const {
    for (size_t i = 1; i < name.parts.size(); ++i) {
      if (!name.parts[i - 1].variable || (!name.parts[i].variable && !is_digit(name.parts[i].text.front()))) continue;
      fail_at(name.column, fmt::format("digits follow ${}, which matches digits", name.parts[i - 1].text));
    }
  }
  std::string quoted() {
    std::string out;
    for (++at_; at_ < line_.size() && line_[at_] != '"'; ++at_) {
      if (line_[at_] == '\\') {
        ++at_;
        if (!starts("\"") && !starts("\\")) fail("\\ may precede \" or \\ alone");
      }
      out += line_[at_];
    }
    if (at_ == line_.size()) fail("the name has no end: \" is missing");
    ++at_;
    return out;
  }

  // ---- attributes ---------------------------------------------------------------------------------------------------

  bool begins_attribute() {
    skip_blanks();
    const size_t begin = at_;
    const bool found = !word().empty() && accept("=");
    at_ = begin;
    return found;
  }
  Attribute attribute() {
    skip_blanks();
    Attribute out{.kind = Attribute::Kind::axis, .column = column()};
    const std::string_view key = word();
    accept("=");
    if (key == "axis") {
      out.axis = static_cast<int>(number(-max_rank, max_rank - 1));
    } else if (key == "permute") {
      out.kind = Attribute::Kind::permute;
      out.permutation = permutation(out.column);
    } else if (key == "dtype") {
      out.kind = Attribute::Kind::dtype;
      out.dtype = dtype();
    } else {
      fail_at(out.column, fmt::format("no attribute is named {}; there are axis, permute and dtype",
                                      shortened(std::string(key), shown)));
    }
    return out;
  }
  int64_t number(int64_t least, int64_t highest) {
    skip_blanks();
    int64_t value = 0;
    const char* const begin = line_.data() + at_;
    const auto [end, error] = std::from_chars(begin, line_.data() + line_.size(), value);
    if (end == begin) fail("a number is missing");
    if (error != std::errc() || value < least || value > highest) {
      fail(fmt::format("a number from {} to {} is missing", least, highest));
    }
    at_ += static_cast<size_t>(end - begin);
    return value;
  }
  Dims permutation(int column) {
    Dims out;
    if (!accept("[")) fail("[ is missing");
    if (accept("]")) return out;
    do {
      if (out.size() == max_rank) fail(fmt::format("a permutation has at most {} numbers", max_rank));
      out.push_back(number(0, max_rank - 1));
    } while (accept(","));
    if (!accept("]")) fail("] is missing");
    for (int d = 0; d < out.size(); ++d) {
      if (std::ranges::find(out, d) == out.end()) {
        fail_at(column, fmt::format("{} is no permutation, {} is missing", out.text(), d));
      }
    }
    return out;
  }
  DType dtype() {
    skip_blanks();
    const int begin = column();
    if (!starts("\"")) fail("a dtype is missing, such as \"float32\"");
    const std::string wanted = quoted();
    if (const auto found = find_dtype(wanted)) return *found;
    fail_at(begin, fmt::format("no dtype is named {}", io::quoted(wanted)));
  }

  // ---- statements ---------------------------------------------------------------------------------------------------

  void check(const Statement& s) const {
    const auto nothing = [](const NamePattern& n) { return n.is_nothing(); };
    if (const auto none = std::ranges::find_if(s.sources, nothing); none != s.sources.end()) {
      if (s.sources.size() > 1) fail_at(none->column, "_ is used beside other sources");
      const auto neither = std::ranges::find_if(s.destinations, nothing);
      if (neither != s.destinations.end()) fail_at(neither->column, "_ is used on both sides");
      if (!s.attributes.empty()) fail_at(s.attributes[0].column, "nothing is read that an attribute could change");
      return;
    }
    if (!s.drops()) check_count(s);
    else if (!s.attributes.empty()) fail_at(s.attributes[0].column, "nothing is made that an attribute could change");
    const std::vector<std::string> variables = s.sources[0].variables();
    for (const auto* side : {&s.sources, &s.destinations}) {
      for (const NamePattern& n : *side) {
        if (!n.is_nothing() && n.variables() != variables) {
          fail_at(n.column, "every name of a statement has the same variables");
        }
      }
    }
  }
  void check_count(const Statement& s) const {
    const size_t wanted = s.destinations.size();
    size_t count = s.sources.size();
    bool joins = count == 1;
    for (const Attribute& a : s.attributes) {
      if (a.kind != Attribute::Kind::axis) continue;
      if (count == 1 && wanted == 1) fail_at(a.column, "there is nothing to join or to split");
      joins = true;
      count = count > 1 ? 1 : wanted;
    }
    if (count == wanted && joins) return;
    fail_at(s.destinations[0].column,
            fmt::format("{} tensors are made of {} for {} destinations: `axis` joins several, or splits one", count,
                        s.sources.size(), wanted));
  }

  std::string_view line_;
  size_t at_ = 0, counted_ = 0;
  int column_ = 1;
  int number_;
  const std::string& path_;
  Location where_;
};

void check_text(std::string_view text, const std::string& path, Location where) {
  if (text.size() > size_limit) {
    raise<FormatError>({.op = "Mapping", .problem = fmt::format("a text of {} bytes", text.size()), .details = path},
                       where);
  }
  if (is_utf8(text)) return;
  raise<FormatError>({.op = "Mapping", .problem = "the text is not UTF-8", .details = path}, where);
}

}  // namespace

std::vector<std::string> NamePattern::variables() const {
  std::vector<std::string> out;
  for (const Part& part : parts) {
    if (part.variable) out.push_back(part.text);
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

std::string words_of(const MappingPlace& place) {
  const std::string file = place.path.empty() ? "" : shortened(place.path, 200) + ", ";
  std::string line;
  for_each_character(place.text, [&](std::string_view c) { line += c.size() == 1 && c[0] < 0x20 ? " " : c; });
  return fmt::format("{}line {}, column {}: {}", file, place.line, place.column, line);
}

std::vector<Statement> parse_statements(std::string_view text, const std::string& path, Location where) {
  check_text(text, path, where);
  std::vector<Statement> out;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    LineReader reader(line, ++number, path, where);
    const auto control = std::ranges::find_if(
        line, [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r') || c == 0x7F; });
    if (control != line.end()) reader.fail_at(static_cast<int>(control - line.begin()) + 1, "a control character");
    if (!reader.at_end()) out.push_back(reader.statement());
    begin = end + 1;
  }
  return out;
}

}  // namespace weft::io
