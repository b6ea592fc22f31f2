// The interface of a language model for generate(): reads tokens, row by row, and returns logits of the next ones.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"

namespace weft::generate {

/// Sequences that a model has read so far. Rows are sequences of any lengths.
class WEFT_API Decoding {
 public:
  virtual ~Decoding() = default;

  /// Reads the first counts[r] tokens of row r of `tokens` [rows, n], i64; the remaining ones are padding. Counts are
  /// at least 1. Returns the floating-point logits after each token, [rows, n, vocabulary], or with `only_last` those
  /// after each row's last token, [rows, 1, vocabulary].
  virtual Tensor read(const Tensor& tokens, std::span<const int64_t> counts, bool only_last) = 0;
  /// Truncates row r to its first lengths[r] tokens, at most its length.
  virtual void shorten(std::span<const int64_t> lengths) = 0;
  /// Replaces row i by row rows[i]. The number of rows may change, up to the number at construction.
  virtual void take_rows(std::span<const int64_t> rows) = 0;
  /// For a model with draft_heads: logits [rows, draft_heads, vocabulary] of the tokens after the next one. They are
  /// computed at the token back[r] positions before the last one that row r read in the last call.
  virtual Tensor draft(std::span<const int64_t> back);
};

/// A handle: copies refer to the same model.
struct LanguageModel {
  int64_t vocabulary = 0;
  /// Maximum number of tokens in a sequence; 0 means unlimited.
  int64_t context = 0;
  /// Starts an empty decoding for at most `rows` rows of at most `capacity` tokens.
  Callback<std::unique_ptr<Decoding>(int64_t rows, int64_t capacity)> begin;
  /// Number of tokens after the next one that the model's draft heads propose.
  int64_t draft_heads = 0;
};

/// Wraps any causal model that maps tokens [batch, length], i64, to logits [batch, length, vocabulary]. It reads all
/// tokens again for each new one. With a `window` it reads only the last `window` tokens, and sequences may be longer.
WEFT_API LanguageModel without_cache(Callback<Tensor(const Tensor& tokens)> model, int64_t vocabulary,
                                     int64_t window = 0);

}  // namespace weft::generate
