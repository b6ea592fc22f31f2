// Teams of work-items that share one row, and their collective operations.
#pragma once

#include "device.hpp"

namespace weft::portable {

/// One of a work-group's teams. Its lanes are neighbours along x; `by_columns`, along y.
struct Team {
  int lane, lanes;
  int64_t number;   ///< of the team, in the whole launch
  int first, step;  ///< its places in the group's shared memory
};

WEFT_DEVICE Team team_here(bool by_columns) {
  const int x = weft_local(0), y = weft_local(1), width = weft_local_size(0), height = weft_local_size(1);
  Team team;
  team.lane = by_columns ? y : x;
  team.lanes = by_columns ? height : width;
  team.number = by_columns ? weft_group(0) * width + x : weft_group(0) * height + y;
  team.first = by_columns ? x : y * width;
  team.step = by_columns ? width : 1;
  return team;
}

/// Combines every lane's value by a tree; every lane gets the result. All teams of a group call it together.
template <class Op, class C>
WEFT_DEVICE C combine_team(const Team& team, WEFT_LOCAL C* shared, C value) {
  if (team.lanes == 1) return value;
  const int own = team.first + team.lane * team.step;
  shared[own] = value;
  weft_barrier();
  for (int half_lanes = team.lanes / 2; half_lanes > 0; half_lanes /= 2) {
    if (team.lane < half_lanes) shared[own] = Op::combine(shared[own], shared[own + half_lanes * team.step]);
    weft_barrier();
  }
  const C all = shared[team.first];
  weft_barrier();
  return all;
}

/// Combines the values of the lanes before this one, none for the first. All teams of a group call it together.
template <class Op, class C>
WEFT_DEVICE C combine_before(const Team& team, WEFT_LOCAL C* shared, C value, C none) {
  if (team.lanes == 1) return none;
  const int own = team.first + team.lane * team.step;
  shared[own] = value;
  weft_barrier();
  for (int distance = 1; distance < team.lanes; distance *= 2) {
    const bool has_left = team.lane >= distance;
    C left = none;
    if (has_left) left = shared[own - distance * team.step];
    weft_barrier();
    if (has_left) shared[own] = Op::combine(left, shared[own]);
    weft_barrier();
  }
  C before = none;
  if (team.lane != 0) before = shared[own - team.step];
  weft_barrier();
  return before;
}

/// The part of [0, count) that this lane goes through where each has neighbouring elements.
struct LanePart {
  int64_t begin, end;
};
WEFT_DEVICE LanePart lane_part(const Team& team, int64_t count) {
  const int64_t size = (count + team.lanes - 1) / team.lanes;
  LanePart part;
  part.begin = team.lane * size < count ? team.lane * size : count;
  part.end = part.begin + size < count ? part.begin + size : count;
  return part;
}

// ---- combined values
// -------------------------------------------------------------------------------------------------

template <class C>
struct Limits;
template <>
struct Limits<float> {
  static WEFT_DEVICE float lowest() { return float_from_bits(0xff800000u); }
  static WEFT_DEVICE float highest() { return float_from_bits(0x7f800000u); }
};
template <>
struct Limits<int64_t> {
  static WEFT_DEVICE int64_t lowest() { return (int64_t)((uint64_t)1 << 63); }
  static WEFT_DEVICE int64_t highest() { return (int64_t)(~(uint64_t)0 >> 1); }
};
template <>
struct Limits<uint64_t> {
  static WEFT_DEVICE uint64_t lowest() { return 0; }
  static WEFT_DEVICE uint64_t highest() { return ~(uint64_t)0; }
};
#if defined(WEFT_HAS_DOUBLE) || defined(__CUDACC__)
template <>
struct Limits<double> {
  static WEFT_DEVICE double lowest() { return (double)Limits<float>::lowest(); }
  static WEFT_DEVICE double highest() { return (double)Limits<float>::highest(); }
};
#endif

struct Plus {
  template <class C>
  static WEFT_DEVICE C combine(C a, C b) {
    return a + b;
  }
  static WEFT_DEVICE int64_t combine(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
};
struct Times {
  template <class C>
  static WEFT_DEVICE C combine(C a, C b) {
    return a * b;
  }
  static WEFT_DEVICE int64_t combine(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
};
struct Larger {  // NaN wins
  template <class C>
  static WEFT_DEVICE C combine(C a, C b) {
    return b > a || b != b ? b : a;
  }
};
struct Smaller {
  template <class C>
  static WEFT_DEVICE C combine(C a, C b) {
    return b < a || b != b ? b : a;
  }
};

/// A running sum. Floats carry their rounding error (Neumaier), because a device may lack doubles.
template <class C>
struct RunningSum {
  C sum = 0, lost = 0;
  WEFT_DEVICE void begin(C first) { sum = first; }
  WEFT_DEVICE void add(C x) {
    const C next = sum + x;
    const C larger_first = (sum - next) + x, smaller_first = (x - next) + sum;
    const bool keeps = (sum < 0 ? -sum : sum) >= (x < 0 ? -x : x);
    const C error = keeps ? larger_first : smaller_first;
    lost += error - error == 0 ? error : 0;  // none where infinities met
    sum = next;
  }
  WEFT_DEVICE C value() const { return sum + lost; }
};
template <>
struct RunningSum<int64_t> {
  uint64_t sum = 0;
  WEFT_DEVICE void begin(int64_t first) { sum = (uint64_t)first; }
  WEFT_DEVICE void add(int64_t x) { sum += (uint64_t)x; }
  WEFT_DEVICE int64_t value() const { return (int64_t)sum; }
};

}  // namespace weft::portable
