// Elements by tensors of indices: bodies. Written destinations are sorted first, so that duplicates are adjacent and in
// order: results do not depend on a race.
#pragma once

#include "sort.hpp"

namespace weft::portable {

WEFT_DEVICE void index_select_item(Out out, In x, In index, WEFT_GLOBAL BadIndex* bad, const IndexSelect& plan,
                                   int64_t i) {
  const int64_t slab = plan.inner.count;
  if (i >= plan.outer.count * plan.count * slab) return;
  const int64_t row = i / slab, j = row % plan.count;
  int64_t outer[2], inner[2];
  offsets_at(plan.outer, row / plan.count, outer);
  offsets_at(plan.inner, i - row * slab, inner);
  const int64_t from =
      checked_index(load_whole(index + j * plan.index_step, plan.index_dtype), plan.size, plan.check, bad);
  if (from < 0) return;
  move_element(out + outer[0] + inner[0] + j * plan.out_step, x + outer[1] + inner[1] + from * plan.x_step, plan.item);
}

WEFT_DEVICE void gather_item(Out out, In x, In index, WEFT_GLOBAL BadIndex* bad, const Gather& plan, int64_t i) {
  if (i >= plan.walk.count) return;
  int64_t offset[3];
  offsets_at(plan.walk, i, offset);
  const int64_t from = checked_index(load_whole(index + offset[2], plan.index_dtype), plan.size, plan.check, bad);
  if (from < 0) return;
  move_element(out + offset[0], x + offset[1] + from * plan.x_step, plan.item);
}

/// A plan's indices; those beyond its count are null.
struct IndexList {
  In at[max_rank];
};

/// Offsets of the values and of the selected elements in the base; false if an index is out of range.
WEFT_DEVICE bool look_up(const IndexLookup& plan, const IndexList& indices, WEFT_GLOBAL BadIndex* bad, int64_t position,
                         int64_t& values, int64_t& base) {
  int64_t offset[2 + max_rank];
  offsets_at(plan.walk, position, offset, 2 + plan.count);
  values = offset[0];
  base = offset[1];
  bool valid = true;
  for (int k = 0; k < plan.count; ++k) {
    IndexCheck check;
    check.call = plan.call;
    check.dim = plan.dims[k];
    check.wraps = plan.wraps;
    const int64_t at =
        checked_index(load_whole(indices.at[k] + offset[2 + k], plan.dtype[k]), plan.sizes[k], check, bad);
    valid = valid && at >= 0;
    base += at * plan.strides[k];
  }
  return valid;
}

WEFT_DEVICE void index_get_item(Out out, In base, const IndexList& indices, WEFT_GLOBAL BadIndex* bad,
                                const IndexLookup& plan, int item, int64_t i) {
  if (i >= plan.walk.count) return;
  int64_t to, from;
  if (look_up(plan, indices, bad, i, to, from)) move_element(out + to, base + from, item);
}

WEFT_DEVICE void destination_item(Out keys, Out order, const IndexList& indices, WEFT_GLOBAL BadIndex* bad,
                                  const IndexLookup& plan, int64_t i) {
  if (i >= plan.walk.count) return;
  int64_t from, to;
  const bool valid = look_up(plan, indices, bad, i, from, to);
  put_pair(keys, order, i, valid ? destination_key(to) : no_destination, i);
}

/// Of the positions of one destination the last writes.
WEFT_DEVICE void put_last_item(Out base, In values, In keys, In order, const Put& plan, int64_t i) {
  if (i >= plan.positions.count * plan.slab.count) return;
  const int64_t place = i / plan.slab.count;
  const uint64_t key = key_at(keys, place);
  if (key == no_destination || (place + 1 < plan.positions.count && key_at(keys, place + 1) == key)) return;
  int64_t offset[1], slab[2];
  offsets_at(plan.positions, peek<int64_t>(order + place * 8), offset);
  offsets_at(plan.slab, i - place * plan.slab.count, slab);
  move_element(base + destination_of(key) + slab[0], values + offset[0] + slab[1], plan.item);
}

// ---- counts ---------------------------------------------------------------------------------------------------------

/// Numbers from 0 on as keys.
WEFT_DEVICE void number_keys_item(Out keys, Out order, In x, int64_t n, int64_t step, DType dtype, int64_t i) {
  if (i < n) put_pair(keys, order, i, (uint64_t)load_whole(x + i * step, dtype), i);
}
/// Adds to each bin how many of the sorted keys are its number.
WEFT_DEVICE void count_keys_item(Out counts, In keys, int64_t n, int64_t bins, int64_t i) {
  if (i >= bins) return;
  const int64_t below = keys_below(keys, 0, n, (uint64_t)i, false);
  const int64_t count = keys_below(keys, below, n - below, (uint64_t)i, true);
  poke<int64_t>(counts + i * 8, peek<int64_t>(counts + i * 8) + count);
}

}  // namespace weft::portable
