// Training of BPE merges. Counts of pairs are updated after each merge. Queue entries hold the count at the time of
// insertion, and the words in which the pair was new. An outdated entry is inserted again with its current count.
#include <algorithm>
#include <queue>

#include <fmt/format.h>

#include "characters-inl.hpp"
#include "tables-inl.hpp"
#include "words-inl.hpp"

namespace weft::data {

namespace {

constexpr const char* op = "Tokenizer.train";

struct Word {
  std::vector<uint32_t> tokens;
  int64_t count;
};

uint64_t pair_of(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

struct Candidate {
  uint64_t pair;
  int64_t count;
  std::vector<uint32_t> words;
  /// Most frequent first, then lowest ids.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  Trainer(Tokenizer::Tables& tables, const TrainTokenizerOptions& options) : tables_(tables), options_(options) {}

  void read(std::span<const std::string> texts) {
    std::unordered_map<std::string, int64_t, StringHash, std::equal_to<>> counts;
    const uint8_t* kinds = character_kinds();
    for (const std::string& text : texts) {
      const std::string spaced = options_.add_prefix_space && !text.starts_with(' ') ? " " + text : std::string();
      const std::string_view all = spaced.empty() ? std::string_view(text) : spaced;
      for (size_t begin = 0; begin < all.size();) {
        const size_t end = word_end(options_.pattern, kinds, all, begin);
        const std::string_view word = all.substr(begin, end - begin);
        const auto known = counts.find(word);
        if (known != counts.end()) ++known->second;
        else counts.emplace(word, 1);
        begin = end;
      }
    }
    for (const auto& [word, count] : counts) {
      Word& made = words_.emplace_back(Word{{}, count});
      for (const char byte : word) made.tokens.push_back(tables_.byte_tokens[static_cast<uint8_t>(byte)]);
    }
  }

  void merge_all() {
    for (uint32_t i = 0; i < words_.size(); ++i) {
      const Word& word = words_[i];
      for (size_t k = 0; k + 1 < word.tokens.size(); ++k)
        change(pair_of(word.tokens[k], word.tokens[k + 1]), word.count, i);
    }
    queue_changed();
    std::vector<uint32_t> results;
    tell();
    while (std::ssize(tables_.is_used) < options_.vocab_size && !queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      if (const int64_t count = counts_[best.pair]; best.count != count) {
        best.count = count;
        queue_.push(std::move(best));
        continue;
      }
      if (best.count < 1 || best.count < options_.min_frequency) break;
      results.push_back(merge(best));
      queue_changed();
      if (results.size() % 100 == 0) tell();
    }
    tables_.index_merges(results);
    tell();
  }

 private:
  void tell() const {
    if (options_.progress) options_.progress(std::ssize(tables_.is_used), options_.vocab_size);
  }
  void change(uint64_t pair, int64_t by, uint32_t word) {
    counts_[pair] += by;
    if (by <= 0) return;
    std::vector<uint32_t>& words = changed_[pair];
    if (words.empty() || words.back() != word) words.push_back(word);
  }
  void queue_changed() {
    for (auto& [pair, words] : changed_) {
      if (const int64_t count = counts_[pair]; count > 0) queue_.push({pair, count, std::move(words)});
    }
    changed_.clear();
  }
  /// Merges the pair in all its words and returns the new token.
  uint32_t merge(const Candidate& best) {
    const auto a = static_cast<uint32_t>(best.pair >> 32), b = static_cast<uint32_t>(best.pair);
    std::string name = tables_.names[a] + tables_.names[b];
    const auto known = tables_.ids.find(name);
    const auto token = known != tables_.ids.end() ? known->second : static_cast<uint32_t>(tables_.is_used.size());
    if (known == tables_.ids.end()) tables_.add_token(token, std::move(name), true);
    tables_.merge_list.emplace_back(a, b);
    for (const uint32_t i : best.words) merge_in(i, a, b, token);
    return token;
  }
  void merge_in(uint32_t index, uint32_t a, uint32_t b, uint32_t token) {
    Word& word = words_[index];
    std::vector<uint32_t>& tokens = word.tokens;
    size_t to = 0;
    for (size_t i = 0; i < tokens.size(); ++i, ++to) {
      if (tokens[i] != a || i + 1 == tokens.size() || tokens[i + 1] != b) {
        tokens[to] = tokens[i];
        continue;
      }
      if (to > 0) {
        change(pair_of(tokens[to - 1], a), -word.count, index);
        change(pair_of(tokens[to - 1], token), word.count, index);
      }
      if (i + 2 < tokens.size()) {
        change(pair_of(b, tokens[i + 2]), -word.count, index);
        change(pair_of(token, tokens[i + 2]), word.count, index);
      }
      tokens[to] = token;
      ++i;
    }
    tokens.resize(to);
  }

  Tokenizer::Tables& tables_;
  const TrainTokenizerOptions& options_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, int64_t> counts_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> changed_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

Tokenizer Tokenizer::train(std::span<const std::string> texts, const TrainTokenizerOptions& options, Location where) {
  Tables tables;
  if (options.add_prefix_space && options.pattern != WordPattern::gpt2 && options.pattern != WordPattern::none) {
    raise<ValueError>({.op = op, .problem = "add_prefix_space goes with the patterns gpt2 and none alone"}, where);
  }
  tables.set_words(options.pattern, options.add_prefix_space);
  uint32_t next = 0;
  for (const std::string& name : options.special_tokens) {
    if (name.empty() || tables.ids.contains(name)) {
      raise<ValueError>({.op = op, .problem = "special tokens must differ, and none may be empty"}, where);
    }
    tables.add_token(next, name, true);
    tables.add_special(name, next++);
  }
  for (const uint8_t byte : bytes_by_name()) {
    // A special token may be the character of a byte.
    if (!tables.ids.contains(name_of_byte(byte))) tables.add_token(next++, name_of_byte(byte), true);
  }
  if (options.vocab_size < next || options.vocab_size >= int64_t{1} << 31) {
    raise<ValueError>({.op = op,
                       .problem = fmt::format("a vocabulary of {} tokens; special tokens and bytes are {}",
                                              options.vocab_size, next)},
                      where);
  }
  Trainer trainer(tables, options);
  trainer.read(texts);
  trainer.merge_all();
  return TokenizerBuilder::make(std::move(tables));
}

}  // namespace weft::data
