// Common split patterns have hand-written scanners over Unicode tables. Other expressions use Oniguruma, as the
// library `tokenizers` does, so they have the same meaning. It is opened at run time, because it exports `regexec`,
// which would replace the C library's function when linked. Unsupported features of a file raise an error that names
// them.
#include "words-inl.hpp"

#include "characters-inl.hpp"

namespace weft::data {

namespace {

using Kind = CharacterKind;

/// Hand-written scanners; the comments give the alternative of the regular expression that each step implements.
class Scanner {
 public:
  Scanner(const uint8_t* kinds, std::string_view text) : kinds_(kinds), text_(text) {}

  size_t gpt2(size_t begin) const {
    if (const size_t end = contraction(begin, false); end != 0) return end;  // 's|'t|'re|'ve|'m|'ll|'d
    const Character first = at(begin);
    const size_t start = first.point == ' ' ? begin + 1 : begin;
    const Character next = at(start);
    if (next.length != 0 && next.kind != Kind::space) return run(start, next.kind);  // ?\p{L}+| ?\p{N}+| ?[^\s…]+
    return space(begin);
  }

  size_t gpt4(size_t begin, int most_digits) const {
    if (const size_t end = contraction(begin, true); end != 0) return end;  // (?i:'s|'t|…)
    const Character first = at(begin);
    if (first.kind == Kind::letter) return run(begin, Kind::letter);  // [^\r\n\p{L}\p{N}]?\p{L}+
    if (first.kind != Kind::number && !is_end_of_line(first) && at(begin + first.length).kind == Kind::letter) {
      return run(begin + first.length, Kind::letter);
    }
    if (first.kind == Kind::number) return digits(begin, most_digits);  // \p{N}{1,3}
    const size_t start = first.point == ' ' ? begin + 1 : begin;
    if (const Character next = at(start); next.length != 0 && next.kind == Kind::other) {  //  ?[^\s\p{L}\p{N}]+[\r\n]*
      size_t end = run(start, Kind::other);
      while (is_end_of_line(at(end))) ++end;
      return end;
    }
    size_t behind_lines = 0;  // \s*[\r\n]+
    for (size_t i = begin; at(i).kind == Kind::space; i += at(i).length) {
      if (is_end_of_line(at(i))) behind_lines = i + 1;
    }
    return behind_lines != 0 ? behind_lines : space(begin);
  }

 private:
  Character at(size_t i) const { return character_at(kinds_, text_, i); }
  static bool is_end_of_line(Character c) { return c.length == 1 && (c.point == '\r' || c.point == '\n'); }

  size_t run(size_t i, Kind kind) const {
    for (Character c = at(i); c.length != 0 && c.kind == kind; c = at(i)) i += c.length;
    return i;
  }
  size_t digits(size_t i, int limit) const {
    for (Character c = at(i); c.kind == Kind::number && limit > 0; c = at(i), --limit) i += c.length;
    return i;
  }
  /// \s+(?!\S)|\s+: before a word, leaves the last white space to the word, unless it is the only one.
  size_t space(size_t begin) const {
    size_t last = begin, end = begin;
    for (Character c = at(end); c.kind == Kind::space; c = at(end)) {
      last = end;
      end += c.length;
    }
    return end == text_.size() || last == begin ? end : last;
  }
  /// Returns the end of an apostrophe with its letters, or 0. "ſ" is an s in either case.
  size_t contraction(size_t begin, bool any_case) const {
    if (text_[begin] != '\'') return 0;
    const auto letter = [&](size_t i) -> char {
      if (i >= text_.size()) return 0;
      return any_case && text_[i] >= 'A' && text_[i] <= 'Z' ? static_cast<char>(text_[i] + 32) : text_[i];
    };
    const char first = letter(begin + 1), second = letter(begin + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
    if (any_case && text_.substr(begin + 1, 2) == "ſ") return begin + 3;
    const bool two =
        (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
    return two ? begin + 3 : 0;
  }

  const uint8_t* kinds_;
  std::string_view text_;
};

constexpr std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view gpt4_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// cl100k as written by tiktoken; equivalent to the expression above.
constexpr std::string_view cl100k_expression =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";

}  // namespace

size_t word_end(WordPattern pattern, const uint8_t* kinds, std::string_view text, size_t begin) {
  const Scanner scanner(kinds, text);
  switch (pattern) {
    case WordPattern::gpt2:
      return scanner.gpt2(begin);
    case WordPattern::gpt4:
      return scanner.gpt4(begin, 3);
    case WordPattern::qwen2:
      return scanner.gpt4(begin, 1);
    default:
      return text.size();
  }
}

std::optional<WordPattern> pattern_of(std::string_view expression) {
  if (expression == gpt2_expression) return WordPattern::gpt2;
  if (expression == gpt4_expression || expression == cl100k_expression) return WordPattern::gpt4;
  if (expression == qwen2_expression) return WordPattern::qwen2;
  return {};
}

std::string_view expression_of(WordPattern pattern) {
  return pattern == WordPattern::gpt4    ? gpt4_expression
         : pattern == WordPattern::qwen2 ? qwen2_expression
                                         : gpt2_expression;
}

}  // namespace weft::data
