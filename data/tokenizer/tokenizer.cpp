#include "../tokenizer.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "characters-inl.hpp"
#include "normalizer-inl.hpp"
#include "pieces-inl.hpp"
#include "tables-inl.hpp"
#include "unicode-inl.hpp"
#include "words-inl.hpp"
#include "../../backends/cpu/thread_pool.hpp"
#include "../../io/json/utf8-inl.hpp"

namespace weft::data {

namespace {

/// Cache of the tokens of short words: a direct-mapped hash table.
class WordCache {
 public:
  static constexpr size_t most_bytes = 15, most_tokens = 11;
  struct Word {
    char bytes[most_bytes] = {};
    uint8_t length = 0;  // 0 if the entry is empty
    uint32_t count = 0;
    uint32_t tokens[most_tokens];
  };

  /// For a text of this many bytes.
  explicit WordCache(size_t bytes) : words_(std::bit_ceil(std::clamp<size_t>(bytes / 16, 16, 16384))) {}
  Word& place(std::string_view word) {
    uint64_t head = word.size(), tail = 0;
    if (word.size() >= 8) {
      std::memcpy(&tail, word.data(), 8);
      std::memcpy(&head, word.data() + word.size() - 8, 8);
    } else {
      std::memcpy(&tail, word.data(), word.size());
    }
    const uint64_t mixed = (head * 0x9E3779B97F4A7C15u ^ tail) * 0xD6E8FEB86659FD93u;
    return words_[(mixed >> 32) & (words_.size() - 1)];
  }
  static bool holds(const Word& place, std::string_view word) {
    return place.length == word.size() && std::memcmp(place.bytes, word.data(), word.size()) == 0;
  }

 private:
  std::vector<Word> words_;
};

class Encoder {
 public:
  Encoder(const Tokenizer::Tables& tables, EncodeOptions options, size_t bytes, Location where)
      : tables_(tables), options_(options), where_(where), kinds_(character_kinds()), cache_(bytes) {}

  void encode(std::string_view text, Encoding& out, bool with_offsets) {
    out_ = &out;
    with_offsets_ = with_offsets;
    source_ = {.begin = text.data()};
    if (options_.add_special_tokens) put_template(tables_.before, 0);
    each_part(text, tables_.added, [&](std::string_view between) { normalize(between, text.data()); });
    if (options_.add_special_tokens) put_template(tables_.behind, std::ssize(text));
  }

 private:
  /// The current input: a piece of the text, `at` bytes from its start, or a normalized text.
  struct Source {
    const char* begin = nullptr;
    int64_t at = 0;
    const Aligned* made = nullptr;
  };

  /// Appends the added tokens in a text, and calls `part` for the pieces between them.
  template <class Between>
  void each_part(std::string_view text, const AddedTokens& added, Between&& part) {
    size_t done = 0;
    for (size_t from = 0;;) {
      const AddedToken* token;
      const size_t at = added.find(text, from, token);
      if (token == nullptr) break;
      from = at + token->text.size();
      if (token->special && options_.special == SpecialTokens::plain) continue;
      if (token->special && options_.special == SpecialTokens::forbid) refuse(*token);
      if (token->single_word && (is_word_before(text, at) || is_word_at(text, from))) continue;
      const size_t begin = token->strips_left ? std::max(done, space_before(text, at)) : at;
      if (token->strips_right) from = space_behind(text, from);
      if (begin > done) part(text.substr(done, begin - done));
      add_token(token->id, text.substr(begin, from - begin));
      done = from;
    }
    if (done < text.size()) part(text.substr(done));
  }

  void normalize(std::string_view text, const char* whole) {
    const auto find_rest = [&](std::string_view all) {
      each_part(all, tables_.added_normalized, [&](std::string_view between) { part(between); });
    };
    if (tables_.normalizers.empty()) return find_rest(text);
    const Aligned made = tables_.normalized(text, text.data() - whole, with_offsets_, where_);
    const Source outer = std::exchange(source_, {.begin = made.text.data(), .made = &made});
    find_rest(made.text);
    source_ = outer;
  }

