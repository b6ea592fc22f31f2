// Byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019): converts text to token ids and back.
//
// A text is split at added tokens, the pieces are split into words, and the bytes of a word are merged, lowest rank
// first. Any bytes can be encoded, also those that are not UTF-8. Ids equal those of the library `tokenizers` for the
// supported files. Unsupported features of a file raise an error with their name; they are never ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../io/path.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"
#include "../tensor/shared.hpp"

namespace weft::data {

/// The rule that splits a text into words; merges never cross words. Either no split, or as in GPT-2, as in GPT-4
/// (cl100k) and Llama 3, or as in Qwen2. Letters, numbers and white space are those of Unicode 16. Files may have other
/// expressions.
enum class WordPattern : uint8_t { none, gpt2, gpt4, qwen2 };

/// Handling of special added tokens in a text to encode: encoded as their ids, encoded as plain text, or rejected with
/// a ValueError.
enum class SpecialTokens : uint8_t { allow, plain, forbid };

struct EncodeOptions {
  SpecialTokens special = SpecialTokens::allow;
  /// Adds the tokens of the file's template, such as a begin token.
  bool add_special_tokens = true;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

/// Token ids, and for each the byte range [begin, end) of its text; empty if the template added the token. If a
/// normalizer changed characters, the range covers the source of the token's first to last byte.
struct Encoding {
  std::vector<int64_t> ids;
  std::vector<std::pair<int64_t, int64_t>> offsets;
};

struct TrainTokenizerOptions {
  /// Total number of tokens: special ones, bytes and merges. Training ends earlier if no pair is left.
  int64_t vocab_size = 30000;
  /// Minimum count of a pair that is merged.
  int64_t min_frequency = 0;
  /// Get the first ids, in this order.
  std::vector<std::string> special_tokens = {};
  WordPattern pattern = WordPattern::gpt2;
  /// Adds a space before a text that does not begin with one.
  bool add_prefix_space = false;
  /// Called periodically with the current and the wanted number of tokens.
  Callback<void(int64_t tokens, int64_t wished)> progress = {};
};

/// A value type; copies share immutable tables. Thread-safe.
class WEFT_API Tokenizer {
 public:
  /// Loads a `tokenizer.json`: a byte-level BPE model, with
  /// - normalizers NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace and Sequence;
  /// - pre-tokenizers ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit and
  ///   Sequence, including one ByteLevel;
  /// - post-processors ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing and Sequence;
  /// - decoders ByteLevel, Fuse and Sequence.
  /// Normal forms and other Unicode rules are those of utf8proc, expressions those of Oniguruma; neither applies to
  /// bytes that are not UTF-8. Raises IoError if the file cannot be read, and FormatError if it is malformed. Raises
  /// NotImplementedError, with the name, for any other feature that would change ids, and for a feature that needs one
  /// of these libraries in a build without it.
  static Tokenizer load(const io::Path& path, Location where = {});
  static Tokenizer from_json(std::string_view text, Location where = {});
  /// Loads GPT-2's two files. "<|endoftext|>" is special if the vocabulary has it.
  static Tokenizer load_gpt2(const io::Path& vocab_json, const io::Path& merges_txt, Location where = {});
  /// Learns merges by repeatedly merging the most frequent pair of tokens in the words of all texts. Ties are resolved
  /// by the lowest ids, first of the first token, then of the second. The same texts give the same tokens. The ids of
  /// the 256 bytes follow the special tokens, in the order of their characters in the vocabulary. Raises ValueError if
  /// vocab_size is less than the number of special tokens and bytes.
  static Tokenizer train(std::span<const std::string> texts, const TrainTokenizerOptions& options = {},
                         Location where = {});

  /// Writes a `tokenizer.json` that this class and the library `tokenizers` read, with the same ids. Raises IoError.
  void save(const io::Path& path, Location where = {}) const;
  std::string to_json(Location where = {}) const;

  /// Raises ValueError for a forbidden special token, and for a byte without a token in the vocabulary.
  std::vector<int64_t> encode(std::string_view text, EncodeOptions options = {}, Location where = {}) const;
  Encoding encode_with_offsets(std::string_view text, EncodeOptions options = {}, Location where = {}) const;
  /// Encodes each text, on the threads of the CPU kernels.
  std::vector<std::vector<int64_t>> encode_batch(std::span<const std::string> texts, EncodeOptions options = {},
                                                 Location where = {}) const;
  /// Returns UTF-8: each maximal invalid part of a character becomes U+FFFD. Raises IndexError for an id without a
  /// token.
  std::string decode(std::span<const int64_t> ids, DecodeOptions options = {}, Location where = {}) const;
  std::string decode(const std::vector<int64_t>& ids, DecodeOptions options = {}, Location where = {}) const {
    return decode(std::span<const int64_t>(ids), options, where);
  }
  /// Returns the raw bytes: `decode_bytes(encode(text))` is the text, for any bytes, unless a prefix space was added.
  std::string decode_bytes(std::span<const int64_t> ids, DecodeOptions options = {}, Location where = {}) const;

  /// The highest id plus 1.
  int64_t vocab_size() const;
  /// Returns the token as written in files, with one character per byte: "Ġthe" for " the". Raises IndexError for an id
  /// without a token.
  std::string token(int64_t id, Location where = {}) const;
  /// Returns nothing if there is no such token.
  std::optional<int64_t> id(std::string_view token) const;
  bool is_special(int64_t id) const;
  /// Returns the merged pairs by rank, as written in files.
  std::vector<std::pair<std::string, std::string>> merges() const;

  struct Tables;

 private:
  friend struct TokenizerBuilder;
  explicit Tokenizer(Shared<const Tables> tables) : tables_(std::move(tables)) {}
  Shared<const Tables> tables_;
};

}  // namespace weft::data
