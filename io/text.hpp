// Text for character-level language models. Training windows: <weft/data/token_windows.hpp>.
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

/// Returns the text of a file, or of all files below a folder with one of the extensions (all files if the list is
/// empty), in order of their paths. Raises IoError if something cannot be read, and ValueError if a folder has no such
/// file.
WEFT_API std::string read_text(const Path& path, const std::vector<std::string>& extensions = {}, Location where = {});

/// The characters of a text, numbered in order of their code points. Bytes that are not UTF-8 are separate characters,
/// so `decode(encode(text))` returns any text unchanged.
class WEFT_API Vocabulary {
 public:
  /// The distinct characters of `text`.
  explicit Vocabulary(std::string_view text);

  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  /// Returns all characters in order. A vocabulary constructed from this text is equal to this one.
  std::string text() const;
  /// Returns text() as hexadecimal digits, since metadata must be UTF-8.
  std::string hex() const;
  static Vocabulary from_hex(std::string_view digits, Location where = {});
  /// Returns i64 [characters]. Raises ValueError for a character that is not in the vocabulary.
  Tensor encode(std::string_view text, Location where = {}) const;
  /// Inverse of `encode`, for integers of any shape on any device. Raises IndexError for a token outside the
  /// vocabulary.
  std::string decode(const Tensor& tokens, Location where = {}) const;

 private:
  std::vector<std::string> characters_;
  std::map<std::string, int64_t, std::less<>> numbers_;
};

/// Splits a sequence [n, …] into two views: the first n · (1 - fraction) elements and the rest. Raises ValueError
/// unless 0 < fraction < 1.
WEFT_API std::pair<Tensor, Tensor> split_tail(const Tensor& tokens, double fraction, Location where = {});

}  // namespace weft::io