  bool is_word_at(std::string_view text, size_t at) const {
    return at < text.size() && unicode::is_word(character_at(kinds_, text, at).point);
  }
  bool is_word_before(std::string_view text, size_t at) const {
    if (at == 0) return false;
    do --at;
    while (at > 0 && (text[at] & 0xC0) == 0x80);
    return is_word_at(text, at);
  }
  [[noreturn]] void refuse(const AddedToken& token) const {
    raise<ValueError>({.op = "Tokenizer.encode",
                       .problem = fmt::format("the text has the special token {}", io::quoted(token.text)),
                       .remedy = "SpecialTokens::plain takes it for text, SpecialTokens::allow for the token"},
                      where_);
  }
  size_t space_before(std::string_view text, size_t end) const {
    size_t begin = end;
    for (size_t i = end; i > 0;) {
      do --i;
      while (i > 0 && (text[i] & 0xC0) == 0x80);
      if (character_at(kinds_, text, i).kind != CharacterKind::space) break;
      begin = i;
    }
    return begin;
  }
  size_t space_behind(std::string_view text, size_t at) const {
    for (Character c; (c = character_at(kinds_, text, at)).kind == CharacterKind::space;) at += c.length;
    return at;
  }
  void put_template(const std::vector<uint32_t>& tokens, int64_t at) {
    for (const uint32_t token : tokens) {
      out_->ids.push_back(token);
      if (with_offsets_) out_->offsets.emplace_back(at, at);
    }
  }
  void add_token(uint32_t token, std::string_view bytes) {
    out_->ids.push_back(token);
    if (with_offsets_) out_->offsets.push_back(place_of(bytes));
  }
  /// Source range, in the original text, of a range of the current input.
  Aligned::Span place_of(std::string_view bytes) const {
    const int64_t begin = bytes.data() - source_.begin;
    if (source_.made == nullptr) return {source_.at + begin, source_.at + begin + std::ssize(bytes)};
    const auto& origin = source_.made->origin;
    if (bytes.empty()) return {};
    return {origin[static_cast<size_t>(begin)].first, origin[static_cast<size_t>(begin) + bytes.size() - 1].second};
  }

