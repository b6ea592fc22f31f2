// Loops of comparisons and of `where`, vectorised by the compiler.
#include "loops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/pointwise/loops_compare.cpp"
#include "../simd/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"
#include "../simd/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <class F, class T, int mask>
HWY_NOINLINE void compare_loop(void* out, const void* a, const void* b, int64_t n) {
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;  // any byte but 0 is true
  auto* o = static_cast<uint8_t*>(out);
  auto* x = static_cast<const Stored*>(a);
  auto* y = static_cast<const Stored*>(b);
  if constexpr (mask == 0) {
    for (int64_t i = 0; i < n; ++i) o[i] = F::value(T(x[i]), T(y[i]));
  } else {
    const T one(*y);
    for (int64_t i = 0; i < n; ++i) o[i] = F::value(T(x[i]), one);
  }
}

template <class F, class T>
void mirrored_loop(void* out, const void* a, const void* b, int64_t n) {
  compare_loop<typename F::Mirror, T, 2>(out, b, a, n);
}

/// Symmetric comparisons need no order, and are the same for signed and unsigned integers.
template <class F, class T>
using Compared = std::conditional_t<std::is_same_v<F, typename F::Mirror>, Bits<T>, T>;

template <class T>
void fill_compare_slot(CompareLoops& loops, Slot slot){
#define WEFT_ROW(name, F, ...)                                       \
  {                                                                  \
    auto& row = loops.loop[static_cast<int>(CompareOp::name)][slot]; \
    using Read = Compared<functors::F, T>;                           \
    row[0] = compare_loop<functors::F, Read, 0>;                     \
    row[1] = mirrored_loop<functors::F, Read>;                       \
    row[2] = compare_loop<functors::F, Read, 2>;                     \
  }
    WEFT_COMPARE_OPS(WEFT_ROW)
#undef WEFT_ROW
} HWY_NOINLINE bool has_large_ties(const double* a, const double* b, int64_t n) {
  int64_t ties = 0;
  for (int64_t i = 0; i < n; ++i) ties |= (a[i] == b[i]) & ((a[i] >= 0x1p53) | (a[i] <= -0x1p53));
  return ties != 0;
}

void fill_compare(CompareLoops& loops) {
  loops.has_large_ties = has_large_ties;
  fill_compare_slot<bool>(loops, slot_bool);
  fill_compare_slot<uint8_t>(loops, slot_u8);
  fill_compare_slot<int8_t>(loops, slot_i8);
  fill_compare_slot<int16_t>(loops, slot_i16);
  fill_compare_slot<int32_t>(loops, slot_i32);
  fill_compare_slot<uint64_t>(loops, slot_u64);
  fill_compare_slot<int64_t>(loops, slot_i64);
  fill_compare_slot<float>(loops, slot_f32);
  fill_compare_slot<double>(loops, slot_f64);
}

template <class T, int mask>
void select_loop(void* out, const void* condition, const void* a, const void* b, int64_t n) {
  auto* o = static_cast<T*>(out);
  auto* c = static_cast<const uint8_t*>(condition);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  const T first_a = (mask & 2) != 0 ? *x : T{}, first_b = (mask & 4) != 0 ? *y : T{};
  for (int64_t i = 0; i < n; ++i) {
    const T if_true = (mask & 2) != 0 ? first_a : x[i];
    const T if_false = (mask & 4) != 0 ? first_b : y[i];
    o[i] = c[i] != 0 ? if_true : if_false;
  }
}
template <class T>
void fill_select_row(TernaryLoop (&row)[8]) {
  row[0] = select_loop<T, 0>;
  row[2] = select_loop<T, 2>;
  row[4] = select_loop<T, 4>;
  row[6] = select_loop<T, 6>;
}
void fill_select(SelectLoops& loops) {
  fill_select_row<uint8_t>(loops.loop[0]);
  fill_select_row<uint16_t>(loops.loop[1]);
  fill_select_row<uint32_t>(loops.loop[2]);
  fill_select_row<uint64_t>(loops.loop[3]);
  fill_select_row<complex128>(loops.loop[4]);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(fill_compare);
HWY_EXPORT(fill_select);
void choose_compare_loops() {
  HWY_DYNAMIC_DISPATCH(fill_compare)(compare_loops);
  HWY_DYNAMIC_DISPATCH(fill_select)(select_loops);
}
}  // namespace weft::cpu
#endif
