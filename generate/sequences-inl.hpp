// Rows of a Decoding with what they have read. Not public.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "generate.hpp"

namespace weft::generate {

using Tokens = std::vector<int64_t>;

/// Logits of rows, on the host.
class Logits {
 public:
  explicit Logits(const Tensor& logits);
  /// Behind the i-th of the tokens that were read of row r.
  std::span<const float> row(size_t r, size_t i) const {
    return std::span(values_).subspan((r * width_ + i) * vocabulary_, vocabulary_);
  }

 private:
  std::vector<float> values_;
  size_t width_, vocabulary_;
};

class Reader {
 public:
  Reader(std::unique_ptr<Decoding> decoding, int64_t rows)
      : decoding_(std::move(decoding)), read_(static_cast<size_t>(rows)) {}
  /// Reads what rows have not read of their texts, which begin with what they have.
  Logits read_rest(const std::vector<Tokens>& texts, bool only_last);
  /// Forgets what is not the same in these texts, and their last tokens.
  void keep_common(const std::vector<Tokens>& texts);
  void take_rows(const std::vector<int64_t>& rows);
  /// Of the model's own heads, as Decoding::draft.
  Logits draft(const std::vector<int64_t>& back) { return Logits(decoding_->draft(back)); }

 private:
  std::unique_ptr<Decoding> decoding_;
  std::vector<Tokens> read_;
};

/// Whether a text ends with its last token.
std::optional<Finish> finish_of(const Tokens& made, const GenerateOptions& options);

Generation best_of_beams(const LanguageModel& model, const Tokens& prompt, const GenerateOptions& options,
                         Location where);

}  // namespace weft::generate
