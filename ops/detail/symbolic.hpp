// A value type for the formulas of backends/functors/: arithmetic on tensors, so that a gradient written once for
// registers is also differentiable.
#pragma once

#include "../complex.hpp"
#include "../create.hpp"
#include "../pointwise.hpp"
#include "../special.hpp"

namespace weft {

struct Symbolic {
  Tensor tensor;

  explicit Symbolic(Tensor t) : tensor(std::move(t)) {}
  explicit Symbolic(double constant) : tensor(Operand(constant, Location::none()).tensor()) {}

  const Tensor& get() const& { return tensor; }
  Tensor&& get() && { return std::move(tensor); }
};

template <class T>
concept SymbolicValue = std::is_same_v<std::remove_cvref_t<T>, Symbolic>;

#define WEFT_SYMBOLIC_OPERATOR(symbol)                                         \
  template <SymbolicValue A, SymbolicValue B>                                  \
  Symbolic operator symbol(A&& a, B&& b) {                                     \
    return Symbolic(std::forward<A>(a).get() symbol std::forward<B>(b).get()); \
  }
WEFT_SYMBOLIC_OPERATOR(+)
WEFT_SYMBOLIC_OPERATOR(-)
WEFT_SYMBOLIC_OPERATOR(*)
WEFT_SYMBOLIC_OPERATOR(/)
WEFT_SYMBOLIC_OPERATOR(==)
WEFT_SYMBOLIC_OPERATOR(<)
WEFT_SYMBOLIC_OPERATOR(<=)
WEFT_SYMBOLIC_OPERATOR(>)
WEFT_SYMBOLIC_OPERATOR(>=)
#undef WEFT_SYMBOLIC_OPERATOR

template <SymbolicValue A>
Symbolic operator-(A&& a) {
  return Symbolic(-std::forward<A>(a).get());
}

#define WEFT_SYMBOLIC_FUNCTION(name, ...) \
  inline Symbolic name(const Symbolic& x) { return Symbolic(weft::name(x.tensor)); }
WEFT_UNARY_OPS(WEFT_SYMBOLIC_FUNCTION)
#undef WEFT_SYMBOLIC_FUNCTION

#define WEFT_SYMBOLIC_FUNCTION(name, ...) \
  inline Symbolic name(const Symbolic& a, const Symbolic& b) { return Symbolic(weft::name(a.tensor, b.tensor)); }
WEFT_BINARY_OPS(WEFT_SYMBOLIC_FUNCTION)
#undef WEFT_SYMBOLIC_FUNCTION

/// The derivative of digamma, which formulas call so.
inline Symbolic trigamma(const Symbolic& x) { return Symbolic(weft::polygamma(1, x.tensor)); }

/// A choice between two numbers by a number is a number again, so that it takes the dtype of the tensors it meets; by a
/// tensor it is in f64, to which the gradient is rounded once.
inline Symbolic select(const Symbolic& mask, const Symbolic& a, const Symbolic& b) {
  const auto is_number = [](const Symbolic& x) { return x.tensor.impl()->wrapped_number; };
  if (!is_number(a) || !is_number(b)) return Symbolic(weft::where(mask.tensor, a.tensor, b.tensor));
  if (is_number(mask)) return mask.tensor.item<bool>() ? a : b;
  const auto in_full = [](const Symbolic& x) { return full({}, x.tensor.item_scalar(), DType::f64); };
  return Symbolic(weft::where(mask.tensor, in_full(a), in_full(b)));
}
inline Symbolic zeros_like(const Symbolic& x) { return Symbolic(weft::zeros_like(x.tensor)); }
inline Symbolic real_part(const Symbolic& x) { return Symbolic(weft::real(x.tensor)); }
/// A C++ number, which broadcasts.
inline Symbolic zero_like(const Symbolic&) { return Symbolic(0.0); }

}  // namespace weft
