// Pointwise kernels' bodies: the formulas of backends/functors over one element.
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

/// Operand k of one element.
template <class C, int N>
WEFT_DEVICE C operand(const Pointwise<N>& plan, int k, In data, int64_t i, const int64_t* offset) {
  if (plan.is_scalar[k]) return scalar_value<C>(plan.scalar[k]);
  if (plan.dense) return ((const WEFT_GLOBAL C*)data)[i];
  return Memory<C>::load(data + offset[k + 1], plan.dtype[k + 1]);
}
template <class C, int N>
WEFT_DEVICE void result(const Pointwise<N>& plan, Out out, int64_t i, const int64_t* offset, C value) {
  if (plan.dense) ((WEFT_GLOBAL C*)out)[i] = value;
  else Memory<C>::store(out + offset[0], plan.dtype[0], value);
}
template <int N>
WEFT_DEVICE bool locate(const Pointwise<N>& plan, int64_t i, int64_t* offset) {
  if (i >= plan.walk.count) return false;
  if (!plan.dense) offsets_at(plan.walk, i, offset);
  return true;
}

template <class C, class F>
WEFT_DEVICE void unary_item(Out out, In a, const Pointwise<1>& plan, int64_t i) {
  int64_t offset[2];
  if (!locate(plan, i, offset)) return;
  result<C>(plan, out, i, offset, lower(F::value(lift(operand<C>(plan, 0, a, i, offset)))));
}
template <class C, class F>
WEFT_DEVICE void unary_gradient_item(Out out, In g, In saved, const Pointwise<2>& plan, int64_t i) {
  int64_t offset[3];
  if (!locate(plan, i, offset)) return;
  result<C>(plan, out, i, offset,
            F::gradient(operand<C>(plan, 0, g, i, offset), operand<C>(plan, 1, saved, i, offset)));
}
template <class C, class F>
WEFT_DEVICE void binary_item(Out out, In a, In b, const Pointwise<2>& plan, int64_t i) {
  int64_t offset[3];
  if (!locate(plan, i, offset)) return;
  result<C>(plan, out, i, offset,
            lower(F::value(lift(operand<C>(plan, 0, a, i, offset)), lift(operand<C>(plan, 1, b, i, offset)))));
}
template <class C, class F>
WEFT_DEVICE void ternary_item(Out out, In a, In b, In c, const Pointwise<3>& plan, int64_t i) {
  int64_t offset[4];
  if (!locate(plan, i, offset)) return;
  result<C>(plan, out, i, offset,
            lower(F::value(lift(operand<C>(plan, 0, a, i, offset)), lift(operand<C>(plan, 1, b, i, offset)),
                           lift(operand<C>(plan, 2, c, i, offset)))));
}
/// The output is bool, so the plan is never dense but where it says so of a and b.
template <class C, class F>
WEFT_DEVICE void compare_item(Out out, In a, In b, const Pointwise<2>& plan, int64_t i) {
  if (i >= plan.walk.count) return;
  int64_t offset[3];
  if (!plan.dense) offsets_at(plan.walk, i, offset);
  const bool hit = F::value(operand<C>(plan, 0, a, i, offset), operand<C>(plan, 1, b, i, offset));
  poke<uint8_t>(plan.dense ? out + i : out + offset[0], hit);
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
