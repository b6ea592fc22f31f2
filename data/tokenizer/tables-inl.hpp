// What a tokenizer knows. Internal to data/.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bpe-inl.hpp"
#include "normalizer-inl.hpp"
#include "pieces-inl.hpp"
#include "../tokenizer.hpp"

namespace weft::data {

/// A token that is found in the text before words are.
struct AddedToken {
  /// As it is looked for: normalized where texts are.
  std::string text;
  uint32_t id = 0;
  bool special = false;
  /// Takes the white space before it, or behind it, along.
  bool strips_left = false, strips_right = false;
  /// Stands in no word: no letter or the like is before it or behind it.
  bool single_word = false;
};

/// Added tokens, to be found at a place of a text: of several that begin there the longest.
class AddedTokens {
 public:
  void add(AddedToken token);
  const std::vector<AddedToken>& all() const { return all_; }
  /// The first place from `begin` on where one begins, which `found` is then; null where there is none.
  size_t find(std::string_view text, size_t begin, const AddedToken*& found) const;

 private:
  std::vector<AddedToken> all_;
  /// By the first byte, longest first.
  std::array<std::vector<uint32_t>, 256> by_byte_;
};

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

struct Tokenizer::Tables {
  std::vector<Normalizer> normalizers;
  PreTokenizer pre_tokenizer;
  /// Parts of the file as they were read, which are written as they are.
  io::JsonTree normalizer_json, pre_tokenizer_json, post_processor_json, decoder_json,
      added_json = io::JsonTree::list();
  /// A word that is a token as a whole is that token.
  bool ignore_merges = false;
  /// By id: as files write it, and its bytes. `there` is false where an id has no token; added tokens need not be in
  /// the model.
  std::vector<std::string> names, bytes;
  std::vector<bool> there, special, in_model;
  std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>> ids;
  std::array<uint32_t, 256> byte_tokens;
  PairTable merges;
  std::vector<std::pair<uint32_t, uint32_t>> merge_list;
  /// Those that are found in the text as it is, and then those that are in what normalizers made of the rest.
  AddedTokens added, added_normalized;
  /// Bytes of added tokens that normalizers change: they are what such a token is decoded as.
  std::unordered_map<uint32_t, std::string> changed;
  /// What the template puts before and behind a text.
  std::vector<uint32_t> before, behind;

  Tables() { byte_tokens.fill(no_token); }
  bool has(int64_t id) const { return id >= 0 && id < std::ssize(there) && there[static_cast<size_t>(id)]; }
  /// The id must be free, and less than 2^31. The first token of a name keeps it.
  void add_token(uint32_t id, std::string name, bool of_model);
  void add_special(const std::string& name, uint32_t id);
  /// Of words of this pattern alone, in memory and in files.
  void set_words(WordPattern pattern, bool add_prefix_space);
  Aligned normalized(std::string_view text, int64_t at, bool with_origin, Location where) const;
  void index_merges(const std::vector<uint32_t>& results);
};

struct TokenizerBuilder {
  static Tokenizer make(Tokenizer::Tables&& tables);
  static const Tokenizer::Tables& tables(const Tokenizer& tokenizer) { return *tokenizer.tables_; }
};

/// The character that stands for a byte in files, in UTF-8 (GPT-2's table).
const std::string& name_of_byte(uint8_t byte);
/// All bytes in the order of their characters.
std::array<uint8_t, 256> bytes_by_name();
std::string name_of_bytes(std::string_view bytes);
/// The bytes of a name; the name itself where it has other characters.
std::string bytes_of_name(std::string_view name);

}  // namespace weft::data
