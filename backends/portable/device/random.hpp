// Draws from the counter-based generator: a work-item turns one counter's four words into elements.
#pragma once

#include "device.hpp"
#include "../../../tensor/philox.hpp"

namespace weft::portable {

enum { draw_uniform, draw_normal, draw_bernoulli, draw_integers };

WEFT_DEVICE uint64_t pair_of(const PhiloxWords& words, int i) {
  return (uint64_t)words.word[2 * i] | (uint64_t)words.word[2 * i + 1] << 32;
}

/// Element k of four (or of two of eight bytes).
WEFT_DEVICE float uniform_number(const PhiloxWords& w, int k, DType t, const DrawNumbers<float>& n) {
  UniformRange<float> range;
  range.low = n.a;
  range.span = n.b;
  range.last = n.last;
  const float unit =
      t == DType::f16 ? unit_f16(w.word[k]) : (t == DType::bf16 ? unit_bf16(w.word[k]) : unit_f32(w.word[k]));
  return place(unit, range);
}
WEFT_DEVICE float normal_number(const PhiloxWords& w, int k, const DrawNumbers<float>& n) {
  const NormalPair<float> z = normal_pair(w.word[k & 2], w.word[(k & 2) + 1]);
  return n.a + n.b * ((k & 1) != 0 ? z.second : z.first);
}
#if defined(WEFT_HAS_DOUBLE) || defined(__CUDACC__)
WEFT_DEVICE double uniform_number(const PhiloxWords& w, int k, DType, const DrawNumbers<double>& n) {
  UniformRange<double> range;
  range.low = n.a;
  range.span = n.b;
  range.last = n.last;
  return place(unit_f64(pair_of(w, k)), range);
}
WEFT_DEVICE double normal_number(const PhiloxWords& w, int k, const DrawNumbers<double>& n) {
  const NormalPair<double> z = normal_pair(pair_of(w, 0), pair_of(w, 1));
  return n.a + n.b * (k != 0 ? z.second : z.first);
}
#endif

/// Draws for every number type.
template <class C>
WEFT_DEVICE C whole_number(const PhiloxWords& w, int k, const Draw& plan) {
  if (plan.distribution == draw_bernoulli) return bernoulli(w.word[k], plan.threshold) ? (C)1 : (C)0;
  return (C)integer_below(plan.words == 2 ? pair_of(w, k) : w.word[k], plan.low, plan.range);
}
template <class C>
WEFT_DEVICE C drawn_number(const PhiloxWords& w, int k, const Draw& plan, const DrawNumbers<C>& numbers) {
  if (plan.distribution == draw_uniform) return uniform_number(w, k, plan.dtype, numbers);
  if (plan.distribution == draw_normal) return normal_number(w, k, numbers);
  return whole_number<C>(w, k, plan);
}
WEFT_DEVICE int64_t drawn_number(const PhiloxWords& w, int k, const Draw& plan, const DrawNumbers<int64_t>&) {
  return whole_number<int64_t>(w, k, plan);
}

template <class C>
WEFT_DEVICE void draw_item(Out out, const Draw& plan, const DrawNumbers<C>& numbers, int64_t block) {
  const int64_t per_block = 4 / plan.words, first = block * per_block;
  if (first >= plan.walk.count) return;
  const PhiloxWords w = philox4x32_10(plan.key, plan.subsequence, plan.offset + (uint64_t)block);
  for (int k = 0; k < per_block; ++k) {
    if (first + k >= plan.walk.count) continue;
    int64_t offset[1];
    offsets_at(plan.walk, first + k, offset);
    Memory<C>::store(out + offset[0], plan.dtype, drawn_number(w, k, plan, numbers));
  }
}

/// out[i] = start + i * step
template <class C>
WEFT_DEVICE void arange_item(Out out, int64_t step_bytes, DType dtype, C start, C step, int64_t n, int64_t i) {
  if (i < n) Memory<C>::store(out + i * step_bytes, dtype, start + (C)i * step);
}

}  // namespace weft::portable
