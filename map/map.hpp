// Your own pointwise op: a C++ lambda over numbers becomes one pass over tensors, with its derivatives.
//
//   Tensor y = weft::map([](auto x, auto y) { return x * exp(-y); }, a, b);
//
// The lambda takes `auto` arguments and may use + - * /, comparisons, select(mask, a, b), C++ numbers, captures by
// value, and every pointwise op by its name (exp, tanh, pow, maximum, gelu_erf, …; no `using` is needed). It is
// compiled for numbers, for dual numbers (the gradient) and for dual numbers of dual numbers (the second derivative):
// each is one loop that reads the operands once. docs/map.md has more.
#pragma once

#include <type_traits>

#include "map_loops.hpp"
#include "../tensor/index.hpp"

namespace weft {

namespace detail {

/// `operands`: as many as the program has inputs.
WEFT_API Tensor run_map(const MapProgram& program, const void* function, const Operand* const* operands);

template <class F, class... Operands>
Tensor map_over(const F& f, const Operands&... operands) {
  using Number = math::Number<float>;
  static_assert(std::is_invocable_v<const F&, std::conditional_t<true, Number, Operands>...>,
                "weft::map: the function must take one `auto` for each operand, and be callable while const");
  const Operand* const list[] = {&operands...};
  return run_map(map_program<F, sizeof...(Operands)>, &f, list);
}

}  // namespace detail

/// f applied elementwise to the operands, which broadcast and are promoted as in other ops; at most six, tensors or C++
/// numbers. A new contiguous tensor: of the operands' dtype where f gives a number (f32 where integers give a fraction:
/// x / y, exp(x), x * 0.5), bool where it gives a bool. The computation runs in f32 for the 16-bit floats and in i64
/// for integers. Twice differentiable in floating operands; NotImplementedError for a third derivative. f is copied
/// into the graph and may be called from several threads at once: it must not change its captures. ShapeError where
/// shapes do not broadcast, DeviceError where devices differ. Off the CPU f is one op, `exp(x)`, `x * y`, `clamp(x, 0,
/// 1)`, by that op's kernel and with its derivatives; NotImplementedError for every other f.
template <class F>
Tensor map(const F& f, const Operand& a) {
  return detail::map_over(f, a);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b) {
  return detail::map_over(f, a, b);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b, const Operand& c) {
  return detail::map_over(f, a, b, c);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b, const Operand& c, const Operand& d) {
  return detail::map_over(f, a, b, c, d);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b, const Operand& c, const Operand& d, const Operand& e) {
  return detail::map_over(f, a, b, c, d, e);
}
template <class F>
Tensor map(const F& f, const Operand& a, const Operand& b, const Operand& c, const Operand& d, const Operand& e,
           const Operand& g) {
  return detail::map_over(f, a, b, c, d, e, g);
}

}  // namespace weft
