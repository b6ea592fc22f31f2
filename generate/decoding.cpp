#include <optional>
#include <vector>

#include <fmt/format.h>

#include "../backends/row_products.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/index.hpp"
#include "../ops/join.hpp"
#include "checkpoint.hpp"

namespace weft::generate {

namespace {

class Cached final : public Decoding {
 public:
  Cached(const nn::CausalLM& model, std::optional<nn::DraftHeads> heads, int64_t capacity)
      : model_(model), heads_(std::move(heads)), capacity_(capacity) {}

  Tensor read(const Tensor& tokens, std::span<const int64_t> counts, bool only_last) override {
    const int64_t rows = tokens.size(0), n = tokens.size(1);
    if (!cache_) cache_.emplace(model_.options(), rows, capacity_, TensorOptions{weight().dtype(), weight().device()});
    std::vector<int64_t> places, begins;
    for (int64_t r = 0; r < rows; ++r) {
      begins.push_back(std::ssize(places));
      for (int64_t i = 0; i < counts[static_cast<size_t>(r)]; ++i) places.push_back(r * n + i);
    }
    const Tensor packed = index_select(tokens.reshape({-1}), 0, tensor(places)).to(weight().device());
    hidden_ = model_.read_hidden(packed, counts, *cache_);
    ends_.clear();
    for (int64_t r = 0; r < rows; ++r) {
      ends_.push_back(begins[static_cast<size_t>(r)] + counts[static_cast<size_t>(r)] - 1);
    }
    const weft::detail::RowProducts by_rows(only_last || n <= weft::detail::most_row_tokens);
    if (only_last) return model_.logits(rows_of_hidden(ends_)).unsqueeze(1);
    const Tensor logits = model_.logits(hidden_);
    std::vector<int64_t> back;
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<size_t>(r);
      for (int64_t i = 0; i < n; ++i) back.push_back(begins[row] + std::min(i, counts[row] - 1));
    }
    return index_select(logits, 0, tensor(back).to(logits.device())).reshape({rows, n, logits.size(1)});
  }
  void shorten(std::span<const int64_t> lengths) override { cache_->truncate(lengths); }
  void take_rows(std::span<const int64_t> rows) override {
    cache_->take_rows(rows);
    std::vector<int64_t> ends;
    for (const int64_t r : rows) ends.push_back(ends_[static_cast<size_t>(r)]);
    ends_ = std::move(ends);
  }
  Tensor draft(std::span<const int64_t> back) override {
    if (!heads_) return Decoding::draft(back);
    std::vector<int64_t> places = ends_;
    for (size_t r = 0; r < places.size(); ++r) places[r] -= back[r];
    return model_.logits((*heads_)(rows_of_hidden(places)));
  }

 private:
  const Tensor& weight() const { return model_.model.embed_tokens.weight; }
  Tensor rows_of_hidden(const std::vector<int64_t>& rows) const {
    return index_select(hidden_, 0, tensor(rows).to(hidden_.device()));
  }
  const nn::CausalLM model_;
  const std::optional<nn::DraftHeads> heads_;
  const int64_t capacity_;
  /// Created with the number of rows of the first read: beams start from one row.
  std::optional<nn::CausalLMCache> cache_;
  /// Hidden states of the last tokens read, and the index of each row's last one.
  Tensor hidden_;
  std::vector<int64_t> ends_;
};

}  // namespace

LanguageModel language_model(const nn::CausalLM& model) {
  return {.vocabulary = model.options().vocabulary,
          .context = model.options().context,
          .begin = [model](int64_t, int64_t capacity) {
            return std::unique_ptr<Decoding>(new Cached(model, std::nullopt, capacity));
          }};
}

LanguageModel language_model(const nn::CausalLM& model, const nn::DraftHeads& heads, Location where) {
  const int64_t width = heads.heads[0].weight.size(0);
  if (width != model.options().width) {
    raise<ValueError>({.op = "language_model",
                       .problem = fmt::format("heads of width {} for a model of {}", width, model.options().width)},
                      where);
  }
  LanguageModel out = language_model(model);
  out.draft_heads = static_cast<int64_t>(heads.heads.size());
  out.begin = [model, heads](int64_t, int64_t capacity) {
    return std::unique_ptr<Decoding>(new Cached(model, heads, capacity));
  };
  return out;
}

}  // namespace weft::generate
