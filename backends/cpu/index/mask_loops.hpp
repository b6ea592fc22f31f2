// Loops over the bits of a mask, 64 elements to a word, the first element in the lowest bit.
#pragma once

#include <cstdint>

#include "../../../tensor/view.hpp"
#include "../item.hpp"

namespace weft::cpu {

/// Bits beyond n elements are 0 in every list of words; `words` may be any number of them.
struct MaskLoops {
  /// One bit for each of n bytes: whether it is not 0.
  void (*bits)(uint64_t* words, const uint8_t* from, int64_t n);
  /// Copies the items with a set bit to `to`; returns the end of the output. Writes nothing at or beyond `room`, which
  /// may be after that end.
  char* (*compress[item_sizes])(char* to, const char* room, const char* from, const uint64_t* words, int64_t n);
  /// Copies successive items from `from` to the positions with a set bit; returns the end of the input, bounded by
  /// `room`. Other positions may be rewritten with their own values.
  const char* (*expand[item_sizes])(char* to, const char* from, const char* room, const uint64_t* words, int64_t n);
  /// Writes first + i for every set bit i; returns the end of the output, bounded by `room`.
  int64_t* (*positions)(int64_t* to, const int64_t* room, int64_t first, const uint64_t* words, int64_t n);
};

/// The loops of the best SIMD target.
const MaskLoops& mask_loops();

/// The truth of every element of a view in row-major order, and the number of true ones before each chunk.
class MaskBits {
 public:
  /// Elements of a chunk: a multiple of 64.
  static constexpr int64_t chunk = 16384;

  explicit MaskBits(const View& mask);
  ~MaskBits();
  MaskBits(const MaskBits&) = delete;

  int64_t numel() const { return numel_; }
  /// The words from a position on that is a multiple of 64.
  const uint64_t* words(int64_t position) const { return words_ + position / 64; }
  /// Up to 64 elements from any position on, in the low bits.
  uint64_t bits(int64_t position, int64_t n) const;
  /// The number of true elements before each chunk; the last entry is their total.
  const int64_t* before() const { return before_; }
  int64_t count() const { return before_[(numel_ + chunk - 1) / chunk]; }

 private:
  static constexpr int64_t small = 1024;
  int64_t numel_;
  uint64_t* words_;
  int64_t* before_;
  uint64_t small_words_[small / 64];
  int64_t small_before_[2];
};

}  // namespace weft::cpu
