// Byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019): text as numbers of tokens and back.
//
// A text is cut at added tokens, the parts into words, and the bytes of a word are joined by the merges, lowest rank
// first. Any bytes can be encoded: those that are no UTF-8 stand for themselves. Ids are those of the library
// `tokenizers` for the files that are read here; what a file asks for beyond is refused by its name, never left out.
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

/// How a text is cut into words, across which nothing is merged: not at all, as GPT-2 does, as GPT-4 (cl100k) and Llama
/// 3 do, as Qwen2 does. Letters, numbers and white space are those of Unicode 16. Files may have other expressions.
enum class WordPattern : uint8_t { none, gpt2, gpt4, qwen2 };

/// Added tokens that are marked as special, in a text that is encoded: numbers of their own, text like any other, or a
/// ValueError.
enum class SpecialTokens : uint8_t { allow, plain, forbid };

struct EncodeOptions {
  SpecialTokens special = SpecialTokens::allow;
  /// Puts around the text what the file's template puts there, such as a token for its beginning.
  bool add_special_tokens = true;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

/// Tokens and the bytes of the text that each stands for, [begin, end); empty where a template added the token. Where a
/// normalizer changed characters, those that the token's first and last byte come from, and all between.
struct Encoding {
  std::vector<int64_t> ids;
  std::vector<std::pair<int64_t, int64_t>> offsets;
};

struct TrainTokenizerOptions {
  /// Tokens in all: special ones, bytes and merges. Training ends earlier where no pair is left.
  int64_t vocab_size = 30000;
  /// A pair is merged where it occurs at least so often.
  int64_t min_frequency = 0;
  /// They get the first ids, in this order.
  std::vector<std::string> special_tokens = {};
  WordPattern pattern = WordPattern::gpt2;
  /// Puts a space before a text that begins with none.
  bool add_prefix_space = false;
  /// Called from time to time with the tokens that there are and those that are wished for.
  Callback<void(int64_t tokens, int64_t wished)> progress = {};
};

/// A value: copies share the tables, which never change. Safe to use from several threads.
class WEFT_API Tokenizer {
 public:
  /// From a `tokenizer.json`: the model BPE over bytes, with
  /// - normalizers NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace and Sequence,
  /// - pre-tokenizers ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit and
  ///   Sequence, one ByteLevel among them,
  /// - post-processors ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing and Sequence,
  /// - decoders ByteLevel, Fuse and Sequence.
  /// Normal forms and other rules of Unicode are those of utf8proc, expressions those of Oniguruma, where Weft was
  /// built with them; bytes that are no UTF-8 are no part of either. IoError where the file cannot be read, FormatError
  /// where it is malformed, NotImplementedError, with its name, for anything else that would change ids.
  static Tokenizer load(const io::Path& path, Location where = {});
  static Tokenizer from_json(std::string_view text, Location where = {});
  /// From GPT-2's two files. "<|endoftext|>" is special where the vocabulary has it.
  static Tokenizer load_gpt2(const io::Path& vocab_json, const io::Path& merges_txt, Location where = {});
  /// Learns merges: the most frequent pair in the words of all texts becomes a token, again and again; of pairs of one
  /// frequency that of the lowest ids, the first token's before the second's. The same texts give the same tokens.
  /// Behind the special tokens come the 256 bytes, in the order of the characters that stand for them. ValueError
  /// where vocab_size is less than those.
  static Tokenizer train(std::span<const std::string> texts, const TrainTokenizerOptions& options = {},
                         Location where = {});

  /// A `tokenizer.json` that this class and the library `tokenizers` read, with the same ids. IoError.
  void save(const io::Path& path, Location where = {}) const;
  std::string to_json(Location where = {}) const;

  /// ValueError for a special token that is forbidden, and for a byte that the vocabulary has no token for.
  std::vector<int64_t> encode(std::string_view text, EncodeOptions options = {}, Location where = {}) const;
  Encoding encode_with_offsets(std::string_view text, EncodeOptions options = {}, Location where = {}) const;
  /// Each text as `encode` does it, on the threads of the CPU's kernels.
  std::vector<std::vector<int64_t>> encode_batch(std::span<const std::string> texts, EncodeOptions options = {},
                                                 Location where = {}) const;
  /// UTF-8: bytes that are none become U+FFFD, one for each part of a character. IndexError for an id without a token.
  std::string decode(std::span<const int64_t> ids, DecodeOptions options = {}, Location where = {}) const;
  std::string decode(const std::vector<int64_t>& ids, DecodeOptions options = {}, Location where = {}) const {
    return decode(std::span<const int64_t>(ids), options, where);
  }
  /// The bytes themselves: `decode_bytes(encode(text))` is the text, whatever it is, unless a space was put before it.
  std::string decode_bytes(std::span<const int64_t> ids, DecodeOptions options = {}, Location where = {}) const;

  /// One more than the highest id.
  int64_t vocab_size() const;
  /// As files write it, where a byte is one character: "Ġthe" for " the". IndexError for an id without a token.
  std::string token(int64_t id, Location where = {}) const;
  /// Nothing where there is no such token.
  std::optional<int64_t> id(std::string_view token) const;
  bool is_special(int64_t id) const;
  /// Pairs of tokens in the order of their ranks, as files write them.
  std::vector<std::pair<std::string, std::string>> merges() const;

  struct Tables;

 private:
  friend struct TokenizerBuilder;
  explicit Tokenizer(Shared<const Tables> tables) : tables_(std::move(tables)) {}
  Shared<const Tables> tables_;
};

}  // namespace weft::data
