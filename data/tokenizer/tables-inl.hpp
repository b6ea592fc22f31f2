// The immutable tables of a tokenizer. Internal to data/.
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

/// A token that is searched in the text before it is split into words.
struct AddedToken {
  /// The text to search for; normalized if texts are.
  std::string text;
  uint32_t id = 0;
  bool special = false;
  /// Also matches the white space before it, or after it.
  bool strips_left = false, strips_right = false;
  /// Matches only if no word character is next to it.
  bool single_word = false;
};

/// Added tokens; the longest one that begins at a position wins.
class AddedTokens {
 public:
  void add(AddedToken token);
  const std::vector<AddedToken>& all() const { return all_; }
  /// Returns the first position at or after `begin` where a token begins; `found` is set to it, or to null if there is
  /// none.
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
  /// Sections of the file that are written back unchanged.
  io::JsonTree normalizer_json, pre_tokenizer_json, post_processor_json, decoder_json,
      added_json = io::JsonTree::list();
  /// A word that equals a token is encoded as that token, without merges.
  bool ignore_merges = false;
  /// By id: the name in files, and the bytes. `is_used` is false for an id without a token; added tokens need not be in
  /// the model.
  std::vector<std::string> names, bytes;
  std::vector<bool> is_used, special, in_model;
  std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>> ids;
  std::array<uint32_t, 256> byte_tokens;
  PairTable merges;
  std::vector<std::pair<uint32_t, uint32_t>> merge_list;
  /// Tokens that are searched in the original text, and tokens that are then searched in the normalized rest.
  AddedTokens added, added_normalized;
  /// Decoded bytes of the added tokens that normalizers change.
  std::unordered_map<uint32_t, std::string> changed;
  /// Tokens that the template adds before and after a text.
  std::vector<uint32_t> before, behind;

  Tables() { byte_tokens.fill(no_token); }
  bool has(int64_t id) const { return id >= 0 && id < std::ssize(is_used) && is_used[static_cast<size_t>(id)]; }
  /// The id must be free and less than 2^31. If a name occurs twice, the first token keeps it.
  void add_token(uint32_t id, std::string name, bool of_model);
  void add_special(const std::string& name, uint32_t id);
  /// Sets this pattern as the only split, in memory and in files.
  void set_words(WordPattern pattern, bool add_prefix_space);
  Aligned normalized(std::string_view text, int64_t at, bool with_origin, Location where) const;
  void index_merges(const std::vector<uint32_t>& results);
};

struct TokenizerBuilder {
  static Tokenizer make(Tokenizer::Tables&& tables);
  static const Tokenizer::Tables& tables(const Tokenizer& tokenizer) { return *tokenizer.tables_; }
};

/// The character, in UTF-8, that represents a byte in files (GPT-2's table).
const std::string& name_of_byte(uint8_t byte);
/// All bytes in the order of their characters.
std::array<uint8_t, 256> bytes_by_name();
std::string name_of_bytes(std::string_view bytes);
/// Returns the bytes of a name; the name itself if it contains other characters.
std::string bytes_of_name(std::string_view name);

}  // namespace weft::data
