// What generate() asks of a language model: to read tokens, sequence by sequence, and to say what may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"

namespace weft::generate {

/// Sequences that a model has read, and reads on. Rows are sequences of any lengths.
class WEFT_API Decoding {
 public:
  virtual ~Decoding() = default;

  /// Reads the first counts[r] tokens of row r of `tokens` [rows, n], i64; what is behind them says nothing. The logits
  /// behind each token, [rows, n, vocabulary], floating; with `only_last` those behind each row's last, [rows, 1,
  /// vocabulary]. Counts are at least 1.
  virtual Tensor read(const Tensor& tokens, std::span<const int64_t> counts, bool only_last) = 0;
  /// Row r has read its first lengths[r] tokens alone, no more than it has.
  virtual void shorten(std::span<const int64_t> lengths) = 0;
  /// Row i is now what row rows[i] was; there may be more rows or fewer, up to those that it was made for.
  virtual void take_rows(std::span<const int64_t> rows) = 0;
  /// Of a model with draft_heads: what they say from behind the token that stands back[r] before the last one of those
  /// that row r read last, logits [rows, draft_heads, vocabulary] of the tokens behind the next one.
  virtual Tensor draft(std::span<const int64_t> back);
};

/// A value; copies are the same model.
struct LanguageModel {
  int64_t vocabulary = 0;
  /// How many tokens a sequence may have; 0: any number.
  int64_t context = 0;
  /// For at most so many rows, none read yet, of at most `capacity` tokens each.
  Callback<std::unique_ptr<Decoding>(int64_t rows, int64_t capacity)> begin;
  /// So many tokens behind the next one its own further heads propose.
  int64_t draft_heads = 0;
};

/// Of any causal model from tokens [batch, length], i64, to logits [batch, length, vocabulary], which reads all tokens
/// anew for each one. With a `window` it sees the last so many alone, and a sequence may be longer.
WEFT_API LanguageModel without_cache(Callback<Tensor(const Tensor& tokens)> model, int64_t vocabulary,
                                     int64_t window = 0);

}  // namespace weft::generate
