// Rows of a Decoding with the tokens that they have read. Not public.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "generate.hpp"

namespace weft::generate {

using Tokens = std::vector<int64_t>;

/// Logits of all rows, on the host.
class Logits {
 public:
  explicit Logits(const Tensor& logits);
  /// Logits after the i-th token that row r read.
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
  /// Reads the unread rest of each row's text, which begins with the tokens read before.
  Logits read_rest(const std::vector<Tokens>& texts, bool only_last);
  /// Truncates each row to its common prefix with the text, without the text's last token.
  void keep_common(const std::vector<Tokens>& texts);
  void take_rows(const std::vector<int64_t>& rows);
  /// Logits of the model's draft heads, see Decoding::draft.
  Logits draft(const std::vector<int64_t>& back) { return Logits(decoding_->draft(back)); }

 private:
  std::unique_ptr<Decoding> decoding_;
  std::vector<Tokens> read_;
};

/// The finish reason if the last token ends the text.
std::optional<Finish> finish_of(const Tokens& made, const GenerateOptions& options);

Generation best_of_beams(const LanguageModel& model, const Tokens& prompt, const GenerateOptions& options,
                         Location where);

}  // namespace weft::generate
