#include "language_model.hpp"

#include <algorithm>
#include <vector>

#include "../ops/create.hpp"
#include "../ops/index.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/join.hpp"
#include "../tensor/error.hpp"

namespace weft::generate {

namespace {

class Anew final : public Decoding {
 public:
  Anew(Callback<Tensor(const Tensor&)> model, int64_t rows, int64_t window)
      : model_(std::move(model)), texts_(static_cast<size_t>(rows)), window_(window) {}

  Tensor read(const Tensor& tokens, std::span<const int64_t> counts, bool only_last) override {
    const std::vector<int64_t> given = tokens.to_vector<int64_t>();
    const int64_t n = tokens.size(1);
    std::vector<Tensor> rows;
    for (int64_t r = 0; r < tokens.size(0); ++r) {
      std::vector<int64_t>& text = texts_[static_cast<size_t>(r)];
      const auto first = given.begin() + r * n;
      const int64_t before = std::ssize(text), own = counts[static_cast<size_t>(r)];
      text.insert(text.end(), first, first + own);
      rows.push_back(only_last ? behind_last(text) : behind_each(text, before, n));
    }
    return stack(rows);
  }
  void shorten(std::span<const int64_t> lengths) override {
    for (size_t r = 0; r < lengths.size(); ++r) texts_[r].resize(static_cast<size_t>(lengths[r]));
  }
  void take_rows(std::span<const int64_t> rows) override {
    std::vector<std::vector<int64_t>> selected;
    for (const int64_t r : rows) selected.push_back(texts_[static_cast<size_t>(r)]);
    texts_ = std::move(selected);
  }

 private:
  Tensor behind_last(const std::vector<int64_t>& text) const {
    const int64_t seen = window_ > 0 ? std::min<int64_t>(window_, std::ssize(text)) : std::ssize(text);
    const std::vector<int64_t> part(text.end() - seen, text.end());
    return model_(tensor(part).unsqueeze(0)).select(0, 0).narrow(0, seen - 1, 1);
  }
  /// Logits after each token, [n, vocabulary]; padded with zeros after the end of the text.
  Tensor behind_each(const std::vector<int64_t>& text, int64_t before, int64_t n) const {
    std::vector<Tensor> each;
    if (window_ == 0 || std::ssize(text) <= window_) {
      each.push_back(model_(tensor(text).unsqueeze(0)).select(0, 0).narrow(0, before, std::ssize(text) - before));
    } else {
      for (int64_t end = before + 1; end <= std::ssize(text); ++end) {
        each.push_back(behind_last({text.begin(), text.begin() + end}));
      }
    }
    const int64_t left = n - (std::ssize(text) - before);
    if (left > 0) each.push_back(zeros({left, each[0].size(1)}, {each[0].dtype(), each[0].device()}));
    return cat(each);
  }

  const Callback<Tensor(const Tensor&)> model_;
  std::vector<std::vector<int64_t>> texts_;
  const int64_t window_;
};

}  // namespace

Tensor Decoding::draft(std::span<const int64_t>) {
  raise<NotImplementedError>({.op = "generate", .problem = "this model has no heads that draft"});
}

LanguageModel without_cache(Callback<Tensor(const Tensor& tokens)> model, int64_t vocabulary, int64_t window) {
  return {.vocabulary = vocabulary, .context = 0, .begin = [model, window](int64_t rows, int64_t) {
            return std::unique_ptr<Decoding>(new Anew(model, rows, window));
          }};
}

}  // namespace weft::generate
