// Copies the elements of one index.
#pragma once

#include <cstring>

#include "combine.hpp"
#include "../lines.hpp"
#include "../pointwise/loops.hpp"

namespace weft::cpu {

/// Copies `size` bytes; short runs by two moves that may overlap.
inline void copy_run(char* to, const char* from, int64_t size) {
  const auto both = [&]<class Block>(Block first) {
    Block last;
    memcpy(&first, from, sizeof(Block));
    memcpy(&last, from + size - sizeof(Block), sizeof(Block));
    memcpy(to, &first, sizeof(Block));
    memcpy(to + size - sizeof(Block), &last, sizeof(Block));
  };
  struct Block16 {
    uint64_t word[2];
  };
  struct Block32 {
    uint64_t word[4];
  };
  if (size > 64 || size < 8) copy_bytes(to, from, size);
  else if (size > 32) both(Block32{});
  else if (size > 16) both(Block16{});
  else both(uint64_t{});
}

/// Operand 0 of `walk` is written, operand 1 is read.
class SlabCopy {
 public:
  SlabCopy(const Walk<2>& walk, int64_t item) : walk_(walk), item_(item), length_(walk_.pop(step_)) {
    if (length_ == 1) step_[0] = step_[1] = item;
    contiguous_ = step_[0] == item && step_[1] == item;
  }
  /// The slab's bytes where it is one contiguous run, else -1.
  int64_t run() const { return contiguous_ && walk_.count == 1 ? length_ * item_ : -1; }
  int64_t elements() const { return walk_.count * length_; }
  void operator()(char* out, const char* x) const {
    Cursor<2> at(walk_, 0);
    for (int64_t i = 0; i < walk_.count; ++i, at.next()) {
      char* to = out + at.offset[0];
      const char* from = x + at.offset[1];
      if (contiguous_) {
        copy_run(to, from, length_ * item_);
        continue;
      }
      with_item(item_, [&](auto word) {
        using Word = decltype(word);
        for (int64_t j = 0; j < length_; ++j) {
          *reinterpret_cast<Word*>(to + j * step_[0]) = *reinterpret_cast<const Word*>(from + j * step_[1]);
        }
      });
    }
  }

 private:
  Walk<2> walk_;
  int64_t item_, step_[2], length_;
  bool contiguous_;
};

}  // namespace weft::cpu
