// Pointwise kernels' bodies: the formulas of backends/functors over one element.
//
// Two 16-bit floats are loaded and stored by one work-item if all operands have an even number of elements from a
// word boundary on. Other operands use strides.
#pragma once

#include "../../functors/binary.hpp"
#include "../../functors/compare.hpp"
#include "../../functors/integer.hpp"
#include "../../functors/optimizers.hpp"
#include "../../functors/ternary.hpp"
#include "../../functors/unary.hpp"
#include "move.hpp"
#include "team.hpp"

namespace weft::portable {

/// Numbers in the form that formulas take, and back.
template <class C>
WEFT_DEVICE C lift(C x) {
  return x;
}
WEFT_DEVICE functors::Whole<int64_t> lift(int64_t x) { return functors::Whole<int64_t>(x); }
WEFT_DEVICE functors::Whole<uint64_t> lift(uint64_t x) { return functors::Whole<uint64_t>(x); }
template <class C>
WEFT_DEVICE C lower(C x) {
  return x;
}
template <class C>
WEFT_DEVICE C lower(functors::Whole<C> x) {
  return x.raw;
}

template <class C>
WEFT_DEVICE C scalar_value(HostScalar s);
template <>
WEFT_DEVICE float scalar_value<float>(HostScalar s) {
  return float_from_bits((uint32_t)s.bits);
}
template <>
WEFT_DEVICE int64_t scalar_value<int64_t>(HostScalar s) {
  return (int64_t)s.bits;
}
template <>
WEFT_DEVICE uint64_t scalar_value<uint64_t>(HostScalar s) {
  return s.bits;
}

#if defined(WEFT_HAS_DOUBLE) || defined(__CUDACC__)
template <>
WEFT_DEVICE double scalar_value<double>(HostScalar s) {
#if defined(__CUDACC__)
  return __longlong_as_double((long long)s.bits);
#else
  return as_double(s.bits);
#endif
}
#endif

/// Floats of 16 bits.
WEFT_DEVICE float float_of_half(uint32_t bits, DType t) {
  if (t == DType::bf16) return float_from_bits(bits << 16);
  float16 x;
  x.bits = (uint16_t)bits;
  return to_float(x);
}
WEFT_DEVICE uint32_t half_of_float(float x, DType t) {
  return t == DType::bf16 ? to_bfloat16(x).bits : to_float16(x).bits;
}

template <class C>
struct HasPairs {
  enum { value = 0 };
};
template <>
struct HasPairs<float> {
  enum { value = 1 };
};

/// The work of one work-item: `count` elements from `first` on, at most two.
template <class C, int N>
struct Elements {
  int64_t first, offset[N + 1];
  int count;
  uint32_t words[N], made;  ///< two elements of 16 bits each

