// A value type for the formulas of backends/functors/: arithmetic on tensors, so that a gradient written once for
// registers is also differentiable.
#pragma once

#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>

namespace weft {

struct Symbolic {
  Tensor tensor;
  Location where = Location::none();

  Symbolic(Tensor t, Location w) : tensor(std::move(t)), where(w) {}
  explicit Symbolic(double constant) : tensor(Operand(constant, Location::none()).tensor()) {}

  const Tensor& get() const& { return tensor; }
  Tensor&& get() && { return std::move(tensor); }
};

template <class T>
concept SymbolicValue = std::is_same_v<std::remove_cvref_t<T>, Symbolic>;

inline Location place(const Symbolic& a, const Symbolic& b) { return a.where.known() ? a.where : b.where; }

#define WEFT_SYMBOLIC_OPERATOR(symbol)                                                                        \
  template <SymbolicValue A, SymbolicValue B>                                                                 \
  Symbolic operator symbol(A&& a, B&& b) {                                                                    \
    const Location where = place(a, b);                                                                       \
    return {Operand(std::forward<A>(a).get(), where) symbol Operand(std::forward<B>(b).get(), where), where}; \
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
  const Location where = a.where;
  return {-Operand(std::forward<A>(a).get(), where), where};
}

#define WEFT_SYMBOLIC_FUNCTION(name, ...) \
  inline Symbolic name(const Symbolic& x) { return {weft::name(Operand(x.tensor, x.where)), x.where}; }
WEFT_UNARY_OPS(WEFT_SYMBOLIC_FUNCTION)
#undef WEFT_SYMBOLIC_FUNCTION

#define WEFT_SYMBOLIC_FUNCTION(name, ...)                                           \
  inline Symbolic name(const Symbolic& a, const Symbolic& b) {                      \
    const Location where = place(a, b);                                             \
    return {weft::name(Operand(a.tensor, where), Operand(b.tensor, where)), where}; \
  }
WEFT_BINARY_OPS(WEFT_SYMBOLIC_FUNCTION)
#undef WEFT_SYMBOLIC_FUNCTION

inline Symbolic select(const Symbolic& mask, const Symbolic& a, const Symbolic& b) {
  const Location where = place(a, b);
  return {weft::where(Operand(mask.tensor, where), Operand(a.tensor, where), Operand(b.tensor, where)), where};
}
inline Symbolic zeros_like(const Symbolic& x) { return {weft::zeros_like(x.tensor, x.where), x.where}; }
/// A weak 0: it broadcasts.
inline Symbolic zero_like(const Symbolic& x) {
  Symbolic zero(0.0);
  zero.where = x.where;
  return zero;
}

}  // namespace weft
