// Reductions, the index of an extreme, variance, running sums, and sums by index: bodies.
#pragma once

#include "sort.hpp"
#include "team.hpp"

namespace weft::portable {

// How each reduction starts, takes an element, joins two lanes and ends.
struct SumFold : Plus {
  template <class C>
  struct State : RunningSum<C> {};
};
struct ProdFold : Times {
  template <class C>
  struct State {
    C x = 1;
    WEFT_DEVICE void begin(C first) { x = first; }
    WEFT_DEVICE void add(C next) { x = Times::combine(x, next); }
    WEFT_DEVICE C value() const { return x; }
  };
};
struct MaxFold : Larger {
  template <class C>
  struct State {
    C x = Limits<C>::lowest();
    WEFT_DEVICE void begin(C first) { x = first; }
    WEFT_DEVICE void add(C next) { x = Larger::combine(x, next); }
    WEFT_DEVICE C value() const { return x; }
  };
};
struct MinFold : Smaller {
  template <class C>
  struct State {
    C x = Limits<C>::highest();
    WEFT_DEVICE void begin(C first) { x = first; }
    WEFT_DEVICE void add(C next) { x = Smaller::combine(x, next); }
    WEFT_DEVICE C value() const { return x; }
  };
};
struct AnyFold : Larger {
  template <class C>
  struct State {
    C x = 0;
    WEFT_DEVICE void add(C next) { x = next != 0 ? 1 : x; }
    WEFT_DEVICE C value() const { return x; }
  };
};
struct AllFold : Smaller {
  template <class C>
  struct State {
    C x = 1;
    WEFT_DEVICE void add(C next) { x = next != 0 ? x : 0; }
    WEFT_DEVICE C value() const { return x; }
  };
};

// Columns: name in kernels, fold. A mean is a sum with a divisor.
#define WEFT_REDUCTIONS(X) \
  X(sum, SumFold) X(prod, ProdFold) X(max, MaxFold) X(min, MinFold) X(any, AnyFold) X(all, AllFold)

/// The part of one output that a team reduces.
struct Span {
  int64_t begin, end, out, in;
};
WEFT_DEVICE Span span_of(const Reduce& plan, int64_t number) {
  Span span;
  span.begin = span.end = span.out = span.in = 0;
  if (number >= plan.kept.count * plan.pieces) return span;
  const int64_t output = plan.pieces == 1 ? number : number / plan.pieces;
  int64_t offset[2];
  offsets_at(plan.kept, output, offset);
  span.out = offset[0];
  span.in = offset[1];
  span.begin = (number - output * plan.pieces) * plan.piece;
  span.end = span.begin + plan.piece < plan.reduced.count ? span.begin + plan.piece : plan.reduced.count;
  return span;
}

template <class C, class F>
WEFT_DEVICE C each_element(In in, const Reduce& plan, const Span& span, const Team& team, F& take) {
  for (int64_t i = span.begin + team.lane; i < span.end; i += team.lanes) {
    int64_t offset[1];
    offsets_at(plan.reduced, i, offset);
    take.add(Memory<C>::load(in + span.in + offset[0], plan.from));
  }
  return take.value();
}

template <class C>
WEFT_DEVICE void put_reduced(Out out, const Reduce& plan, const Span& span, const Team& team, C value) {
  if (team.lane != 0 || team.number >= plan.kept.count * plan.pieces) return;
  if (plan.pieces > 1) ((WEFT_GLOBAL C*)out)[team.number] = value;
  else Memory<C>::store(out + span.out, plan.to, value);
}

template <class C, class Fold>
WEFT_DEVICE void reduce_team(Out out, In in, const Reduce& plan, WEFT_LOCAL C* shared) {
  const Team team = team_here(plan.by_columns);
  const Span span = span_of(plan, team.number);
  typename Fold::template State<C> state;
  C value = combine_team<Fold>(team, shared, each_element<C>(in, plan, span, team, state));
  if (plan.divisor >= 0) value = value / (C)plan.divisor;
  put_reduced(out, plan, span, team, value);
}

// Powers of two by which deviations of elements up to `peak` are multiplied, so that sums of their squares are in
// range.
WEFT_DEVICE float deviation_scale(float peak) { return peak > 0x1p47f ? 0x1p-82f : peak < 0x1p-36f ? 0x1p83f : 1; }
#if defined(WEFT_HAS_DOUBLE) || defined(__CUDACC__)
WEFT_DEVICE double deviation_scale(double peak) { return peak > 0x1p450 ? 0x1p-600 : peak < 0x1p-450 ? 0x1p600 : 1; }
#endif

/// The largest power of two that is no larger than 1 / count.
template <class C>
WEFT_DEVICE C share_of_sum(C count) {
  C share = 1;
  while (share * count > 1) share /= 2;
  return share;
}

template <class C>
struct ScaledSum {
  C scale, peak = 0;
  RunningSum<C> sum;
  WEFT_DEVICE void add(C x) {
    sum.add(x * scale);
    peak = Larger::combine(peak, x < 0 ? -x : x);
  }
  WEFT_DEVICE C value() const { return sum.value(); }
};

template <class C>
struct SquaredDeviation {
  C center, scale;
  RunningSum<C> sum;
  WEFT_DEVICE void add(C x) {
    const C deviation = (x - center) * scale;
    sum.add(deviation * deviation);
  }
  WEFT_DEVICE C value() const { return sum.value(); }
};

template <class C>
WEFT_DEVICE void variance_team(Out out, In in, const Reduce& plan, WEFT_LOCAL C* shared) {
  const Team team = team_here(plan.by_columns);
  const Span span = span_of(plan, team.number);
  const C count = (C)plan.reduced.count;
  ScaledSum<C> sum;
  sum.scale = share_of_sum(count);
  const C all = combine_team<Plus>(team, shared, each_element<C>(in, plan, span, team, sum));
  SquaredDeviation<C> squares;
  squares.center = all / (count * sum.scale);
  squares.scale = deviation_scale(combine_team<Larger>(team, shared, sum.peak));
  const C total = combine_team<Plus>(team, shared, each_element<C>(in, plan, span, team, squares));
  const C divisor = count - (C)plan.correction;
  put_reduced(out, plan, span, team, total / (divisor > 0 ? divisor : 0) / squares.scale / squares.scale);
}

/// The better of two (value, index); the lower index where they tie. An index of -1 is none.
template <class C>
WEFT_DEVICE bool beats(C x, int64_t i, C best, int64_t best_index, bool largest) {
  if (i < 0) return false;
  if (best_index < 0) return true;
  const bool nan = x != x, best_nan = best != best;
  if (nan || best_nan) return nan && (!best_nan || i < best_index);
  if (x == best) return i < best_index;
  return largest ? x > best : x < best;
}

template <class C>
WEFT_DEVICE void arg_reduce_team(Out out, In in, const ArgReduce& plan, WEFT_LOCAL C* values,
                                 WEFT_LOCAL int64_t* indices) {
  const Team team = team_here(false);
  const bool largest = plan.largest != 0, active = team.number < plan.rows.walk.count;
  int64_t offset[2];
  offsets_at(plan.rows.walk, active ? team.number : 0, offset);
  C best = 0;
  int64_t index = -1;
  for (int64_t i = team.lane; active && i < plan.rows.length; i += team.lanes) {
    const C x = Memory<C>::load(in + offset[1] + i * plan.rows.step[1], plan.rows.dtype[1]);
    if (!beats(x, i, best, index, largest)) continue;
    best = x;
    index = i;
  }
  const int own = team.first + team.lane;
  values[own] = best;
  indices[own] = index;
  weft_barrier();
  for (int below = team.lanes / 2; below > 0; below /= 2) {
    if (team.lane < below && beats(values[own + below], indices[own + below], values[own], indices[own], largest)) {
      values[own] = values[own + below];
      indices[own] = indices[own + below];
    }
    weft_barrier();
  }
  if (active && team.lane == 0) poke<int64_t>(out + offset[0], indices[own]);
}

/// Each lane sums its part of the line, then goes through it once more, from the sum of the parts before.
template <class C>
WEFT_DEVICE void scan_team(Out out, In in, const Scan& plan, WEFT_LOCAL C* shared) {
  const Team team = team_here(plan.by_columns);
  const bool active = team.number < plan.rows.walk.count;
  const LanePart part = lane_part(team, active ? plan.rows.length : 0);
  int64_t offset[2];
  offsets_at(plan.rows.walk, active ? team.number : 0, offset);
  const int64_t last = plan.reverse ? plan.rows.length - 1 : 0, sign = plan.reverse ? -1 : 1;
  const In from = in + offset[1] + last * plan.rows.step[1];
  const Out to = out + offset[0] + last * plan.rows.step[0];
  const int64_t from_step = sign * plan.rows.step[1], to_step = sign * plan.rows.step[0];
  RunningSum<C> sum;
  for (int64_t i = part.begin; team.lanes > 1 && i < part.end; ++i) {
    sum.add(Memory<C>::load(from + i * from_step, plan.rows.dtype[1]));
  }
  const C start = combine_before<Plus>(team, shared, sum.value(), (C)0);
  sum = RunningSum<C>();
  if (team.lane > 0) sum.add(start);
  for (int64_t i = part.begin; i < part.end; ++i) {
    const C x = Memory<C>::load(from + i * from_step, plan.rows.dtype[1]), before = sum.value();
    sum.add(x);
    Memory<C>::store(to + i * to_step, plan.rows.dtype[0], plan.exclusive ? before : sum.value());
  }
}

/// The positions of one destination are adjacent and in order (index.hpp). The work-item at the first of them combines
/// all of their values with the present one, and rounds once.
template <class C, class Fold>
WEFT_DEVICE void put_combined_item(Out base, In values, In keys, In order, const Put& plan, int64_t i) {
  if (i >= plan.positions.count * plan.slab.count) return;
  int64_t place = i / plan.slab.count, offset[1], slab[2];
  const uint64_t key = key_at(keys, place);
  if (key == no_destination || (place > 0 && key_at(keys, place - 1) == key)) return;
  offsets_at(plan.slab, i - place * plan.slab.count, slab);
  const Out to = base + destination_of(key) + slab[0];
  typename Fold::template State<C> state;
  state.begin(Memory<C>::load(to, plan.dtype));
  for (; place < plan.positions.count && key_at(keys, place) == key; ++place) {
    offsets_at(plan.positions, peek<int64_t>(order + place * 8), offset);
    state.add(Memory<C>::load(values + offset[0] + slab[1], plan.dtype));
  }
  Memory<C>::store(to, plan.dtype, state.value());
}

// Columns: name in kernels, fold.
#define WEFT_COMBINATIONS(X) X(sum, SumFold) X(prod, ProdFold) X(max, MaxFold) X(min, MinFold)

}  // namespace weft::portable
