// Reductions, the index of an extreme, variance, running sums, and sums by index: bodies.
#pragma once

#include <weft/backends/portable/team.hpp>

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
    WEFT_DEVICE void add(C next) { x = Times::combine(x, next); }
    WEFT_DEVICE C value() const { return x; }
  };
};
struct MaxFold : Larger {
  template <class C>
  struct State {
    C x = Limits<C>::lowest();
    WEFT_DEVICE void add(C next) { x = Larger::combine(x, next); }
    WEFT_DEVICE C value() const { return x; }
  };
};
struct MinFold : Smaller {
  template <class C>
  struct State {
    C x = Limits<C>::highest();
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
WEFT_DEVICE C each_element(In in, const Reduce& plan, const Span& span, const Team& team, F take) {
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

template <class C>
struct SquaredDeviation {
  C center;
  RunningSum<C> sum;
  WEFT_DEVICE void add(C x) { sum.add((x - center) * (x - center)); }
  WEFT_DEVICE C value() const { return sum.value(); }
};

template <class C>
WEFT_DEVICE void variance_team(Out out, In in, const Reduce& plan, WEFT_LOCAL C* shared) {
  const Team team = team_here(plan.by_columns);
  const Span span = span_of(plan, team.number);
  const C count = (C)plan.reduced.count;
  RunningSum<C> sum;
  const C mean = combine_team<Plus>(team, shared, each_element<C>(in, plan, span, team, sum)) / count;
  SquaredDeviation<C> squares;
  squares.center = mean;
  const C total = combine_team<Plus>(team, shared, each_element<C>(in, plan, span, team, squares));
  const C divisor = count - (C)plan.correction;
  put_reduced(out, plan, span, team, total / (divisor > 0 ? divisor : 0));
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

/// One work-item walks one line.
template <class C>
WEFT_DEVICE void scan_item(Out out, In in, const Scan& plan, int64_t line) {
  if (line >= plan.rows.walk.count) return;
  int64_t offset[2];
  offsets_at(plan.rows.walk, line, offset);
  RunningSum<C> sum;
  for (int64_t n = 0; n < plan.rows.length; ++n) {
    const int64_t i = plan.reverse ? plan.rows.length - 1 - n : n;
    const C x = Memory<C>::load(in + offset[1] + i * plan.rows.step[1], plan.rows.dtype[1]);
    const C before = sum.value();
    sum.add(x);
    Memory<C>::store(out + offset[0] + i * plan.rows.step[0], plan.rows.dtype[0],
                     plan.exclusive ? before : sum.value());
  }
}

/// One work-item owns a part of one column's destinations, so that each gets its terms in order.
template <class C>
WEFT_DEVICE void scatter_add_item(Out out, In source, In index, WEFT_GLOBAL BadIndex* bad, const ScatterAdd& plan,
                                  int64_t number) {
  if (number >= plan.columns.count * plan.parts) return;
  const int64_t column = number % plan.columns.count, part = number / plan.columns.count;
  const int64_t part_size = (plan.size + plan.parts - 1) / plan.parts;
  const int64_t first = part * part_size, end = first + part_size;
  int64_t offset[3];
  offsets_at(plan.columns, column, offset);
  for (int64_t j = 0; j < plan.count; ++j) {
    const int64_t given = load_whole(index + offset[2] + j * plan.step[2], plan.index_dtype);
    const int64_t to = checked_index(given, plan.size, plan.check, bad);
    if (to < first || to >= end) continue;
    const Out place = out + offset[0] + to * plan.step[0];
    const C term = Memory<C>::load(source + offset[1] + j * plan.step[1], plan.source_dtype);
    Memory<C>::store(place, plan.dtype, Plus::combine(Memory<C>::load(place, plan.dtype), term));
  }
}

}  // namespace weft::portable
