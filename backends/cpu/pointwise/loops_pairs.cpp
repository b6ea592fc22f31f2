// Loops over complex numbers in registers, for the formulas that consist of arithmetic; loops_complex.cpp has all
// others.
#include "loops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/pointwise/loops_pairs.cpp"
#include "../simd/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"
#include "../simd/simd_complex-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class F, class T>
void unary_loop(void* out, const void* a, int64_t n) {
  for_pairs<T>(
      static_cast<T*>(out), n, [](Pairs<T> x) HWY_ATTR WEFT_INLINE { return F::value(x); }, PairArray<T>(a));
}
template <class F, class T>
void gradient_loop(void* out, const void* g, const void* saved, int64_t n) {
  const auto formula = [](Pairs<T> from, Pairs<T> x) HWY_ATTR WEFT_INLINE { return conj(F::gradient(conj(from), x)); };
  for_pairs<T>(static_cast<T*>(out), n, formula, PairArray<T>(g), PairArray<T>(saved));
}
template <class F, class A, class B, class T>
void binary_loop(void* out, const void* a, const void* b, int64_t n) {
  for_pairs<T>(
      static_cast<T*>(out), n, [](Pairs<T> x, Pairs<T> y) HWY_ATTR WEFT_INLINE { return F::value(x, y); }, A(a), B(b));
}
template <class F, class B, class C, class T>
void ternary_loop(void* out, const void* a, const void* b, const void* c, int64_t n) {
  const auto formula = [](Pairs<T> x, Pairs<T> y, Pairs<T> z) HWY_ATTR WEFT_INLINE { return F::value(x, y, z); };
  for_pairs<T>(static_cast<T*>(out), n, formula, PairArray<T>(a), B(b), C(c));
}

template <class F, class T>
void fill_unary(UnaryOp op, Slot slot) {
  unary_loops.loop[static_cast<int>(op)][slot][0] = unary_loop<F, T>;
  gradient_loops.loop[static_cast<int>(op)][slot][0] = gradient_loop<F, T>;
}
template <class F, class T>
void fill_binary(BinaryOp op, Slot slot) {
  auto& loop = binary_loops.loop[static_cast<int>(op)][slot];
  loop[0] = binary_loop<F, PairArray<T>, PairArray<T>, T>;
  loop[1] = binary_loop<F, RepeatedPair<T>, PairArray<T>, T>;
  loop[2] = binary_loop<F, PairArray<T>, RepeatedPair<T>, T>;
}
template <class F, class T>
void fill_ternary(TernaryOp op, Slot slot) {
  auto& loop = ternary_loops.loop[static_cast<int>(op)][slot];
  loop[0] = ternary_loop<F, PairArray<T>, PairArray<T>, T>;
  loop[4] = ternary_loop<F, PairArray<T>, RepeatedPair<T>, T>;
  loop[6] = ternary_loop<F, RepeatedPair<T>, RepeatedPair<T>, T>;
}

template <class T>
void fill_slot(Slot slot) {
  fill_unary<functors::Neg, T>(UnaryOp::neg, slot);
  fill_unary<functors::Conj, T>(UnaryOp::conj, slot);
  fill_unary<functors::Square, T>(UnaryOp::square, slot);
  fill_unary<functors::Reciprocal, T>(UnaryOp::reciprocal, slot);
  fill_binary<functors::Add, T>(BinaryOp::add, slot);
  fill_binary<functors::Sub, T>(BinaryOp::sub, slot);
  fill_binary<functors::Mul, T>(BinaryOp::mul, slot);
  fill_binary<functors::Div, T>(BinaryOp::div, slot);
  fill_ternary<functors::Addcmul, T>(TernaryOp::addcmul, slot);
  fill_ternary<functors::Addcdiv, T>(TernaryOp::addcdiv, slot);
}

void fill_pairs() {
  fill_slot<float>(slot_c64);
  fill_slot<double>(slot_c128);
  fill_unary<functors::Exp, float>(UnaryOp::exp, slot_c64);
}

}  // namespace

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(fill_pairs);
void choose_pair_loops() { HWY_DYNAMIC_DISPATCH(fill_pairs)(); }
}  // namespace weft::cpu
#endif
