// Where a text is cut before words are looked for. Internal to data/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "../tokenizer.hpp"
#include "../../io/json/json_tree-inl.hpp"
#include "characters-inl.hpp"
#include "regex-inl.hpp"

namespace weft::data {

/// A part of a text, and whether it is what a pattern looks for.
struct Part {
  size_t begin, end;
  bool matched;
};

/// What is looked for in a text: a text, an expression, words, or each character of a kind.
struct Pattern {
  using Characters = bool (*)(Character);
  std::variant<std::string, Regex, WordPattern, Characters> what;

  /// The text in parts, in order and without gaps; parts that are matched may be empty.
  std::vector<Part> parts(std::string_view text, Location where) const;
};

/// A pattern as a file writes it, {"String": …} or {"Regex": …}.
Pattern read_pattern(const io::JsonPlace& place, const char* op, Location where);

/// Cuts texts at a pattern.
struct Cut {
  /// What becomes of a part that is matched.
  enum class Behavior : uint8_t { isolated, removed, contiguous, with_previous, with_next };
  Pattern pattern;
  Behavior behavior = Behavior::isolated;
  bool invert = false;

  /// Puts the pieces of text[begin, end) into `out`; none is empty.
  void pieces(std::string_view text, Part of, std::vector<Part>& out, Location where) const;
};

/// A file's pre-tokenizer: cuts, the words of bytes, cuts of their names.
struct PreTokenizer {
  std::vector<Cut> before, behind;
  WordPattern words = WordPattern::gpt2;
  /// Puts a space before each piece that begins with none.
  bool add_prefix_space = false;

  /// Runs `cuts` one after the other.
  static std::vector<Part> cut(const std::vector<Cut>& cuts, std::string_view text, Location where);
};

/// NotImplementedError, with its name, for a step that there is not.
PreTokenizer read_pre_tokenizer(const io::JsonPlace& place, const char* op, Location where);

/// A field that may be left out.
bool read_flag(const io::JsonPlace& place, const std::string& name, bool otherwise);
/// A part of a file that is understood, but changes ids in a way that this room cannot.
[[noreturn]] void refuse_part(const std::string& what, const char* op, Location where);
/// For what takes a library that this build lacks.
[[noreturn]] void refuse_without(const std::string& what, const char* library, const char* op, Location where);

}  // namespace weft::data
