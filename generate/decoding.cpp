#include <optional>
#include <vector>

#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/index.hpp"
#include "../ops/join.hpp"
#include "checkpoint.hpp"

namespace weft::generate {

namespace {

class Cached final : public Decoding {
 public:
  Cached(const nn::CausalLM& model, int64_t capacity) : model_(model), capacity_(capacity) {}

  Tensor read(const Tensor& tokens, std::span<const int64_t> counts, bool only_last) override {
    const int64_t rows = tokens.size(0), n = tokens.size(1);
    if (!cache_) cache_.emplace(model_.options(), rows, capacity_, TensorOptions{weight().dtype(), weight().device()});
    std::vector<int64_t> places, begins;
    for (int64_t r = 0; r < rows; ++r) {
      begins.push_back(std::ssize(places));
      for (int64_t i = 0; i < counts[static_cast<size_t>(r)]; ++i) places.push_back(r * n + i);
    }
    const Tensor packed = index_select(tokens.reshape({-1}), 0, tensor(places)).to(weight().device());
    const Tensor logits = model_.read(packed, counts, *cache_, only_last);
    if (only_last) return logits.unsqueeze(1);
    std::vector<int64_t> back;
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<size_t>(r);
      for (int64_t i = 0; i < n; ++i) back.push_back(begins[row] + std::min(i, counts[row] - 1));
    }
    return index_select(logits, 0, tensor(back).to(logits.device())).reshape({rows, n, logits.size(1)});
  }
  void shorten(std::span<const int64_t> lengths) override { cache_->truncate(lengths); }
  void take_rows(std::span<const int64_t> rows) override { cache_->take_rows(rows); }

 private:
  const Tensor& weight() const { return model_.model.embed_tokens.weight; }
  const nn::CausalLM model_;
  const int64_t capacity_;
  /// Of as many rows as are read first: beams come of one.
  std::optional<nn::CausalLMCache> cache_;
};

}  // namespace

LanguageModel language_model(const nn::CausalLM& model) {
  return {
      .vocabulary = model.options().vocabulary,
      .context = model.options().context,
      .begin = [model](int64_t, int64_t capacity) { return std::unique_ptr<Decoding>(new Cached(model, capacity)); }};
}

}  // namespace weft::generate