  static WEFT_DEVICE bool has_pairs(const Pointwise<N>& plan) { return HasPairs<C>::value && plan.density == pairs; }
  WEFT_DEVICE Elements(const Pointwise<N>& plan, int64_t i) {
    first = has_pairs(plan) ? 2 * i : i;
    count = first >= plan.walk.count ? 0 : (has_pairs(plan) ? 2 : 1);
    made = 0;
    if (count > 0 && plan.density == strided) offsets_at(plan.walk, i, offset);
  }
  WEFT_DEVICE void read(const Pointwise<N>& plan, int k, In data) {
    if (has_pairs(plan) && !plan.is_scalar[k] && count > 0) words[k] = peek<uint32_t>(data + 2 * first);
  }
  WEFT_DEVICE C operand(const Pointwise<N>& plan, int k, In data, int e) const {
    if (plan.is_scalar[k]) return scalar_value<C>(plan.scalar[k]);
    if (plan.density == dense) return ((const WEFT_GLOBAL C*)data)[first];
    if (has_pairs(plan)) return (C)float_of_half((words[k] >> (16 * e)) & 0xffff, plan.dtype[k + 1]);
    return Memory<C>::load(data + offset[k + 1], plan.dtype[k + 1]);
  }
  WEFT_DEVICE void result(const Pointwise<N>& plan, Out out, int e, C value) {
    if (plan.density == dense) ((WEFT_GLOBAL C*)out)[first] = value;
    else if (has_pairs(plan)) made |= half_of_float((float)value, plan.dtype[0]) << (16 * e);
    else Memory<C>::store(out + offset[0], plan.dtype[0], value);
  }
  WEFT_DEVICE void write(const Pointwise<N>& plan, Out out) const {
    if (has_pairs(plan) && count > 0) poke<uint32_t>(out + 2 * first, made);
  }
};

template <class C, class F>
WEFT_DEVICE void unary_item(Out out, In a, const Pointwise<1>& plan, int64_t i) {
  Elements<C, 1> item(plan, i);
  item.read(plan, 0, a);
  for (int e = 0; e < item.count; ++e) {
    item.result(plan, out, e, lower(F::value(lift(item.operand(plan, 0, a, e)))));
  }
  item.write(plan, out);
}
template <class C, class F>
WEFT_DEVICE void unary_gradient_item(Out out, In g, In saved, const Pointwise<2>& plan, int64_t i) {
  Elements<C, 2> item(plan, i);
  item.read(plan, 0, g), item.read(plan, 1, saved);
  for (int e = 0; e < item.count; ++e) {
    item.result(plan, out, e, F::gradient(item.operand(plan, 0, g, e), item.operand(plan, 1, saved, e)));
  }
  item.write(plan, out);
}
template <class C, class F>
WEFT_DEVICE void binary_item(Out out, In a, In b, const Pointwise<2>& plan, int64_t i) {
  Elements<C, 2> item(plan, i);
  item.read(plan, 0, a), item.read(plan, 1, b);
  for (int e = 0; e < item.count; ++e) {
    const C x = item.operand(plan, 0, a, e), y = item.operand(plan, 1, b, e);
    item.result(plan, out, e, lower(F::value(lift(x), lift(y))));
  }
  item.write(plan, out);
}
template <class C, class F>
WEFT_DEVICE void ternary_item(Out out, In a, In b, In c, const Pointwise<3>& plan, int64_t i) {
  Elements<C, 3> item(plan, i);
  item.read(plan, 0, a), item.read(plan, 1, b), item.read(plan, 2, c);
  for (int e = 0; e < item.count; ++e) {
    const C x = item.operand(plan, 0, a, e), y = item.operand(plan, 1, b, e), z = item.operand(plan, 2, c, e);
    item.result(plan, out, e, lower(F::value(lift(x), lift(y), lift(z))));
  }
  item.write(plan, out);
}
/// The output is bool.
template <class C, class F>
WEFT_DEVICE void compare_item(Out out, In a, In b, const Pointwise<2>& plan, int64_t i) {
  Elements<C, 2> item(plan, i);
  item.read(plan, 0, a), item.read(plan, 1, b);
  for (int e = 0; e < item.count; ++e) {
    const bool hit = F::value(item.operand(plan, 0, a, e), item.operand(plan, 1, b, e));
    poke<uint8_t>(plan.density == strided ? out + item.offset[0] : out + item.first + e, hit);
  }
}

// ---- conversion -----------------------------------------------------------------------------------------------------

template <class Real>
WEFT_DEVICE void store_real(Out p, DType t, Real x) {
  switch (t) {
    case DType::boolean:
      return poke<uint8_t>(p, x != 0);
    case DType::u8:
    case DType::i8:
    case DType::u16:
    case DType::i16:
    case DType::i32:
      return store_whole(p, t, to_i32(x));
    case DType::u32:
    case DType::i64:
      return store_whole(p, t, to_i64(x));
    case DType::u64:
      return poke<uint64_t>(p, to_u64(x));
    default:
      return Memory<Real>::store(p, t, x);
  }
}
/// From floats: C holds every one of them.
template <class C>
WEFT_DEVICE void convert_real_item(Out out, In in, const Pointwise<1>& plan, int64_t i) {
  if (i >= plan.walk.count) return;
  int64_t offset[2];
  offsets_at(plan.walk, i, offset);
  store_real<C>(out + offset[0], plan.dtype[0], Memory<C>::load(in + offset[1], plan.dtype[1]));
}
/// From integers and bool, to floats by way of C.
template <class C>
WEFT_DEVICE void convert_whole_item(Out out, In in, const Pointwise<1>& plan, int64_t i) {
  if (i >= plan.walk.count) return;
  int64_t offset[2];
  offsets_at(plan.walk, i, offset);
  const int64_t x = load_whole(in + offset[1], plan.dtype[1]);
  if (plan.dtype[0] < DType::f16) return store_whole(out + offset[0], plan.dtype[0], x);
  const bool is_unsigned = plan.dtype[1] == DType::u64;
  if (plan.dtype[0] == DType::f32 || plan.dtype[0] == DType::f64) {
    Memory<C>::store(out + offset[0], plan.dtype[0], is_unsigned ? (C)(uint64_t)x : (C)x);
  } else {
    store_small_float(out + offset[0], plan.dtype[0], is_unsigned ? odd_float((uint64_t)x) : odd_float(x));
  }
}

// ---- numbers by their bits ------------------------------------------------------------------------------------------

template <class C>
WEFT_DEVICE void nan_to_num_item(Out out, In x, C nan, C positive, C negative, int64_t n, int64_t i) {
  if (i >= n) return;
  const C highest = Limits<C>::highest(), lowest = Limits<C>::lowest(), v = ((const WEFT_GLOBAL C*)x)[i];
  ((WEFT_GLOBAL C*)out)[i] = v != v ? nan : (v == highest ? positive : (v == lowest ? negative : v));
}

/// The number after a in the direction of b: those of one sign are in the order of their bits.
template <class C>
WEFT_DEVICE void nextafter_item(Out out, In a, In b, int64_t n, int64_t i) {
  if (i >= n) return;
  const int item = sizeof(C);
  const C from = ((const WEFT_GLOBAL C*)a)[i], to = ((const WEFT_GLOBAL C*)b)[i];
  const Out place = out + i * item;
  if (from != from || to != to) return poke<C>(place, from + to);
  if (from == to) return poke<C>(place, to);
  const uint64_t sign = (uint64_t)1 << (8 * item - 1), bits = bits_at(a + i * item, item);
  if (from == 0) return put_bits(place, to < 0 ? sign | 1 : 1, item);
  put_bits(place, (from < to) == (from > 0) ? bits + 1 : bits - 1, item);
}

// ---- optimizer steps ------------------------------------------------------------------------------------------------

/// Element i of one of the slots.
struct SlotItem {
  int64_t i;
  int slot;
  bool active;
  template <class P>
  WEFT_DEVICE P pick(P a, P b, P c, P d) const {
    return slot < 2 ? (slot == 0 ? a : b) : (slot == 2 ? c : d);
  }
};
WEFT_DEVICE SlotItem slot_item(const Slots& slots, int64_t i) {
  SlotItem item;
  item.slot = (i >= slots.begins[1]) + (i >= slots.begins[2]) + (i >= slots.begins[3]);
  item.active = i < slots.begins[slots_at_once];
  item.i = i - (item.slot < 2 ? (item.slot == 0 ? 0 : slots.begins[1])
                              : (item.slot == 2 ? slots.begins[2] : slots.begins[3]));
  return item;
}

template <class C, class F>
WEFT_DEVICE void step_item(Out p, In g, Out a, Out b, Out c, const OptimizerFactors<C>& f, DType dtype, int64_t i) {
  const int64_t place = i * (dtype == DType::f64 ? 8 : (dtype == DType::f32 ? 4 : 2));
  C value = Memory<C>::load(p + place, dtype), state[3] = {};
  const Out states[3] = {a, b, c};
  for (int k = 0; k < F::states; ++k) state[k] = ((const WEFT_GLOBAL C*)states[k])[i];
  F::template step<C>(value, Memory<C>::load(g + place, dtype), state[0], state[1], state[2], f);
  for (int k = 0; k < F::states; ++k) ((WEFT_GLOBAL C*)states[k])[i] = state[k];
  Memory<C>::store(p + place, dtype, value);
}

}  // namespace weft::portable
