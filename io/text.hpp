// Text for language models: characters as numbers. Windows to train on are in <weft/data/token_windows.hpp>.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "path.hpp"
#include "../tensor/index.hpp"

namespace weft::io {

/// The text of a file, or of every file below a folder whose extension is listed (all where none is), in order of their
/// paths. IoError where something cannot be read; ValueError where a folder has no such file.
WEFT_API std::string read_text(const Path& path, const std::vector<std::string>& extensions = {}, Location where = {});

/// The characters of a text, numbered in order of their code points. Bytes that are not UTF-8 are characters of their
/// own, so that `decode(encode(text))` is the text for any bytes.
class WEFT_API Vocabulary {
 public:
  /// The distinct characters of `text`.
  explicit Vocabulary(std::string_view text);

  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  /// All characters in order; a vocabulary made from this text is equal to this one.
  std::string text() const;
  /// text() as hexadecimal digits, for metadata, which must be UTF-8, and back. FormatError for other characters.
  std::string hex() const;
  static Vocabulary from_hex(std::string_view digits, Location where = {});
  /// i64 [characters]. ValueError for a character that is not in the vocabulary.
  Tensor encode(std::string_view text, Location where = {}) const;
  /// The inverse, from integers of any shape on any device. IndexError for a number outside the vocabulary.
  std::string decode(const Tensor& tokens, Location where = {}) const;

 private:
  std::vector<std::string> characters_;
  std::map<std::string, int64_t, std::less<>> numbers_;
};

/// Splits a sequence [n, …] into its first part and the rest, which is `fraction` of it: views. ValueError unless
/// 0 < fraction < 1.
WEFT_API std::pair<Tensor, Tensor> split_tail(const Tensor& tokens, double fraction, Location where = {});

}  // namespace weft::io
