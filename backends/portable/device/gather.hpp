// Sums of elements that are found by indices: bags of rows, lines that are resampled, images read between their
// elements.
#pragma once

#include "sort.hpp"
#include "team.hpp"

namespace weft::portable {

template <class C>
WEFT_DEVICE C number_at(In data, int64_t i) {
  return peek<C>(data + i * (int64_t)sizeof(C));
}
template <class C>
WEFT_DEVICE void put_number(Out data, int64_t i, C value) {
  poke<C>(data + i * (int64_t)sizeof(C), value);
}

// ---- bags -----------------------------------------------------------------------------------------------------------

/// The row of index i; -1 if it is skipped or out of range, which is reported.
WEFT_DEVICE int64_t bag_row(In indices, const Bags& plan, WEFT_GLOBAL BadIndex* bad, int64_t i) {
  const int64_t index = peek<int64_t>(indices + i * 8);
  return plan.padding >= 0 && index == plan.padding ? -1 : checked_index(index, plan.rows, plan.check, bad);
}
WEFT_DEVICE int64_t bag_end(In begins, const Bags& plan, int64_t bag) {
  return bag + 1 < plan.bags ? peek<int64_t>(begins + (bag + 1) * 8) : plan.indices;
}

/// A work-item for each column of a bag; for the count alone where there are none.
template <class C>
WEFT_DEVICE void bag_sum_item(Out out, Out counts, In weight, In indices, In begins, In factors,
                              WEFT_GLOBAL BadIndex* bad, const Bags& plan, int64_t i) {
  const int64_t columns = plan.width > 0 ? plan.width : 1;
  if (i >= plan.bags * columns) return;
  const int64_t bag = quotient(i, columns), column = i - bag * columns, end = bag_end(begins, plan, bag);
  RunningSum<C> sum;
  int64_t count = 0;
  for (int64_t k = peek<int64_t>(begins + bag * 8); k < end; ++k) {
    const int64_t row = bag_row(indices, plan, bad, k);
    if (row < 0) continue;
    ++count;
    if (plan.width == 0) continue;
    const C x = number_at<C>(weight, row * plan.width + column);
    sum.add(x * (plan.has_factors ? number_at<C>(factors, k) : 1));
  }
  if (column == 0) put_number<C>(counts, bag, (C)count);
  const C scale = plan.mean && count > 0 ? 1 / (C)count : 1;
  if (plan.width > 0) put_number<C>(out, i, sum.value() * scale);
}

template <class C>
WEFT_DEVICE void bag_max_item(Out out, Out place, In weight, In indices, In begins, WEFT_GLOBAL BadIndex* bad,
                              const Bags& plan, int64_t i) {
  if (i >= plan.bags * plan.width) return;
  const int64_t bag = quotient(i, plan.width), column = i - bag * plan.width, end = bag_end(begins, plan, bag);
  C best = 0;
  int64_t at = -1;
  for (int64_t k = peek<int64_t>(begins + bag * 8); k < end; ++k) {
    const int64_t row = bag_row(indices, plan, bad, k);
    if (row < 0) continue;
    const C x = number_at<C>(weight, row * plan.width + column);
    if (at >= 0 && !(x > best) && !(x != x && best == best)) continue;
    best = x;
    at = k;
  }
  put_number<C>(out, i, best);
  poke<int64_t>(place + i * 8, at);
}

// ---- lines ----------------------------------------------------------------------------------------------------------

template <class C>
WEFT_DEVICE void resample_item(Out out, In x, In at, In weights, const Resample& plan, int64_t i) {
  if (i >= plan.outer * plan.to * plan.inner) return;
  const int64_t line = quotient(i, plan.inner), inner = i - line * plan.inner;
  const int64_t outer = quotient(line, plan.to), element = line - outer * plan.to;
  RunningSum<C> sum;
  for (int64_t t = 0; t < plan.taps; ++t) {
    const int64_t tap = t * plan.to + element;
    const int64_t from = sizeof(C) == 8 ? peek<int64_t>(at + tap * 8) : peek<int32_t>(at + tap * 4);
    if (from < 0) continue;
    sum.add(number_at<C>(x, (outer * plan.from + from) * plan.inner + inner) * number_at<C>(weights, tap));
  }
  put_number<C>(out, i, sum.value());
}

// ---- images ---------------------------------------------------------------------------------------------------------

/// The cell around a place: its low corner, and how far the place is from there along each dimension.
template <class C>
struct Cell {
  int64_t low[3];
  C rest[3];
};
template <class C>
WEFT_DEVICE Cell<C> cell_of(In places, const Sampling& plan, int64_t image, int64_t place) {
  Cell<C> cell;
  WEFT_UNROLL
  for (int d = 0; d < 3; ++d) {
    cell.low[d] = 0;
    cell.rest[d] = 0;
    if (d >= plan.rank) continue;
    const C at = number_at<C>(places, (d * plan.images + image) * plan.places + place);
    const bool near = at >= (C)-1 && at < (C)plan.sizes[d];
    const C below = near ? floor(at) : (C)-2;
    cell.low[d] = (int64_t)below;
    cell.rest[d] = near ? at - below : 0;
  }
  return cell;
}
/// A corner's element in its image, -1 outside.
template <class C>
WEFT_DEVICE int64_t corner_element(const Cell<C>& cell, const Sampling& plan, int corner) {
  int64_t element = 0;
  bool inside = true;
  WEFT_UNROLL
  for (int d = 0; d < 3; ++d) {
    if (d >= plan.rank) continue;
    const int64_t at = cell.low[d] + (corner >> d & 1);
    inside = inside && at >= 0 && at < plan.sizes[d];
    element = element * plan.sizes[d] + at;
  }
  return inside ? element : -1;
}
/// A corner's weight; without the factor of one dimension, its slope along that.
template <class C>
WEFT_DEVICE C corner_weight(const Cell<C>& cell, const Sampling& plan, int corner, int without) {
  C weight = 1;
  WEFT_UNROLL
  for (int d = 0; d < 3; ++d) {
    if (d >= plan.rank) continue;
    const bool high = (corner >> d & 1) != 0;
    if (d == without) weight = high ? weight : -weight;
    else weight = weight * (high ? cell.rest[d] : 1 - cell.rest[d]);
  }
  return weight;
}

template <class C>
WEFT_DEVICE void sample_item(Out out, In x, In places, const Sampling& plan, int64_t i) {
  if (i >= plan.images * plan.channels * plan.places) return;
  const int64_t plane = quotient(i, plan.places), place = i - plane * plan.places;
  const Cell<C> cell = cell_of<C>(places, plan, quotient(plane, plan.channels), place);
  C sum = 0;
  for (int corner = 0; corner < 1 << plan.rank; ++corner) {
    const int64_t element = corner_element(cell, plan, corner);
    if (element < 0) continue;
    sum = sum + number_at<C>(x, plane * plan.size + element) * corner_weight(cell, plan, corner, -1);
  }
  put_number<C>(out, i, sum);
}

/// A key for each corner of each position: the index of its element among all images. The sort is stable, so equal keys
/// stay in the order of positions.
template <class C>
WEFT_DEVICE void sample_corners_item(Out keys, Out order, In places, const Sampling& plan, int64_t i) {
  const int64_t all = plan.images * plan.places;
  if (i >= all << plan.rank) return;
  const int64_t position = i >> plan.rank, image = quotient(position, plan.places);
  const Cell<C> cell = cell_of<C>(places, plan, image, position - image * plan.places);
  const int64_t element = corner_element(cell, plan, (int)(i & ((1 << plan.rank) - 1)));
  put_pair(keys, order, i, element < 0 ? (uint64_t)no_destination : (uint64_t)(image * plan.size + element), i);
}

/// The first of each element's corners adds them all up, for one channel.
template <class C>
WEFT_DEVICE void sample_gradient_item(Out dx, In g, In places, In keys, In order, const Sampling& plan, int64_t i) {
  const int64_t all = plan.images * plan.places << plan.rank;
  if (i >= all * plan.channels) return;
  const int64_t channel = quotient(i, all);
  int64_t at = i - channel * all;
  const uint64_t key = key_at(keys, at);
  if (key == no_destination || (at > 0 && key_at(keys, at - 1) == key)) return;
  const int64_t image = quotient((int64_t)key, plan.size), element = (int64_t)key - image * plan.size;
  const int64_t plane = image * plan.channels + channel;
  RunningSum<C> sum;
  for (; at < all && key_at(keys, at) == key; ++at) {
    const int64_t corner = peek<int64_t>(order + at * 8), place = (corner >> plan.rank) - image * plan.places;
    const Cell<C> cell = cell_of<C>(places, plan, image, place);
    sum.add(number_at<C>(g, plane * plan.places + place) *
            corner_weight(cell, plan, (int)(corner & ((1 << plan.rank) - 1)), -1));
  }
  put_number<C>(dx, plane * plan.size + element, sum.value());
}

template <class C>
WEFT_DEVICE void sample_places_gradient_item(Out dplaces, In g, In x, In places, const Sampling& plan, int64_t i) {
  if (i >= plan.images * plan.places) return;
  const int64_t image = quotient(i, plan.places), place = i - image * plan.places;
  const Cell<C> cell = cell_of<C>(places, plan, image, place);
  for (int d = 0; d < plan.rank; ++d) {
    C sum = 0;
    for (int64_t channel = 0; channel < plan.channels; ++channel) {
      const int64_t plane = image * plan.channels + channel;
      const C incoming = number_at<C>(g, plane * plan.places + place);
      for (int corner = 0; corner < 1 << plan.rank; ++corner) {
        const int64_t element = corner_element(cell, plan, corner);
        if (element < 0) continue;
        sum = sum + incoming * number_at<C>(x, plane * plan.size + element) * corner_weight(cell, plan, corner, d);
      }
    }
    put_number<C>(dplaces, d * plan.images * plan.places + i, sum);
  }
}

}  // namespace weft::portable
