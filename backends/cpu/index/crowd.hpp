// Whether elements get many of the terms of a sum by index, which are then added in a wider type.
//
// If destinations are few, all sums are in double and rounded once; if some of many are frequent, only theirs are
// (`HotSums`). The choice depends on the indices alone, so results do not depend on the number of threads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::cpu {

/// So many terms may be added to an element one by one in its own type.
inline constexpr int64_t few_terms = 256;

/// One term of each 64, at a place that a hash chooses, is counted by a hash of its destination. A destination of more
/// than two thousand terms is found, but for a chance below 1e-7; one of two hundred seldom is.
class CrowdSample {
 public:
  explicit CrowdSample(int64_t terms) {
    const int bits = std::bit_width(static_cast<uint64_t>(terms) / group) + 2;
    shift_ = 64 - bits;
    counts_.resize(std::size_t{1} << bits);
  }
  /// The next term to count, in ascending order.
  int64_t next() const { return next_; }
  void count(int64_t destination) {
    ++number_;
    next_ = number_ * group + static_cast<int64_t>(hash(static_cast<uint64_t>(number_)) >> 58);
    uint8_t& counted = counts_[hash(static_cast<uint64_t>(destination)) >> shift_];
    counted = static_cast<uint8_t>(counted + (counted < most));
    is_crowded_ |= counted == most;
  }
  /// Whether some destination gets many.
  bool is_crowded() const { return is_crowded_; }
  /// Whether this one may.
  bool is_hot(int64_t destination) const { return counts_[hash(static_cast<uint64_t>(destination)) >> shift_] >= hot; }
  static uint64_t hash(uint64_t x) { return x * 0x9e3779b97f4a7c15u; }

 private:
  static constexpr int64_t group = 64;
  static constexpr uint8_t most = 8, hot = 3;

  std::vector<uint8_t> counts_;
  int64_t number_ = 0, next_ = 0;
  int shift_;
  bool is_crowded_ = false;
};

}  // namespace weft::cpu
