// Elements by their rank in a line, without sorting it: by the highest digits of the keys those are found that may have
// the rank, then by the next digits those among them, last by the digits of their positions: bodies.
#pragma once

#include "sort.hpp"
#include "team.hpp"

namespace weft::portable {

enum { digit_bits = 3, digit_count = 1 << digit_bits };
/// Of a group's lanes, one after the other for each digit.
enum { digit_lanes = 256, digit_room = digit_count * digit_lanes };

/// The highest digit of numbers up to `most`, by its lowest bit.
WEFT_DEVICE int highest_digit(uint64_t most) {
  int shift = 0;
  while (shift + digit_bits < 64 && most >> (shift + digit_bits) != 0) shift += digit_bits;
  return shift;
}

/// The elements that may have the rank: those that agree with these numbers in the digits of the masks.
struct Candidates {
  uint64_t key, key_mask, position, position_mask;
  WEFT_DEVICE bool have(uint64_t other_key, int64_t i) const {
    return ((other_key ^ key) & key_mask) == 0 && (((uint64_t)i ^ position) & position_mask) == 0;
  }
};

/// One line and the rank in it that a team looks for.
struct RankSearch {
  Team team;
  WEFT_LOCAL uint64_t* shared;
  In line;
  int64_t length, step;
  DType dtype;
  uint64_t lowest, rank;  ///< the rank among the candidates
  Candidates candidates;

  WEFT_DEVICE void wait() const {
    if (team.lanes > 1) weft_barrier();
  }
  WEFT_DEVICE uint64_t key(int64_t i) const { return element_key(line + i * step, dtype) - lowest; }

  /// Finds the lowest key, from which keys count from then on; returns the highest.
  WEFT_DEVICE uint64_t key_range() {
    lowest = 0;
    uint64_t least = ~(uint64_t)0, most = 0;
    for (int64_t i = team.lane; i < length; i += team.lanes) {
      const uint64_t k = key(i);
      least = k < least ? k : least;
      most = k > most ? k : most;
    }
    lowest = combine_team<Smaller>(team, shared, least);
    return combine_team<Larger>(team, shared, most) - lowest;
  }

  WEFT_DEVICE void count_digits(bool of_positions, int shift) {
    WEFT_LOCAL uint64_t* const own = shared + team.first + team.lane;
    for (int d = 0; d < digit_count; ++d) own[d * digit_lanes] = 0;
    for (int64_t i = team.lane; i < length; i += team.lanes) {
      const uint64_t k = key(i);
      if (candidates.have(k, i)) {
        own[(((of_positions ? (uint64_t)i : k) >> shift) & (digit_count - 1)) * digit_lanes] += 1;
      }
    }
    wait();
    for (int below = team.lanes / 2; below > 0; below /= 2) {
      for (int d = 0; team.lane < below && d < digit_count; ++d) own[d * digit_lanes] += own[d * digit_lanes + below];
      wait();
    }
  }

  /// Keeps the candidates with the digit that the element has; returns how many they are.
  WEFT_DEVICE uint64_t narrow(bool of_positions, int shift) {
    count_digits(of_positions, shift);
    const WEFT_LOCAL uint64_t* const counts = shared + team.first;
    uint64_t digit = 0;
    for (; digit + 1 < digit_count && rank >= counts[digit * digit_lanes]; ++digit) rank -= counts[digit * digit_lanes];
    const uint64_t left = counts[digit * digit_lanes];
    wait();
    (of_positions ? candidates.position : candidates.key) |= digit << shift;
    (of_positions ? candidates.position_mask : candidates.key_mask) |= (uint64_t)(digit_count - 1) << shift;
    return left;
  }

  /// Equal elements have their ranks in the order of their positions.
  WEFT_DEVICE void find() {
    uint64_t left = (uint64_t)length;
    for (int shift = highest_digit(key_range()); shift >= 0 && left > 1; shift -= digit_bits) {
      left = narrow(false, shift);
    }
    for (int shift = highest_digit((uint64_t)length - 1); shift >= 0 && left > 1; shift -= digit_bits) {
      left = narrow(true, shift);
    }
  }
};

/// A group of more than one lane a team has one team: each goes through its line as often as it must.
WEFT_DEVICE void select_rank_team(Out order, In x, In ranks, const SelectRank& plan, WEFT_LOCAL uint64_t* shared) {
  RankSearch search;
  search.team = team_here(false);
  if (search.team.number >= plan.lines.count) return;
  int64_t offset[3];
  offsets_at(plan.lines, search.team.number, offset);
  search.shared = shared;
  search.line = x + offset[2];
  search.length = plan.length;
  search.step = plan.step;
  search.dtype = plan.dtype;
  search.rank = peek<uint64_t>(ranks + offset[1]);
  search.candidates = {0, 0, 0, 0};
  search.find();
  for (int64_t i = search.team.lane; i < plan.length; i += search.team.lanes) {
    if (search.candidates.have(search.key(i), i)) poke<int64_t>(order + offset[0], i);
  }
}

}  // namespace weft::portable
