// Loops of the unary, binary and ternary formulas over integers and bool, vectorised by the compiler.
#include "loops.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/pointwise/loops_integer.cpp"
#include "../simd/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "../simd/small_baseline-inl.hpp"
#include "../simd/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <class T>
using Storage = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

// ---- loops that several formulas and types share ----

template <class F, class... Formulas>
constexpr bool is_one_of = (std::is_same_v<F, Formulas> || ...);

template <class F>
constexpr bool commutes = is_one_of<F, functors::Add, functors::Mul, functors::Maximum, functors::Minimum,
                                    functors::BitwiseAnd, functors::BitwiseOr, functors::BitwiseXor>;
template <class F>
constexpr bool ignores_sign =
    is_one_of<F, functors::Add, functors::Sub, functors::Mul, functors::Square, functors::Floor, functors::BitwiseAnd,
              functors::BitwiseOr, functors::BitwiseXor>;
template <class F, class T>
using Word = std::conditional_t<ignores_sign<F>, Bits<T>, T>;

/// The formula that F is on integers.
template <class F, class T>
struct OnIntegers {
  static constexpr bool keeps = is_one_of<F, functors::Ceil, functors::Round, functors::Trunc, functors::Conj>;
  using type = std::conditional_t<keeps, functors::Floor, F>;
};
template <class T>
struct OnIntegers<functors::Fmax, T> {
  using type = functors::Maximum;
};
template <class T>
struct OnIntegers<functors::Fmin, T> {
  using type = functors::Minimum;
};
template <std::unsigned_integral T>
struct OnIntegers<functors::FloorDivide, T> {
  using type = functors::TruncDivide;
};
template <std::unsigned_integral T>
struct OnIntegers<functors::Fmod, T> {
  using type = functors::Remainder;
};

// ---- the loops ----

template <class F, class T>
void integer_unary(void* out, const void* a, int64_t n) {
  auto* o = static_cast<Storage<T>*>(out);
  auto* x = static_cast<const Storage<T>*>(a);
  for (int64_t i = 0; i < n; ++i) o[i] = F::value(functors::Whole<T>(x[i])).raw;
}
template <class F, class T, int mask>
HWY_NOINLINE void integer_binary(void* out, const void* a, const void* b, int64_t n) {
  auto* o = static_cast<Storage<T>*>(out);
  auto* x = static_cast<const Storage<T>*>(a);
  auto* y = static_cast<const Storage<T>*>(b);
  if constexpr (mask == 0) {
    for (int64_t i = 0; i < n; ++i) o[i] = F::value(functors::Whole<T>(x[i]), functors::Whole<T>(y[i])).raw;
  } else {
    const functors::Whole<T> one(mask == 1 ? *x : *y);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (mask == 1) o[i] = F::value(one, functors::Whole<T>(y[i])).raw;
      else o[i] = F::value(functors::Whole<T>(x[i]), one).raw;
    }
  }
}
template <class F, class T>
void integer_mirrored(void* out, const void* a, const void* b, int64_t n) {
  integer_binary<F, T, 2>(out, b, a, n);
}
template <class F, class T>
void integer_ternary(void* out, const void* a, const void* b, const void* c, int64_t n) {
  auto* o = static_cast<Storage<T>*>(out);
  auto* x = static_cast<const Storage<T>*>(a);
  auto* y = static_cast<const Storage<T>*>(b);
  auto* z = static_cast<const Storage<T>*>(c);
  for (int64_t i = 0; i < n; ++i)
    o[i] = F::value(functors::Whole<T>(x[i]), functors::Whole<T>(y[i]), functors::Whole<T>(z[i])).raw;
}

template <class T>
constexpr bool serves(PointwiseKind kind) {
  return std::is_same_v<T, bool> ? serves_bool(kind) : serves_integers(kind);
}

template <class F, class T>
constexpr UnaryLoop unary_loop = integer_unary<F, Word<F, T>>;
template <class F, class T, int mask>
constexpr BinaryLoop binary_loop = integer_binary<F, Word<F, T>, mask>;
template <class F, class T>
  requires commutes<F>
constexpr BinaryLoop binary_loop<F, T, 1> = integer_mirrored<F, Word<F, T>>;

template <class T>
void fill_slot(Slot slot, UnaryLoops& unary, BinaryLoops& binary, TernaryLoops& ternary) {
#define WEFT_ROW(name, F, kind, ...)            \
  if constexpr (serves<T>(PointwiseKind::kind)) \
    unary.loop[static_cast<int>(UnaryOp::name)][slot][0] = unary_loop<typename OnIntegers<functors::F, T>::type, T>;
  WEFT_UNARY_OPS(WEFT_ROW)
#undef WEFT_ROW
#define WEFT_ROW(name, F, kind, ...)                                 \
  if constexpr (serves<T>(PointwiseKind::kind)) {                    \
    auto& row = binary.loop[static_cast<int>(BinaryOp::name)][slot]; \
    using Formula = typename OnIntegers<functors::F, T>::type;       \
    row[0] = binary_loop<Formula, T, 0>;                             \
    row[1] = binary_loop<Formula, T, 1>;                             \
    row[2] = binary_loop<Formula, T, 2>;                             \
  }
  WEFT_BINARY_OPS(WEFT_ROW)
  WEFT_INTEGER_OPS(WEFT_ROW)
#undef WEFT_ROW
#define WEFT_ROW(name, F, kind, ...)            \
  if constexpr (serves<T>(PointwiseKind::kind)) \
    ternary.loop[static_cast<int>(TernaryOp::name)][slot][0] = integer_ternary<functors::F, T>;
  WEFT_TERNARY_OPS(WEFT_ROW)
#undef WEFT_ROW
}

void fill_integer(UnaryLoops& unary, BinaryLoops& binary, TernaryLoops& ternary) {
  fill_slot<bool>(slot_bool, unary, binary, ternary);
  fill_slot<uint8_t>(slot_u8, unary, binary, ternary);
  fill_slot<int8_t>(slot_i8, unary, binary, ternary);
  fill_slot<int16_t>(slot_i16, unary, binary, ternary);
  fill_slot<int32_t>(slot_i32, unary, binary, ternary);
  fill_slot<uint64_t>(slot_u64, unary, binary, ternary);
  fill_slot<int64_t>(slot_i64, unary, binary, ternary);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(fill_integer);
void choose_integer_loops() { HWY_DYNAMIC_DISPATCH(fill_integer)(unary_loops, binary_loops, ternary_loops); }
}  // namespace weft::cpu
#endif
