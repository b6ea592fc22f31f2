// Stable sorting of (key, position) pairs by merging, each work-item finding its element's place: bodies.
#pragma once

#include "move.hpp"

namespace weft::portable {

WEFT_DEVICE uint64_t key_at(In keys, int64_t i) { return peek<uint64_t>(keys + i * 8); }
WEFT_DEVICE void put_pair(Out keys, Out order, int64_t i, uint64_t key, int64_t position) {
  poke<uint64_t>(keys + i * 8, key);
  poke<int64_t>(order + i * 8, position);
}

// A destination as a key: its byte offset, with the sign as the lowest bit. Elements without a destination come last.
enum : uint64_t { key_sign = (uint64_t)1 << 63, no_destination = ~(uint64_t)0 };
WEFT_DEVICE uint64_t destination_key(int64_t offset) { return (uint64_t)offset ^ key_sign; }
WEFT_DEVICE int64_t destination_of(uint64_t key) { return (int64_t)(key ^ key_sign); }

/// An element as a number of the same order: -0 equals 0, and NaN is the greatest. Floats take no more bits than they
/// have.
WEFT_DEVICE uint64_t element_key(In p, DType t) {
  if (t == DType::u64) return peek<uint64_t>(p);
  const bool wide = t == DType::f64 || t == DType::f32;
  if (!wide && t != DType::f16 && t != DType::bf16) return (uint64_t)load_whole(p, t) ^ key_sign;
  const int item = t == DType::f64 ? 8 : (wide ? 4 : 2);
  const uint64_t sign = (uint64_t)1 << (8 * item - 1), bits = bits_at(p, item), magnitude = bits & (sign - 1);
  const int mantissa = t == DType::f64 ? 52 : (t == DType::f32 ? 23 : (t == DType::f16 ? 10 : 7));
  const uint64_t infinity = (sign - 1) >> mantissa << mantissa;
  if (magnitude > infinity) return sign | (sign - 1);
  return bits == magnitude ? bits + sign : sign - magnitude;
}

WEFT_DEVICE void sort_keys_item(Out keys, Out order, In x, const Sort& plan, int64_t i) {
  if (i >= plan.lines.count * plan.length) return;
  const int64_t line = i / plan.length, j = i - line * plan.length;
  int64_t offset[3];
  offsets_at(plan.lines, line, offset);
  const uint64_t key = element_key(x + offset[0] + j * plan.step[0], plan.dtype);
  put_pair(keys, order, i, plan.descending ? ~key : key, j);
}

/// How many of the sorted keys [first, first + n) are below `key`, or not above it.
WEFT_DEVICE int64_t keys_below(In keys, int64_t first, int64_t n, uint64_t key, bool or_equal) {
  const int64_t begin = first;
  while (n > 0) {
    const int64_t lower = n / 2;
    const uint64_t middle = key_at(keys, first + lower);
    const bool beyond = or_equal ? middle <= key : middle < key;
    if (beyond) first += lower + 1;
    n = beyond ? n - lower - 1 : lower;
  }
  return first - begin;
}

enum { sort_block = 32 };

/// Sorts blocks of a line by counting, for each element, those that come before it.
WEFT_DEVICE void sort_block_item(Out keys_out, Out order_out, In keys, In order, int64_t total, int64_t length,
                                 int64_t i) {
  if (i >= total) return;
  const int64_t line = i / length * length, start = i - (i - line) % sort_block;
  const int64_t end = start + sort_block < line + length ? start + sort_block : line + length;
  const uint64_t key = key_at(keys, i);
  int64_t place = start;
  for (int64_t j = start; j < end; ++j) {
    const uint64_t other = key_at(keys, j);
    place += other < key || (other == key && j < i);
  }
  put_pair(keys_out, order_out, place, key, peek<int64_t>(order + i * 8));
}

/// Merges sorted runs of `width` by pairs; of equal keys, those of the first run come first.
WEFT_DEVICE void sort_merge_item(Out keys_out, Out order_out, In keys, In order, int64_t total, int64_t length,
                                 int64_t width, int64_t i) {
  if (i >= total) return;
  const int64_t line = i / length * length, j = i - line, start = j - j % (2 * width), middle = start + width;
  const uint64_t key = key_at(keys, i);
  int64_t place = j;
  if (j >= middle) {
    place += keys_below(keys, line + start, width, key, true) - width;
  } else if (middle < length) {
    place += keys_below(keys, line + middle, middle + width < length ? width : length - middle, key, false);
  }
  put_pair(keys_out, order_out, line + place, key, peek<int64_t>(order + i * 8));
}

WEFT_DEVICE void sorted_item(Out out, Out order_out, In x, In order, const Sort& plan, int64_t i) {
  if (i >= plan.lines.count * plan.length) return;
  const int64_t line = i / plan.length, j = i - line * plan.length, from = peek<int64_t>(order + i * 8);
  int64_t offset[3];
  offsets_at(plan.lines, line, offset);
  if (plan.has_out) {
    move_element(out + offset[1] + j * plan.step[1], x + offset[0] + from * plan.step[0], plan.item);
  }
  if (plan.has_order) poke<int64_t>(order_out + offset[2] + j * plan.step[2], from);
}

/// Whether the element at `place` of a sorted line is below `key`, or not above it.
WEFT_DEVICE bool is_below(In place, const Search& plan, uint64_t key) {
  const uint64_t element = element_key(place, plan.dtype);
  return plan.right ? element <= key : element < key;
}

/// Bisects in the steps of the CPU's, so that lines that are not sorted give the same.
WEFT_DEVICE void search_item(Out out, In sorted, In values, const Search& plan, int64_t i) {
  if (i >= plan.walk.count) return;
  int64_t offset[3];
  offsets_at(plan.walk, i, offset);
  const uint64_t key = element_key(values + offset[1], plan.dtype);
  In const line = sorted + offset[2];
  int64_t first = 0, n = plan.length;
  for (; n > 1; n -= n / 2) {
    if (is_below(line + (first + n / 2 - 1) * plan.step, plan, key)) first += n / 2;
  }
  if (n == 1 && is_below(line + first * plan.step, plan, key)) ++first;
  poke<int64_t>(out + offset[0], first);
}

}  // namespace weft::portable
