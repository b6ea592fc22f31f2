// Kernels that move elements without looking at them: by their size alone.
#pragma once

#include "device.hpp"

namespace weft::portable {

WEFT_DEVICE uint64_t bits_at(In from, int item) {
  switch (item) {
    case 1:
      return peek<uint8_t>(from);
    case 2:
      return peek<uint16_t>(from);
    case 4:
      return peek<uint32_t>(from);
    default:
      return peek<uint64_t>(from);
  }
}
WEFT_DEVICE void put_bits(Out to, uint64_t bits, int item) {
  switch (item) {
    case 1:
      return poke<uint8_t>(to, (uint8_t)bits);
    case 2:
      return poke<uint16_t>(to, (uint16_t)bits);
    case 4:
      return poke<uint32_t>(to, (uint32_t)bits);
    default:
      return poke<uint64_t>(to, bits);
  }
}
WEFT_DEVICE void move_element(Out to, In from, int item) {
  put_bits(to, bits_at(from, item), item);
  if (item == 16) put_bits(to + 8, bits_at(from + 8, 8), 8);
}

WEFT_DEVICE void move_item(Out out, In in, const Walk<2>& walk, int item, int64_t i) {
  if (i >= walk.count) return;
  int64_t offset[2];
  offsets_at(walk, i, offset);
  move_element(out + offset[0], in + offset[1], item);
}

WEFT_DEVICE void fill_item(Out out, const Walk<1>& walk, uint64_t bits, int item, int64_t i) {
  if (i >= walk.count) return;
  int64_t offset[1];
  offsets_at(walk, i, offset);
  put_bits(out + offset[0], bits, item);
}

/// Operand 0 of the plan is the condition; the dtype of the output gives no more than the item size.
WEFT_DEVICE void where_item(Out out, In condition, In a, In b, const Pointwise<3>& plan, int item, int64_t i) {
  if (i >= plan.walk.count) return;
  int64_t offset[4];
  offsets_at(plan.walk, i, offset);
  const bool first = plan.is_scalar[0] ? plan.scalar[0].bits != 0 : peek<uint8_t>(condition + offset[1]) != 0;
  const bool scalar = first ? plan.is_scalar[1] != 0 : plan.is_scalar[2] != 0;
  if (scalar) put_bits(out + offset[0], first ? plan.scalar[1].bits : plan.scalar[2].bits, item);
  else if (first) move_element(out + offset[0], a + offset[2], item);
  else move_element(out + offset[0], b + offset[3], item);
}

}  // namespace weft::portable
