// Byte-pair merges, and their application to words. Internal to data/.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::data {

inline constexpr uint32_t no_token = UINT32_MAX;

/// The token that replaces a pair, and its rank; the lowest rank is merged first.
struct Merge {
  uint32_t rank = no_token, token = no_token;
};

/// Hash table from pairs of tokens to merges: open addressing, at most half full.
class PairTable {
 public:
  explicit PairTable(size_t pairs = 0) : slots_(std::bit_ceil(2 * pairs + 2)) {}
  Merge find(uint32_t a, uint32_t b) const {
    const uint64_t key = key_of(a, b);
    for (size_t i = place(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == empty) return {};
    }
  }
  /// At most as many pairs as the constructor's argument; the last merge of a pair wins.
  void set(uint32_t a, uint32_t b, Merge merge) {
    const uint64_t key = key_of(a, b);
    size_t i = place(key);
    while (slots_[i].key != key && slots_[i].key != empty) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {key, merge};
  }

 private:
  static constexpr uint64_t empty = UINT64_MAX;
  struct Slot {
    uint64_t key = empty;
    Merge merge;
  };
  static uint64_t key_of(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }
  size_t place(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    return (key ^ key >> 32) & (slots_.size() - 1);
  }
  std::vector<Slot> slots_;
};

/// Merges the tokens of a word in place, the leftmost of equal rank first; returns the number of remaining tokens.
size_t merge_tokens(const PairTable& merges, std::span<uint32_t> tokens);

}  // namespace weft::data
