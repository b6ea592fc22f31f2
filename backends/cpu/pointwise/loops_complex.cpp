// Loops over complex numbers, from the formulas of the ops that are holomorphic.
#include <cmath>

#include "../../functors/formulas.hpp"
#include "../../functors/complex.hpp"
#include "../../functors/compare.hpp"
#include "loops.hpp"

namespace weft::cpu {
namespace {

template <class F, class T>
void unary_loop(void* out, const void* a, int64_t n) {
  auto* o = static_cast<T*>(out);
  auto* x = static_cast<const T*>(a);
  for (int64_t i = 0; i < n; ++i) o[i] = F::value(x[i]);
}
template <class F, class T>
void gradient_loop(void* out, const void* g, const void* saved, int64_t n) {
  auto* o = static_cast<T*>(out);
  auto* from = static_cast<const T*>(g);
  auto* s = static_cast<const T*>(saved);
  for (int64_t i = 0; i < n; ++i) o[i] = conj(F::gradient(conj(from[i]), s[i]));
}
template <class F, class T, int mask>
void binary_loop(void* out, const void* a, const void* b, int64_t n) {
  auto* o = static_cast<T*>(out);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  const T first_x = mask == 1 ? *x : T(), first_y = mask == 2 ? *y : T();
  for (int64_t i = 0; i < n; ++i) o[i] = F::value(mask == 1 ? first_x : x[i], mask == 2 ? first_y : y[i]);
}
template <class F, class T, int mask>
void ternary_loop(void* out, const void* a, const void* b, const void* c, int64_t n) {
  auto* o = static_cast<T*>(out);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  auto* z = static_cast<const T*>(c);
  const T first_y = (mask & 2) != 0 ? *y : T(), first_z = (mask & 4) != 0 ? *z : T();
  for (int64_t i = 0; i < n; ++i) {
    o[i] = F::value(x[i], (mask & 2) != 0 ? first_y : y[i], (mask & 4) != 0 ? first_z : z[i]);
  }
}
template <class F, class T, int mask>
void compare_loop(void* out, const void* a, const void* b, int64_t n) {
  auto* o = static_cast<uint8_t*>(out);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  const T first_x = mask == 1 ? *x : T(), first_y = mask == 2 ? *y : T();
  for (int64_t i = 0; i < n; ++i) o[i] = F::value(mask == 1 ? first_x : x[i], mask == 2 ? first_y : y[i]);
}

template <class F, class T>
void set(UnaryLoop (&value)[2], BinaryLoop (&gradient)[4]) {
  if constexpr (functors::Holomorphic<F>) {
    value[0] = unary_loop<F, T>;
    gradient[0] = gradient_loop<F, T>;
  }
}
template <class F, class T>
void set(BinaryLoop (&row)[4]) {
  if constexpr (functors::Holomorphic<F>) {
    row[0] = binary_loop<F, T, 0>;
    row[1] = binary_loop<F, T, 1>;
    row[2] = binary_loop<F, T, 2>;
  }
}
template <class F, class T>
void set(TernaryLoop (&row)[8]) {
  if constexpr (functors::Holomorphic<F>) {
    row[0] = ternary_loop<F, T, 0>;
    row[4] = ternary_loop<F, T, 4>;
    row[6] = ternary_loop<F, T, 6>;
  }
}
template <class F, class T>
void set_compare(CompareOp op, Slot slot) {
  auto& row = compare_loops.loop[static_cast<int>(op)][slot];
  row[0] = compare_loop<F, T, 0>;
  row[1] = compare_loop<F, T, 1>;
  row[2] = compare_loop<F, T, 2>;
}

template <class T>
void fill_slot(Slot slot) {
#define WEFT_ROW(name, F, ...)                                                 \
  set<functors::F, T>(unary_loops.loop[static_cast<int>(UnaryOp::name)][slot], \
                      gradient_loops.loop[static_cast<int>(UnaryOp::name)][slot]);
  WEFT_UNARY_OPS(WEFT_ROW)
#undef WEFT_ROW
#define WEFT_ROW(name, F, ...) set<functors::F, T>(binary_loops.loop[static_cast<int>(BinaryOp::name)][slot]);
  WEFT_BINARY_OPS(WEFT_ROW)
#undef WEFT_ROW
#define WEFT_ROW(name, F, ...) set<functors::F, T>(ternary_loops.loop[static_cast<int>(TernaryOp::name)][slot]);
  WEFT_TERNARY_OPS(WEFT_ROW)
#undef WEFT_ROW
  set_compare<functors::Equal, T>(CompareOp::eq, slot);
  set_compare<functors::NotEqual, T>(CompareOp::ne, slot);
  set_compare<functors::LogicalAnd, T>(CompareOp::logical_and, slot);
  set_compare<functors::LogicalOr, T>(CompareOp::logical_or, slot);
  set_compare<functors::LogicalXor, T>(CompareOp::logical_xor, slot);
}

template <class To, class From>
void convert_loop(void* out, const void* a, int64_t n) {
  using Part = typename To::value_type;
  auto* o = static_cast<To*>(out);
  auto* x = static_cast<const char*>(a);
  for (int64_t i = 0; i < n; ++i) {
    const From value = element_at<From>(x + i * static_cast<int64_t>(sizeof(From)));
    if constexpr (ComplexNumber<From>) o[i] = To(static_cast<Part>(value.re), static_cast<Part>(value.im));
    else if constexpr (std::is_arithmetic_v<From>) o[i] = To(static_cast<Part>(value));
    else o[i] = To(static_cast<Part>(to_float(value)));
  }
}
template <class From>
void truth_loop(void* out, const void* a, int64_t n) {
  auto* o = static_cast<uint8_t*>(out);
  auto* x = static_cast<const From*>(a);
  for (int64_t i = 0; i < n; ++i) o[i] = x[i] != From(0);
}
template <class T>
void fill_convert() {
  constexpr int to = static_cast<int>(dtype_of<T>());
  for (int from = 0; from < dtype_count; ++from) {
    visit_dtype(static_cast<DType>(from), [&]<class From>() {
      if constexpr (!std::is_same_v<T, From>) convert_loops.loop[to][from] = convert_loop<T, From>;
    });
  }
  convert_loops.loop[static_cast<int>(DType::boolean)][to] = truth_loop<T>;
}

}  // namespace

void choose_complex_loops() {
  fill_slot<Complex<float>>(slot_c64);
  fill_slot<Complex<double>>(slot_c128);
  fill_convert<Complex<float>>();
  fill_convert<Complex<double>>();
}

}  // namespace weft::cpu
