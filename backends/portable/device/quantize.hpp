// Codes with a scale for each block: bodies.
#pragma once

#include "../../functors/binary.hpp"
#include "coded_product.hpp"

namespace weft::portable {

struct LargerBits {
  static WEFT_DEVICE uint32_t combine(uint32_t a, uint32_t b) { return a < b ? b : a; }
};

WEFT_DEVICE float rounded_to(DType t, float x) {
  return t == DType::bf16 ? to_float(to_bfloat16(x)) : t == DType::f16 ? to_float(to_float16(x)) : x;
}

WEFT_DEVICE void dequantize_item(Out out, In codes, In scales, In zeros, const Dequantize& plan, int64_t item) {
  if (item >= plan.m * plan.n) return;
  const int64_t i = quotient(item, plan.n), j = item - i * plan.n;
  const CodedRows rows = {codes, scales, zeros, plan.codes, plan.m, plan.n};
  Memory<float>::store(out + i * plan.out.row + j * plan.out.column, plan.out.dtype,
                       rows.at(rows.row(i), rows.at_depth(j)));
}

/// A part of one block, which a team goes through.
struct BlockPart {
  Team team;
  int64_t block, row, column, width;  ///< where the block begins, and how many of its columns there are
  int64_t begin, end;                 ///< of its elements, row by row
};
WEFT_DEVICE BlockPart block_part(const Quantize& plan) {
  BlockPart part;
  part.team = team_here(false);
  const int64_t across = (plan.n + plan.scales.columns - 1) / plan.scales.columns, blocks = plan.blocks;
  const bool active = part.team.number < blocks * plan.pieces;
  part.block = active ? part.team.number / plan.pieces : 0;
  part.row = part.block / across * plan.scales.rows;
  part.column = part.block % across * plan.scales.columns;
  part.width = plan.n - part.column < plan.scales.columns ? plan.n - part.column : plan.scales.columns;
  const int64_t height = plan.m - part.row < plan.scales.rows ? plan.m - part.row : plan.scales.rows;
  const int64_t count = active ? part.width * height : 0;
  part.begin = active ? (part.team.number - part.block * plan.pieces) * plan.piece : 0;
  part.begin = part.begin < count ? part.begin : count;
  part.end = part.begin + plan.piece < count ? part.begin + plan.piece : count;
  return part;
}

/// Element e of a part: where it is, and its number.
struct BlockElement {
  int64_t i, j;
  float x;
};
WEFT_DEVICE BlockElement block_element(In x, In x_scales, const Quantize& plan, const BlockPart& part, int64_t e) {
  BlockElement element;
  const int64_t down = quotient(e, part.width);
  element.i = part.row + down;
  element.j = part.column + (e - down * part.width);
  const In from = x + element.i * plan.x.row + element.j * plan.x.column;
  element.x = Memory<float>::load(from, plan.x.dtype);
  if (plan.gated) {
    element.x = functors::Swiglu::value(element.x, Memory<float>::load(from + plan.n * plan.x.column, plan.x.dtype));
  }
  if (plan.x_scales.scale.present) element.x *= scale_at(x_scales, plan.x_scales, element.i, element.j);
  element.x = rounded_to(plan.rounded, element.x);
  return element;
}

/// The bits of the largest |x| that is finite, for all lanes.
WEFT_DEVICE uint32_t largest_of_part(In x, In x_scales, const Quantize& plan, const BlockPart& part,
                                     WEFT_LOCAL uint32_t* shared) {
  uint32_t most = 0;
  for (int64_t e = part.begin + part.team.lane; e < part.end; e += part.team.lanes) {
    const uint32_t bits = float_bits(block_element(x, x_scales, plan, part, e).x) & 0x7fffffffu;
    if (bits < 0x7f800000u) most = LargerBits::combine(most, bits);
  }
  return combine_team<LargerBits>(part.team, shared, most);
}

WEFT_DEVICE void block_largest_team(Out largest, In x, In x_scales, const Quantize& plan, WEFT_LOCAL uint32_t* shared) {
  const BlockPart part = block_part(plan);
  const uint32_t most = largest_of_part(x, x_scales, plan, part, shared);
  if (part.team.lane == 0 && part.team.number < plan.blocks * plan.pieces) {
    poke<uint32_t>(largest + part.team.number * 4, most);
  }
}

/// As cpu/quantize/scale_rule.hpp.
WEFT_DEVICE float multiplier_of(uint32_t bits_of_largest, const Quantize& plan) {
  const float bits = float_from_bits(bits_of_largest), most = bits < plan.epsilon ? plan.epsilon : bits;
  if (most == 0) return 1;
  float s = plan.largest_code / most;
  if (plan.power_of_two) s = float_from_bits(float_bits(s) & 0x7f800000u);
  const float limit = float_from_bits(0x7e800000u);  // 2 to the power 126, so that 1 / s is no subnormal
  return s < limit ? s : limit;
}

/// `largest` has that of each piece, where blocks have more than one.
WEFT_DEVICE void quantize_team(Out codes, Out scales, In largest, In x, In x_scales, const Quantize& plan,
                               WEFT_LOCAL uint32_t* shared) {
  const BlockPart part = block_part(plan);
  uint32_t most = 0;
  if (plan.pieces == 1) {
    most = largest_of_part(x, x_scales, plan, part, shared);
  } else {
    for (int64_t k = part.team.lane; k < plan.pieces; k += part.team.lanes) {
      most = LargerBits::combine(most, peek<uint32_t>(largest + (part.block * plan.pieces + k) * 4));
    }
    most = combine_team<LargerBits>(part.team, shared, most);
  }
  const float s = multiplier_of(most, plan), limit = plan.largest_code;
  if (part.begin == 0 && part.end > 0 && part.team.lane == 0) {
    poke<float>(scales + part.row / plan.scales.rows * plan.scales.scale.row +
                    part.column / plan.scales.columns * plan.scales.scale.column,
                1 / s);
  }
  for (int64_t e = part.begin + part.team.lane; e < part.end; e += part.team.lanes) {
    const BlockElement element = block_element(x, x_scales, plan, part, e);
    const float scaled = element.x * s, below = scaled > limit ? limit : scaled;
    Memory<float>::store(codes + element.i * plan.codes.row + element.j * plan.codes.column, plan.codes.dtype,
                         below < -limit ? -limit : below);
  }
}

/// The gradients of swiglu(x's halves) * weight and its value, by a team for each row.
WEFT_DEVICE void gated_gradient_team(Out dx, Out dweight, Out y, In x, In g, In weight, const GatedGradient& plan,
                                     WEFT_LOCAL float* shared) {
  const Team team = team_here(false);
  const int64_t i = team.number;
  const bool active = i < plan.m;
  const float factor = active ? peek<float>(weight + i * plan.weight_step) : 0;
  RunningSum<float> sum;
  for (int64_t j = team.lane; active && j < plan.n; j += team.lanes) {
    const In left = x + i * plan.x.row + j * plan.x.column, right = left + plan.n * plan.x.column;
    const Out to_left = dx + i * plan.dx.row + j * plan.dx.column, to_right = to_left + plan.n * plan.dx.column;
    const float a = Memory<float>::load(left, plan.x.dtype), b = Memory<float>::load(right, plan.x.dtype);
    const float in = Memory<float>::load(g + i * plan.g.row + j * plan.g.column, plan.g.dtype), d = in * factor;
    const float value = functors::Swiglu::value(a, b);
    sum.add(in * value);
    Memory<float>::store(y + i * plan.y.row + j * plan.y.column, plan.y.dtype, value * factor);
    Memory<float>::store(to_left, plan.dx.dtype, functors::Swiglu::gradient_a<float>(d, a, b, value));
    Memory<float>::store(to_right, plan.dx.dtype, functors::Swiglu::gradient_b<float>(d, a, b, value));
  }
  const float all = combine_team<Plus>(team, shared, sum.value());
  if (active && team.lane == 0) poke<float>(dweight + i * plan.dweight_step, all);
}

}  // namespace weft::portable
