#include "pieces-inl.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../../io/json/utf8-inl.hpp"
#include "unicode-inl.hpp"
#include "words-inl.hpp"

namespace weft::data {

void refuse_part(const std::string& what, const char* op, Location where) {
  raise<NotImplementedError>({.op = op, .problem = what + " is not supported"}, where);
}

void refuse_without(const std::string& what, const char* library, const char* op, Location where) {
  raise<NotImplementedError>(
      {.op = op,
       .problem = fmt::format("{} takes lib{}, which was not found", what, library),
       .remedy = fmt::format("install it (Debian: lib{}-dev); a build without it is to be built anew", library)},
      where);
}

bool read_flag(const io::JsonNode& place, const std::string& name, bool otherwise) {
  return place.has(name) ? place.at(name).boolean() : otherwise;
}

// ---- patterns -------------------------------------------------------------------------------------------------------

namespace {

/// Collects matches and the pieces between them.
class Parts {
 public:
  explicit Parts(size_t size) : size_(size) {}
  void match(size_t begin, size_t end) {
    if (begin > done_) parts_.push_back({done_, begin, false});
    parts_.push_back({begin, end, true});
    done_ = end;
  }
  std::vector<Part> all() {
    if (done_ < size_) parts_.push_back({done_, size_, false});
    return std::move(parts_);
  }

 private:
  size_t size_, done_ = 0;
  std::vector<Part> parts_;
};

/// Length of the character at `at`; 0 at the end and for bytes that are not UTF-8.
size_t length_at(std::string_view text, size_t at) {
  size_t good;
  return at < text.size() ? utf8_length(text.substr(at, 4), good) : 0;
}

/// Expressions are applied to the well-formed UTF-8 stretches of a text; other bytes never match.
void find_all(const Regex& regex, std::string_view text, Parts& out, Location where) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (const size_t length = length_at(text, end)) end += length;
    const std::string_view stretch = text.substr(begin, end - begin);
    size_t last = std::string_view::npos;
    for (size_t from = 0, first = 0, behind = 0;
         from <= stretch.size() && regex.find(stretch, from, first, behind, where);) {
      if (first == behind && behind == last) {  // skip an empty match directly after another match
        from += std::max<size_t>(length_at(stretch, from), 1);
        continue;
      }
      out.match(begin + first, begin + behind);
      from = last = behind;
    }
    begin = end + 1;
  }
}

void find_all(const std::string& wanted, std::string_view text, Parts& out, Location) {
  if (wanted.empty()) return;
  for (size_t at = 0; (at = text.find(wanted, at)) != text.npos; at += wanted.size()) out.match(at, at + wanted.size());
}

void find_all(WordPattern words, std::string_view text, Parts& out, Location) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = word_end(words, character_kinds(), text, begin);
    out.match(begin, end);
    begin = end;
  }
}

void find_all(Pattern::Characters is_one, std::string_view text, Parts& out, Location) {
  const uint8_t* kinds = character_kinds();
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(kinds, text, at);
    if (is_one(c)) out.match(at, at + c.length);
    at += c.length;
  }
}

}  // namespace

std::vector<Part> Pattern::parts(std::string_view text, Location where) const {
  Parts out(text.size());
  std::visit([&](const auto& wanted) { find_all(wanted, text, out, where); }, what);
  return out.all();
}

Pattern read_pattern(const io::JsonNode& place, const char* op, Location where) {
  if (place.object().has("String")) return {place.at("String").text()};
  const std::string expression = place.at("Regex").text();
  if (const auto known = pattern_of(expression)) return {*known};
  if (!Regex::is_there()) refuse_without("the expression " + io::quoted(expression), "onig", op, where);
  return {Regex(expression, op, where)};
}

// ---- cuts -----------------------------------------------------------------------------------------------------------

void Cut::pieces(std::string_view text, Part of, std::vector<Part>& out, Location where) const {
  const size_t first = out.size();
  bool before = false;
  for (Part part : pattern.parts(text.substr(of.begin, of.end - of.begin), where)) {
    part = {part.begin + of.begin, part.end + of.begin, part.matched != invert};
    const bool joins = out.size() > first && ((behavior == Behavior::contiguous && part.matched == before) ||
                                              (behavior == Behavior::with_previous && part.matched && !before));
    before = part.matched;
    if (joins) out.back().end = part.end;
    else out.push_back(part);
  }
  if (behavior == Behavior::with_next) {
    // In a run of matches, only the last is joined with the following piece.
    for (size_t i = first; i + 1 < out.size(); ++i) {
      if (!out[i].matched || out[i + 1].matched) continue;
      out[i + 1].begin = out[i].begin;
      out[i].end = out[i].begin;
    }
  }
  const auto gone = [&](const Part& part) {
    return part.begin == part.end || (behavior == Behavior::removed && part.matched);
  };
  out.erase(std::remove_if(out.begin() + static_cast<ptrdiff_t>(first), out.end(), gone), out.end());
}

