#include "bpe-inl.hpp"

#include <algorithm>
#include <queue>

namespace weft::data {

namespace {

constexpr size_t short_word = 48;

/// Scans all pairs for each merge, the fastest way for few tokens.
size_t merge_short(const PairTable& merges, std::span<uint32_t> tokens) {
  Merge at[short_word];  // merge of token i with the next one
  size_t count = tokens.size();
  for (size_t i = 0; i + 1 < count; ++i) at[i] = merges.find(tokens[i], tokens[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (at[i].rank < at[best].rank) best = i;
    }
    if (at[best].rank == no_token) break;
    tokens[best] = at[best].token;
    std::copy(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              tokens.begin() + static_cast<std::ptrdiff_t>(count),
              tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    if (best + 2 < count) std::copy(at + best + 2, at + count - 1, at + best + 1);
    --count;
    if (best + 1 < count) at[best] = merges.find(tokens[best], tokens[best + 1]);
    if (best > 0) at[best - 1] = merges.find(tokens[best - 1], tokens[best]);
  }
  return count;
}

/// A priority queue of pairs over a linked list: O(n log n).
class LongWord {
 public:
  LongWord(const PairTable& merges, std::span<uint32_t> tokens) : merges_(merges), tokens_(tokens) {
    const auto count = static_cast<uint32_t>(tokens.size());
    next_.resize(count);
    before_.resize(count);
    for (uint32_t i = 0; i < count; ++i) next_[i] = i + 1, before_[i] = i - 1;
    for (uint32_t i = 0; i + 1 < count; ++i) note(i);
  }

  size_t merge() {
    while (!pairs_.empty()) {
      const Pair pair = pairs_.top();
      pairs_.pop();
      const uint32_t right = tokens_[pair.left] == no_token ? end() : next_[pair.left];
      // Skip entries with tokens that have been merged since.
      if (right == end() || merges_.find(tokens_[pair.left], tokens_[right]).rank != pair.rank) continue;
      tokens_[pair.left] = pair.token;
      tokens_[right] = no_token;
      next_[pair.left] = next_[right];
      if (next_[right] != end()) {
        before_[next_[right]] = pair.left;
        note(pair.left);
      }
      if (before_[pair.left] != no_token) note(before_[pair.left]);
    }
    return static_cast<size_t>(std::remove(tokens_.begin(), tokens_.end(), no_token) - tokens_.begin());
  }

 private:
  struct Pair {
    uint32_t rank, left, token;
    bool operator<(const Pair& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  uint32_t end() const { return static_cast<uint32_t>(tokens_.size()); }
  void note(uint32_t left) {
    const Merge merge = merges_.find(tokens_[left], tokens_[next_[left]]);
    if (merge.rank != no_token) pairs_.push({merge.rank, left, merge.token});
  }

  const PairTable& merges_;
  std::span<uint32_t> tokens_;
  std::vector<uint32_t> next_, before_;
  std::priority_queue<Pair> pairs_;
};

}  // namespace

size_t merge_tokens(const PairTable& merges, std::span<uint32_t> tokens) {
  if (tokens.size() <= short_word) return merge_short(merges, tokens);
  return LongWord(merges, tokens).merge();
}

}  // namespace weft::data
