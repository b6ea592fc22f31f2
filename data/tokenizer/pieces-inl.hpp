// Splitting a text before it is split into words. Internal to data/.
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

/// A piece of a text, and whether it matches the pattern.
struct Part {
  size_t begin, end;
  bool matched;
};

/// A pattern: a literal text, an expression, words, or each character of a kind.
struct Pattern {
  using Characters = bool (*)(Character);
  std::variant<std::string, Regex, WordPattern, Characters> what;

  /// Splits the text into pieces, in order and without gaps; matches may be empty.
  std::vector<Part> parts(std::string_view text, Location where) const;
};

/// Reads a pattern of a file, {"String": …} or {"Regex": …}.
Pattern read_pattern(const io::JsonNode& place, const char* op, Location where);

/// Splits texts at a pattern.
struct Cut {
  /// Treatment of a match.
  enum class Behavior : uint8_t { isolated, removed, contiguous, with_previous, with_next };
  Pattern pattern;
  Behavior behavior = Behavior::isolated;
  bool invert = false;

  /// Appends the pieces of text[begin, end) to `out`; none is empty.
  void pieces(std::string_view text, Part of, std::vector<Part>& out, Location where) const;
};

/// The pre-tokenizer of a file: splits before ByteLevel, words, and splits of the byte characters after it.
struct PreTokenizer {
  std::vector<Cut> before, behind;
  WordPattern words = WordPattern::gpt2;
  /// Adds a space before each piece that does not begin with one.
  bool add_prefix_space = false;

  /// Applies `cuts` in order.
  static std::vector<Part> cut(const std::vector<Cut>& cuts, std::string_view text, Location where);
};

/// Raises NotImplementedError, with its name, for an unsupported step.
PreTokenizer read_pre_tokenizer(const io::JsonNode& place, const char* op, Location where);

/// Reads an optional bool.
bool read_flag(const io::JsonNode& place, const std::string& name, bool otherwise);
/// Raises NotImplementedError for an unsupported feature that would change ids.
[[noreturn]] void refuse_part(const std::string& what, const char* op, Location where);
/// Raises NotImplementedError for a feature that needs an unavailable library.
[[noreturn]] void refuse_without(const std::string& what, const char* library, const char* op, Location where);

}  // namespace weft::data