  void part(std::string_view text) {
    const PreTokenizer& steps = tables_.pre_tokenizer;
    if (steps.before.empty()) return piece(text);
    for (const Part& each : PreTokenizer::cut(steps.before, text, where_)) {
      piece(text.substr(each.begin, each.end - each.begin));
    }
  }
  void piece(std::string_view text) {
    if (!tables_.pre_tokenizer.add_prefix_space || text[0] == ' ') return words(text);
    Aligned spaced;
    spaced.text.reserve(text.size() + 1);
    spaced.text.append(1, ' ').append(text);
    if (with_offsets_) {
      for (size_t i = 0; i < text.size(); ++i) spaced.origin.push_back(place_of(text.substr(i, 1)));
      spaced.origin.insert(spaced.origin.begin(), {spaced.origin[0].first, spaced.origin[0].first});
    }
    const Source outer = std::exchange(source_, {.begin = spaced.text.data(), .made = &spaced});
    words(spaced.text);
    source_ = outer;
  }
  void words(std::string_view text) {
    const PreTokenizer& steps = tables_.pre_tokenizer;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = word_end(steps.words, kinds_, text, begin);
      if (steps.behind.empty()) word(text.substr(begin, end - begin));
      else cut_names(text.substr(begin, end - begin));
      begin = end;
    }
  }
  /// Steps after ByteLevel operate on names, in which each character is a byte.
  void cut_names(std::string_view bytes) {
    const std::string names = name_of_bytes(bytes);
    size_t done = 0, bytes_done = 0;
    const auto bytes_before = [&](size_t at) {  // called in increasing order
      for (; done < at; ++done) bytes_done += (names[done] & 0xC0) != 0x80;
      return bytes_done;
    };
    for (const Part& each : PreTokenizer::cut(tables_.pre_tokenizer.behind, names, where_)) {
      const size_t begin = bytes_before(each.begin);
      word(bytes.substr(begin, bytes_before(each.end) - begin));
    }
  }
  void word(std::string_view bytes) {
    if (bytes.size() > WordCache::most_bytes) {
      put_all(bytes, tokens_of(bytes));
      return;
    }
    WordCache::Word& known = cache_.place(bytes);
    if (!WordCache::holds(known, bytes)) {
      const std::span<const uint32_t> tokens = tokens_of(bytes);
      if (tokens.size() > WordCache::most_tokens) return put_all(bytes, tokens);
      std::memcpy(known.bytes, bytes.data(), bytes.size());
      known.length = static_cast<uint8_t>(bytes.size());
      known.count = static_cast<uint32_t>(tokens.size());
      std::ranges::copy(tokens, known.tokens);
    }
    put_all(bytes, {known.tokens, known.count});
  }
  void put_all(std::string_view bytes, std::span<const uint32_t> tokens) {
    if (!with_offsets_) {
      out_->ids.insert(out_->ids.end(), tokens.begin(), tokens.end());
      return;
    }
    for (const uint32_t token : tokens) {
      const size_t length = std::min(tables_.bytes[token].size(), bytes.size());
      add_token(token, bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
  }
  std::span<const uint32_t> tokens_of(std::string_view bytes) {
    if (bytes.size() >= size_t{1} << 31) {
      raise<ValueError>({.op = "Tokenizer.encode", .problem = "a word of more than 2^31 bytes"}, where_);
    }
    if (tables_.ignore_merges) {
      const auto whole = tables_.ids.find(name_of_bytes(bytes));
      if (whole != tables_.ids.end() && tables_.in_model[whole->second]) {
        word_.assign(1, whole->second);
        return word_;
      }
    }
    word_.resize(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      word_[i] = tables_.byte_tokens[static_cast<uint8_t>(bytes[i])];
      if (word_[i] != no_token) continue;
      raise<ValueError>(
          {.op = "Tokenizer.encode",
           .problem = fmt::format("the vocabulary has no token for the byte 0x{:02x}", static_cast<uint8_t>(bytes[i]))},
          where_);
    }
    return {word_.data(), merge_tokens(tables_.merges, word_)};
  }

  const Tokenizer::Tables& tables_;
  EncodeOptions options_;
  Location where_;
  const uint8_t* kinds_;
  WordCache cache_;
  std::vector<uint32_t> word_;
  Encoding* out_ = nullptr;
  bool with_offsets_ = false;
  Source source_;
};

[[noreturn]] void refuse_id(int64_t id, const char* op, Location where) {
  raise<IndexError>({.op = op, .problem = fmt::format("no token has the id {}", id)}, where);
}

}  // namespace

std::vector<int64_t> Tokenizer::encode(std::string_view text, EncodeOptions options, Location where) const {
  Encoding out;
  Encoder(*tables_, options, text.size(), where).encode(text, out, false);
  return std::move(out.ids);
}

Encoding Tokenizer::encode_with_offsets(std::string_view text, EncodeOptions options, Location where) const {
  Encoding out;
  Encoder(*tables_, options, text.size(), where).encode(text, out, true);
  return out;
}

std::vector<std::vector<int64_t>> Tokenizer::encode_batch(std::span<const std::string> texts, EncodeOptions options,
                                                          Location where) const {
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  std::vector<std::vector<int64_t>> out(texts.size());
  const auto count = std::ssize(texts);
  // About 64 KiB per chunk, so that several texts share a cache.
  const int64_t chunk = std::max<int64_t>(1, count * 65536 / std::max<int64_t>(static_cast<int64_t>(bytes), 1));
  cpu::parallel_for(count, std::min(chunk, std::max<int64_t>(count, 1)), [&](int64_t begin, int64_t end) {
    size_t share = 0;
    for (int64_t i = begin; i < end; ++i) share += texts[static_cast<size_t>(i)].size();
    Encoder encoder(*tables_, options, share, where);
    for (int64_t i = begin; i < end; ++i) {
      Encoding one;
      encoder.encode(texts[static_cast<size_t>(i)], one, false);
      out[static_cast<size_t>(i)] = std::move(one.ids);
    }
  });
  return out;
}

std::string Tokenizer::decode_bytes(std::span<const int64_t> ids, DecodeOptions options, Location where) const {
  std::string out;
  for (const int64_t id : ids) {
    if (!tables_->has(id)) refuse_id(id, "Tokenizer.decode", where);
    if (options.skip_special_tokens && tables_->special[static_cast<size_t>(id)]) continue;
    const auto changed = tables_->changed.find(static_cast<uint32_t>(id));
    out += changed != tables_->changed.end() ? changed->second : tables_->bytes[static_cast<size_t>(id)];
  }
  return out;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, DecodeOptions options, Location where) const {
  return as_utf8(decode_bytes(ids, options, where));
}

int64_t Tokenizer::vocab_size() const { return std::ssize(tables_->is_used); }

std::string Tokenizer::token(int64_t id, Location where) const {
  if (!tables_->has(id)) refuse_id(id, "Tokenizer.token", where);
  return tables_->names[static_cast<size_t>(id)];
}

std::optional<int64_t> Tokenizer::id(std::string_view token) const {
  const auto found = tables_->ids.find(token);
  if (found == tables_->ids.end()) return {};
  return found->second;
}

bool Tokenizer::is_special(int64_t id) const { return tables_->has(id) && tables_->special[static_cast<size_t>(id)]; }

std::vector<std::pair<std::string, std::string>> Tokenizer::merges() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [a, b] : tables_->merge_list) out.emplace_back(tables_->names[a], tables_->names[b]);
  return out;
}

}  // namespace weft::data