std::vector<Part> PreTokenizer::cut(const std::vector<Cut>& cuts, std::string_view text, Location where) {
  std::vector<Part> pieces = {{0, text.size(), false}};
  for (const Cut& each : cuts) {
    std::vector<Part> next;
    for (const Part& piece : pieces) each.pieces(text, piece, next, where);
    pieces = std::move(next);
  }
  return pieces;
}

// ---- reading --------------------------------------------------------------------------------------------------------

namespace {

using io::JsonNode;
using Behavior = Cut::Behavior;

class StepReader {
 public:
  StepReader(const char* op, Location where) : op_(op), where_(where) {}
  PreTokenizer out;

  void read(const JsonNode& place) {
    const std::string type = place.at("type").text();
    if (type == "Sequence") return place.at("pretokenizers").each([&](const JsonNode& step) { read(step); });
    if (type == "ByteLevel") return read_byte_level(place);
    if (type == "Split")
      return add({read_pattern(place.at("pattern"), op_, where_), behavior_of(place, "Isolated"),
                  read_flag(place, "invert", false)});
    if (type == "Digits")
      return add({characters([](Character c) { return c.kind == CharacterKind::number; }),
                  read_flag(place, "individual_digits", false) ? Behavior::isolated : Behavior::contiguous});
    if (type == "WhitespaceSplit") return add({characters(is_space), Behavior::removed});
    if (type == "CharDelimiterSplit") return add({{place.at("delimiter").text()}, Behavior::removed});
    if (type != "Punctuation" && type != "Whitespace") refuse_part("the pre_tokenizer " + type, op_, where_);
    if (!unicode::is_there()) refuse_without("the pre_tokenizer " + type, "utf8proc", op_, where_);
    if (type == "Punctuation") {
      return add(
          {characters([](Character c) { return unicode::is_punctuation(c.point); }), behavior_of(place, "Isolated")});
    }
    // \w+|[^\w\s]+
    add({characters(is_space), Behavior::removed});
    add({characters([](Character c) { return unicode::is_word(c.point); }), Behavior::contiguous});
  }

  PreTokenizer result() {
    if (!has_bytes_) refuse_part("a pre_tokenizer without ByteLevel", op_, where_);
    // A single split by a built-in word pattern, as in most files, is done by `words` without cuts.
    if (out.before.size() == 1 && out.words == WordPattern::none && !out.add_prefix_space && !out.before[0].invert &&
        out.before[0].behavior == Behavior::isolated) {
      if (const auto* words = std::get_if<WordPattern>(&out.before[0].pattern.what)) {
        out.words = *words;
        out.before.clear();
      }
    }
    return std::move(out);
  }

 private:
  static bool is_space(Character c) { return c.kind == CharacterKind::space; }
  static Pattern characters(Pattern::Characters is_one) { return {is_one}; }
  Behavior behavior_of(const JsonNode& place, const char* otherwise) const {
    static constexpr const char* names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                            "MergedWithNext"};
    const std::string name = place.has("behavior") ? place.at("behavior").text() : otherwise;
    const auto found = std::ranges::find(names, name);
    if (found == std::end(names)) refuse_part("the behavior " + io::quoted(name), op_, where_);
    return static_cast<Behavior>(found - names);
  }
  void add(Cut cut) { (has_bytes_ ? out.behind : out.before).push_back(std::move(cut)); }
  void read_byte_level(const JsonNode& place) {
    if (has_bytes_) refuse_part("a second ByteLevel in the pre_tokenizer", op_, where_);
    has_bytes_ = true;
    out.add_prefix_space = read_flag(place, "add_prefix_space", true);
    out.words = read_flag(place, "use_regex", true) ? WordPattern::gpt2 : WordPattern::none;
  }

  const char* op_;
  Location where_;
  bool has_bytes_ = false;
};

}  // namespace

PreTokenizer read_pre_tokenizer(const JsonNode& place, const char* op, Location where) {
  if (place.json().is(io::JsonTree::Kind::null)) refuse_part("a tokenizer without a pre_tokenizer", op, where);
  StepReader reader(op, where);
  reader.read(place);
  return reader.result();
}

}  // namespace weft::data
