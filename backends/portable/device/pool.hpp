// Pooling: a work-item for each window, and for each element of the gradient of a mean.
#pragma once

#include "team.hpp"

namespace weft::portable {

/// A plane, and coordinates in it.
struct PlanePlace {
  int64_t plane, at[3];
};
WEFT_DEVICE PlanePlace plane_place(int64_t i, const int64_t (&sizes)[3]) {
  PlanePlace place;
  place.plane = take_apart(i, sizes, place.at);
  return place;
}

/// Coordinates of a window's elements along one dimension: those that exist are first, first + dilation and so on.
struct WindowLine {
  int64_t first, end;
};
WEFT_DEVICE WindowLine window_line(const Pooling& plan, int d, int64_t window) {
  const int64_t step = plan.dilation[d], begin = window * plan.stride[d] - plan.padding[d];
  const int64_t end = begin + plan.size[d] * step;
  WindowLine line;
  line.first = begin >= 0 ? begin : begin + quotient(-begin + step - 1, step) * step;
  line.end = end < plan.in[d] ? end : plan.in[d];
  return line;
}

/// Calls take(value, place in the plane) for each element of a window, in row-major order.
template <class C, class Take>
WEFT_DEVICE void each_in_window(In x, const Pooling& plan, const PlanePlace& window, Take& take) {
  const WindowLine z = window_line(plan, 0, window.at[0]), y = window_line(plan, 1, window.at[1]),
                   line = window_line(plan, 2, window.at[2]);
  for (int64_t i = z.first; i < z.end; i += plan.dilation[0]) {
    for (int64_t j = y.first; j < y.end; j += plan.dilation[1]) {
      const int64_t row = (i * plan.in[1] + j) * plan.in[2];
      for (int64_t k = line.first; k < line.end; k += plan.dilation[2]) {
        const int64_t place = row + k, element = window.plane * plan.in[0] * plan.in[1] * plan.in[2] + place;
        take.add(peek<C>(x + element * (int64_t)sizeof(C)), place);
      }
    }
  }
}

template <class C>
struct WindowMax {
  C best;
  int64_t place;
  WEFT_DEVICE void add(C x, int64_t at) {
    if (place >= 0 && !(x > best) && !(x != x && best == best)) return;
    best = x;
    place = at;
  }
};
template <class C>
struct WindowSum {
  RunningSum<C> sum;
  WEFT_DEVICE void add(C x, int64_t) { sum.add(x); }
};

template <class C>
WEFT_DEVICE void max_pool_item(Out out, Out index, In x, const Pooling& plan, int64_t i) {
  if (i >= plan.windows) return;
  WindowMax<C> largest;
  largest.best = 0;
  largest.place = -1;
  each_in_window<C>(x, plan, plane_place(i, plan.out), largest);
  poke<C>(out + i * (int64_t)sizeof(C), largest.best);
  if (plan.has_index) poke<int64_t>(index + i * 8, largest.place);
}

/// A window's divisor: the product of its shares, of which those of each dimension follow those of the one before.
template <class C>
WEFT_DEVICE C divisor_of(In shares, const Pooling& plan, int64_t z, int64_t y, int64_t x) {
  const int64_t item = sizeof(C);
  const In rows = shares + plan.out[0] * item, columns = rows + plan.out[1] * item;
  return peek<C>(shares + z * item) * peek<C>(rows + y * item) * peek<C>(columns + x * item);
}

template <class C>
WEFT_DEVICE void mean_pool_item(Out out, In x, In shares, const Pooling& plan, int64_t i) {
  if (i >= plan.windows) return;
  const PlanePlace window = plane_place(i, plan.out);
  WindowSum<C> total;
  each_in_window<C>(x, plan, window, total);
  poke<C>(out + i * (int64_t)sizeof(C),
          total.sum.value() / divisor_of<C>(shares, plan, window.at[0], window.at[1], window.at[2]));
}

/// The windows along one dimension that may have an element.
struct WindowRange {
  int64_t first, last;
};
WEFT_DEVICE WindowRange windows_around(const Pooling& plan, int d, int64_t element) {
  const int64_t at = element + plan.padding[d], reach = (plan.size[d] - 1) * plan.dilation[d];
  WindowRange range;
  range.first = at <= reach ? 0 : quotient(at - reach + plan.stride[d] - 1, plan.stride[d]);
  range.last = quotient(at, plan.stride[d]);
  if (range.last >= plan.out[d]) range.last = plan.out[d] - 1;
  return range;
}
WEFT_DEVICE bool has_element(const Pooling& plan, int d, int64_t window, int64_t element) {
  const int64_t distance = element + plan.padding[d] - window * plan.stride[d];
  return plan.dilation[d] == 1 || quotient(distance, plan.dilation[d]) * plan.dilation[d] == distance;
}

/// dx of a mean: each element adds up its windows' shares of g, in order.
template <class C>
WEFT_DEVICE void mean_pool_gradient_item(Out dx, In g, In shares, const Pooling& plan, int64_t i) {
  if (i >= plan.elements) return;
  const PlanePlace element = plane_place(i, plan.in);
  const WindowRange z = windows_around(plan, 0, element.at[0]), y = windows_around(plan, 1, element.at[1]),
                    x = windows_around(plan, 2, element.at[2]);
  RunningSum<C> sum;
  for (int64_t a = z.first; a <= z.last; ++a) {
    if (!has_element(plan, 0, a, element.at[0])) continue;
    for (int64_t b = y.first; b <= y.last; ++b) {
      if (!has_element(plan, 1, b, element.at[1])) continue;
      for (int64_t c = x.first; c <= x.last; ++c) {
        if (!has_element(plan, 2, c, element.at[2])) continue;
        const int64_t window = ((element.plane * plan.out[0] + a) * plan.out[1] + b) * plan.out[2] + c;
        sum.add(peek<C>(g + window * (int64_t)sizeof(C)) / divisor_of<C>(shares, plan, a, b, c));
      }
    }
  }
  poke<C>(dx + i * (int64_t)sizeof(C), sum.value());
}

}  // namespace weft::portable
