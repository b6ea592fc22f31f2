// Scans besides sums: products, extremes with their indices, and sums of exponentials.
#pragma once

#include "reduce.hpp"

namespace weft::portable {

// Each defines how a run of elements starts, takes one more and joins the previous run. They are plain structs without
// initialisers, because they are also in shared memory.

template <class C>
struct RunningProduct {
  C value;
  static WEFT_DEVICE RunningProduct none() {
    RunningProduct p;
    p.value = 1;
    return p;
  }
  static WEFT_DEVICE RunningProduct combine(RunningProduct before, RunningProduct after) {
    after.value = Times::combine(before.value, after.value);
    return after;
  }
  WEFT_DEVICE void add(C x, int64_t, const Running&) { value = Times::combine(value, x); }
  WEFT_DEVICE C result() const { return value; }
  WEFT_DEVICE void put_place(Out) const {}
};

/// A place of -1 is none. The last of equal ones counts, and NaN wins.
template <class C>
struct RunningExtreme {
  C value;
  int64_t place;
  bool largest;
  static WEFT_DEVICE RunningExtreme none() {
    RunningExtreme e;
    e.value = 0;
    e.place = -1;
    e.largest = false;
    return e;
  }
  static WEFT_DEVICE RunningExtreme combine(RunningExtreme before, RunningExtreme after) {
    return before.place < 0 || (after.place >= 0 && before.gives_way_to(after.value, after.largest)) ? after : before;
  }
  WEFT_DEVICE bool gives_way_to(C x, bool to_larger) const { return x != x || (to_larger ? x >= value : x <= value); }
  WEFT_DEVICE void add(C x, int64_t i, const Running& plan) {
    largest = plan.largest != 0;
    if (place >= 0 && !gives_way_to(x, largest)) return;
    value = x;
    place = i;
  }
  WEFT_DEVICE C result() const { return value; }
  WEFT_DEVICE void put_place(Out to) const { poke<int64_t>(to, place); }
};

#if !defined(WEFT_WHOLE) || defined(__CUDACC__)
/// log(sum of exp) as the largest so far, and the sum relative to it with its rounding error.
template <class C>
struct RunningLogSum {
  C most, sum, lost;
  static WEFT_DEVICE RunningLogSum none() {
    RunningLogSum s;
    s.most = Limits<C>::lowest();
    s.sum = s.lost = 0;
    return s;
  }
  static WEFT_DEVICE RunningLogSum combine(RunningLogSum before, RunningLogSum after) {
    if (before.is_empty()) return after;
    before.join(after.most, after.sum);
    before.lost += after.lost * (before.most == after.most ? (C)1 : exp(after.most - before.most));
    return before;
  }
  WEFT_DEVICE bool is_empty() const { return most == Limits<C>::lowest() && sum == 0; }
  /// Adds `more` times exp(x).
  WEFT_DEVICE void join(C x, C more) {
    if (x > most) {
      const C factor = exp(most - x);
      sum *= factor;
      lost *= factor;
      most = x;
    } else if (x != most) {
      more *= exp(x - most);
    }
    RunningSum<C> total;
    total.sum = sum;
    total.lost = lost;
    total.add(more);
    sum = total.sum;
    lost = total.lost;
  }
  WEFT_DEVICE void add(C x, int64_t, const Running&) { join(x, 1); }
  WEFT_DEVICE C result() const {
    const C all = sum + lost;
    const bool endless = most == Limits<C>::lowest() || most == Limits<C>::highest();
    return endless && all == all ? most : most + log(all);
  }
  WEFT_DEVICE void put_place(Out) const {}
};
#endif

/// Each lane goes through its part of the line, then once more from the run of the parts before.
template <class C, class Run>
WEFT_DEVICE void running_team(Out out, Out places, In x, const Running& plan, WEFT_LOCAL Run* shared) {
  const Team team = team_here(plan.by_columns);
  const bool active = team.number < plan.rows.walk.count;
  const LanePart part = lane_part(team, active ? plan.rows.length : 0);
  int64_t offset[3];
  offsets_at(plan.rows.walk, active ? team.number : 0, offset);
  const In from = x + offset[1];
  Run own = Run::none();
  for (int64_t i = part.begin; team.lanes > 1 && i < part.end; ++i) {
    own.add(Memory<C>::load(from + i * plan.rows.step[1], plan.rows.dtype[1]), i, plan);
  }
  Run run = combine_before<Run>(team, shared, own, Run::none());
  for (int64_t i = part.begin; i < part.end; ++i) {
    run.add(Memory<C>::load(from + i * plan.rows.step[1], plan.rows.dtype[1]), i, plan);
    Memory<C>::store(out + offset[0] + i * plan.rows.step[0], plan.rows.dtype[0], run.result());
    run.put_place(places + offset[2] + i * plan.rows.step[2]);
  }
}

}  // namespace weft::portable
