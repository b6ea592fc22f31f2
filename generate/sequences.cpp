#include "sequences-inl.hpp"

#include <algorithm>

#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"

namespace weft::generate {

Logits::Logits(const Tensor& logits)
    : values_(logits.to_vector<float>()),
      width_(static_cast<size_t>(logits.size(1))),
      vocabulary_(static_cast<size_t>(logits.size(2))) {}

Logits Reader::read_rest(const std::vector<Tokens>& texts, bool only_last) {
  std::vector<int64_t> counts;
  for (size_t r = 0; r < texts.size(); ++r) counts.push_back(std::ssize(texts[r]) - std::ssize(read_[r]));
  const int64_t longest = *std::ranges::max_element(counts);
  std::vector<int64_t> padded;
  for (size_t r = 0; r < texts.size(); ++r) {
    padded.insert(padded.end(), texts[r].begin() + std::ssize(read_[r]), texts[r].end());
    padded.resize((r + 1) * static_cast<size_t>(longest), 0);
    read_[r] = texts[r];
  }
  const Tensor tokens = tensor(padded).reshape({std::ssize(texts), longest});
  return Logits(decoding_->read(tokens, counts, only_last));
}

void Reader::keep_common(const std::vector<Tokens>& texts) {
  std::vector<int64_t> lengths;
  for (size_t r = 0; r < texts.size(); ++r) {
    const auto [own, other] = std::ranges::mismatch(read_[r], texts[r]);
    const int64_t common = std::min<int64_t>(own - read_[r].begin(), std::ssize(texts[r]) - 1);
    read_[r].resize(static_cast<size_t>(common));
    lengths.push_back(common);
  }
  decoding_->shorten(lengths);
}

void Reader::take_rows(const std::vector<int64_t>& rows) {
  std::vector<Tokens> selected;
  for (const int64_t r : rows) selected.push_back(read_[static_cast<size_t>(r)]);
  read_ = std::move(selected);
  decoding_->take_rows(rows);
}

}  // namespace weft::generate
