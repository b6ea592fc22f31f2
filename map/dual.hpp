// The numbers that a function given to weft::map computes with: plain ones, whole ones, and dual ones, which carry
// derivatives along (Clifford 1871; forward-mode differentiation).
//
// All have + - * /, comparisons that give bool, and every pointwise op by its name: exp, tanh, pow, maximum, clamp,
// gelu_erf, …, found by argument-dependent lookup. C++ numbers convert to them. The formulas of values and derivatives
// are those of backends/functors/, so a row that is added there is here too.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <utility>

#include "../backends/functors/formulas.hpp"
#include "../backends/functors/lists.hpp"
#include "elementary.hpp"
#include "../tensor/scalar.hpp"

namespace weft::math {

/// float or double with the functions that formulas use. Dual contains it; functions given to map see Dual.
template <std::floating_point T>
struct Plain {
  T value;

  Plain() = default;
  // Written out, here and in Dual: an object that is copied as a block stays in memory, and its loop is not vectorised.
  WEFT_FN Plain(const Plain& other) : value(other.value) {}
  WEFT_FN Plain& operator=(const Plain& other) {
    value = other.value;
    return *this;
  }
  template <Arithmetic A>
  WEFT_FN Plain(A number) : value(static_cast<T>(number)) {}

  friend WEFT_FN Plain operator+(Plain a, Plain b) { return a.value + b.value; }
  friend WEFT_FN Plain operator-(Plain a, Plain b) { return a.value - b.value; }
  friend WEFT_FN Plain operator*(Plain a, Plain b) { return a.value * b.value; }
  friend WEFT_FN Plain operator/(Plain a, Plain b) { return a.value / b.value; }
  friend WEFT_FN Plain operator-(Plain a) { return -a.value; }
  friend WEFT_FN bool operator==(Plain a, Plain b) { return a.value == b.value; }
  friend WEFT_FN bool operator!=(Plain a, Plain b) { return a.value != b.value; }
  friend WEFT_FN bool operator<(Plain a, Plain b) { return a.value < b.value; }
  friend WEFT_FN bool operator<=(Plain a, Plain b) { return a.value <= b.value; }
  friend WEFT_FN bool operator>(Plain a, Plain b) { return a.value > b.value; }
  friend WEFT_FN bool operator>=(Plain a, Plain b) { return a.value >= b.value; }

#if !defined(__FAST_MATH__)  // reassociation would break error-free sums; compilers then have vector functions
  friend WEFT_FN Plain exp(Plain x) { return weft::detail::fast_exp(x.value); }
  friend WEFT_FN Plain expm1(Plain x) { return weft::detail::fast_expm1(x.value); }
  friend WEFT_FN Plain tanh(Plain x) { return weft::detail::fast_tanh(x.value); }
  friend WEFT_FN Plain log(Plain x) { return weft::detail::fast_log(x.value); }
  friend WEFT_FN Plain log1p(Plain x) { return weft::detail::fast_log1p(x.value); }
  friend WEFT_FN Plain sqrt(Plain x) { return weft::detail::fast_sqrt(x.value); }
  friend WEFT_FN Plain floor(Plain x) { return weft::detail::fast_floor(x.value); }
  friend WEFT_FN Plain ceil(Plain x) { return std::copysign(-weft::detail::fast_floor(-x.value), x.value); }
  friend WEFT_FN Plain trunc(Plain x) { return std::copysign(weft::detail::fast_floor(std::fabs(x.value)), x.value); }
#endif
  friend WEFT_FN Plain abs(Plain x) { return std::fabs(x.value); }
  friend WEFT_FN Plain select(bool mask, Plain a, Plain b) { return weft::detail::choose(mask, a.value, b.value); }
  /// slope * factor, where a slope of 0 stays 0 whatever the factor: a term that does not depend on an input gets none
  /// of its infinities. The compiler drops terms that are the constant 0.
  friend WEFT_FN Plain along(Plain slope, Plain factor) {
    return weft::detail::choose(slope.value == T(0), T(0), slope.value * factor.value);
  }
};

// C's functions, for those that have no overload above; an overload is the better match.
#define WEFT_PLAIN_FUNCTION(name)     \
  template <std::floating_point T>    \
  WEFT_FN Plain<T> name(Plain<T> x) { \
    return std::name(x.value);        \
  }
#define WEFT_PLAIN_FUNCTION_OF_TWO(name)          \
  template <std::floating_point T>                \
  WEFT_FN Plain<T> name(Plain<T> a, Plain<T> b) { \
    return std::name(a.value, b.value);           \
  }
WEFT_ELEMENTARY_FUNCTIONS(WEFT_PLAIN_FUNCTION)
WEFT_ELEMENTARY_FUNCTIONS_OF_TWO(WEFT_PLAIN_FUNCTION_OF_TWO)
#undef WEFT_PLAIN_FUNCTION
#undef WEFT_PLAIN_FUNCTION_OF_TWO

/// The slope in direction k, as an expression.
#define WEFT_SLOPE(...) \
  [&]([[maybe_unused]] auto k) __attribute__((always_inline)) { return __VA_ARGS__; }

/// A value and its derivatives along n directions. With V = Plain<T> it is a number of type T, plain where n is 0; with
/// V = Dual it carries second derivatives.
template <class V, int n>
struct Dual {
  V value;
  V slope[n > 0 ? n : 1];

  WEFT_FN Dual() : Dual(V(0)) {}
  WEFT_FN Dual(const Dual& other) : Dual(other.value, WEFT_SLOPE(other.slope[k])) {}
  template <Arithmetic A>
  WEFT_FN Dual(A number) : Dual(V(number)) {}
  WEFT_FN explicit Dual(const V& v) : Dual(v, WEFT_SLOPE(V(0))) {}
  WEFT_FN Dual& operator=(const Dual& other) {
    value = other.value;
    fill(WEFT_SLOPE(other.slope[k]));
    return *this;
  }

  friend WEFT_FN Dual operator+(const Dual& a, const Dual& b) {
    return Dual(a.value + b.value, WEFT_SLOPE(a.slope[k] + b.slope[k]));
  }
  friend WEFT_FN Dual operator-(const Dual& a, const Dual& b) {
    return Dual(a.value - b.value, WEFT_SLOPE(a.slope[k] - b.slope[k]));
  }
  friend WEFT_FN Dual operator*(const Dual& a, const Dual& b) {
    return Dual(a.value * b.value, WEFT_SLOPE(along(a.slope[k], b.value) + along(b.slope[k], a.value)));
  }
  friend WEFT_FN Dual operator/(const Dual& a, const Dual& b) { return binary<functors::Div>(a, b); }
  friend WEFT_FN Dual operator-(const Dual& a) { return Dual(-a.value, WEFT_SLOPE(-a.slope[k])); }
  friend WEFT_FN Dual operator+(const Dual& a) { return a; }
  WEFT_FN Dual& operator+=(const Dual& b) { return *this = *this + b; }
  WEFT_FN Dual& operator-=(const Dual& b) { return *this = *this - b; }
  WEFT_FN Dual& operator*=(const Dual& b) { return *this = *this * b; }
  WEFT_FN Dual& operator/=(const Dual& b) { return *this = *this / b; }
  friend WEFT_FN bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
  friend WEFT_FN bool operator!=(const Dual& a, const Dual& b) { return a.value != b.value; }
  friend WEFT_FN bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend WEFT_FN bool operator<=(const Dual& a, const Dual& b) { return a.value <= b.value; }
  friend WEFT_FN bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }
  friend WEFT_FN bool operator>=(const Dual& a, const Dual& b) { return a.value >= b.value; }

#define WEFT_DUAL_UNARY(name, Functor, ...) \
  friend WEFT_FN Dual name(const Dual& x) { return unary<functors::Functor>(x); }
#define WEFT_DUAL_BINARY(name, Functor, ...) \
  friend WEFT_FN Dual name(const Dual& a, const Dual& b) { return binary<functors::Functor>(a, b); }
#define WEFT_DUAL_TERNARY(name, Functor, ...) \
  friend WEFT_FN Dual name(const Dual& a, const Dual& b, const Dual& c) { return ternary<functors::Functor>(a, b, c); }
  WEFT_UNARY_OPS(WEFT_DUAL_UNARY)
  WEFT_BINARY_OPS(WEFT_DUAL_BINARY)
  WEFT_TERNARY_OPS(WEFT_DUAL_TERNARY)
#undef WEFT_DUAL_UNARY
#undef WEFT_DUAL_BINARY
#undef WEFT_DUAL_TERNARY
  friend WEFT_FN Dual rint(const Dual& x) { return round(x); }
  /// a where `mask` holds, else b; both are computed.
  friend WEFT_FN Dual select(bool mask, const Dual& a, const Dual& b) {
    return Dual(select(mask, a.value, b.value), WEFT_SLOPE(select(mask, a.slope[k], b.slope[k])));
  }
  friend WEFT_FN Dual along(const Dual& slope, const Dual& factor) {
    return Dual(along(slope.value, factor.value),
                WEFT_SLOPE(along(slope.slope[k], factor.value) + along(factor.slope[k], slope.value)));
  }

 private:
  template <class F>
  WEFT_FN Dual(const V& v, const F& slope_at) : value(v) {
    fill(slope_at);
  }
  // Constant indices, so that the slopes are in registers before loops are optimised.
  template <class F>
  WEFT_FN void fill(const F& slope_at) {
    [&]<int... k>(std::integer_sequence<int, k...>) __attribute__((always_inline)) {
      ((slope[k] = slope_at(std::integral_constant<int, k>())), ...);
    }
    (std::make_integer_sequence<int, n>());
  }
  template <class F>
  static WEFT_FN Dual unary(const Dual& x) {
    const V y = F::value(x.value);
    if constexpr (n == 0) return Dual(y);
    const V factor = F::gradient(V(1), int{F::saves} == int{functors::saves_output} ? y : x.value);
    return Dual(y, WEFT_SLOPE(along(x.slope[k], factor)));
  }
  template <class F>
  static WEFT_FN Dual binary(const Dual& a, const Dual& b) {
    const V y = F::value(a.value, b.value);
    if constexpr (n == 0) return Dual(y);
    const V to_a = F::gradient_a(V(1), a.value, b.value, y), to_b = F::gradient_b(V(1), a.value, b.value, y);
    return Dual(y, WEFT_SLOPE(along(a.slope[k], to_a) + along(b.slope[k], to_b)));
  }
  template <class F>
  static WEFT_FN Dual ternary(const Dual& a, const Dual& b, const Dual& c) {
    const V y = F::value(a.value, b.value, c.value);
    if constexpr (n == 0) return Dual(y);
    const V to_a = F::gradient_a(V(1), a.value, b.value, c.value);
    const V to_b = F::gradient_b(V(1), a.value, b.value, c.value);
    const V to_c = F::gradient_c(V(1), a.value, b.value, c.value);
    return Dual(y, WEFT_SLOPE(along(a.slope[k], to_a) + along(b.slope[k], to_b) + along(c.slope[k], to_c)));
  }
};

#undef WEFT_SLOPE

template <std::floating_point T>
using Number = Dual<Plain<T>, 0>;

/// An integer, as an element of an integer tensor. Division, functions such as exp, and arithmetic with a C++ double
/// do not stay integers: they give a Number<float>, as the ops of the same name give f32.
struct Whole {
  int64_t value = 0;

  Whole() = default;
  template <std::integral A>
  WEFT_FN Whole(A number) : value(static_cast<int64_t>(number)) {}
  // A conversion in one direction only, so that `x > 0 ? x : 0.5` has a common type.
  template <std::floating_point A>
  WEFT_FN operator A() const {
    return static_cast<A>(value);
  }

  friend WEFT_FN Whole operator+(Whole a, Whole b) { return wrapped(uint64_t(a.value) + uint64_t(b.value)); }
  friend WEFT_FN Whole operator-(Whole a, Whole b) { return wrapped(uint64_t(a.value) - uint64_t(b.value)); }
  friend WEFT_FN Whole operator*(Whole a, Whole b) { return wrapped(uint64_t(a.value) * uint64_t(b.value)); }
  friend WEFT_FN Number<float> operator/(Whole a, Whole b) { return a.number() / b.number(); }
  friend WEFT_FN Whole operator-(Whole a) { return wrapped(-uint64_t(a.value)); }
  friend WEFT_FN Whole operator+(Whole a) { return a; }
  friend auto operator<=>(Whole a, Whole b) = default;
  WEFT_FN Whole& operator+=(Whole b) { return *this = *this + b; }
  WEFT_FN Whole& operator-=(Whole b) { return *this = *this - b; }
  WEFT_FN Whole& operator*=(Whole b) { return *this = *this * b; }
  WEFT_FN Number<float> number() const { return Number<float>(value); }

 private:
  static WEFT_FN Whole wrapped(uint64_t bits) { return Whole(static_cast<int64_t>(bits)); }
};

// Templates, which take their arguments unconverted, so that C's functions never match as well.

/// Arguments of which at least one is a Whole. With integers the result is a Whole, with other numbers it is not.
template <class... A>
concept WithWhole = (std::same_as<A, Whole> || ...) &&
                    ((std::same_as<A, Whole> || Arithmetic<A> || std::same_as<A, Number<float>>)&&...);
template <class... A>
concept AllWhole = ((std::same_as<A, Whole> || std::integral<A>)&&...);

namespace detail {

WEFT_FN Number<float> as_number(Whole x) { return x.number(); }
WEFT_FN const Number<float>& as_number(const Number<float>& x) { return x; }
template <Arithmetic A>
WEFT_FN Number<float> as_number(A x) {
  return Number<float>(x);
}
template <class F, PointwiseKind kind, class... A>
WEFT_FN auto apply_whole(const A&... a) {
  if constexpr (serves_integers(kind) && AllWhole<A...>)
    return Whole(F::value(functors::Whole<int64_t>(Whole(a).value)...).raw);
  else return Number<float>(F::value(as_number(a).value...));
}

}  // namespace detail

// Also for a Whole and an integer, where some compilers find a built-in operator an equally good match.
#define WEFT_WHOLE_OPERATOR(op)                                                      \
  template <class A, class B>                                                        \
    requires(WithWhole<A, B> && !(std::same_as<A, Whole> && std::same_as<B, Whole>)) \
  WEFT_FN auto operator op(const A& a, const B& b) {                                 \
    if constexpr (AllWhole<A, B>) return Whole(a) op Whole(b);                       \
    else return detail::as_number(a) op detail::as_number(b);                        \
  }
WEFT_WHOLE_OPERATOR(+)
WEFT_WHOLE_OPERATOR(-)
WEFT_WHOLE_OPERATOR(*)
WEFT_WHOLE_OPERATOR(/)
WEFT_WHOLE_OPERATOR(<)
WEFT_WHOLE_OPERATOR(<=)
WEFT_WHOLE_OPERATOR(>)
WEFT_WHOLE_OPERATOR(>=)
WEFT_WHOLE_OPERATOR(==)
WEFT_WHOLE_OPERATOR(!=)
#undef WEFT_WHOLE_OPERATOR

#define WEFT_WHOLE_OP(name, Functor, kind, ...)                               \
  template <class... A>                                                       \
  requires WithWhole<A...> WEFT_FN auto name(const A&... a) {                 \
    return detail::apply_whole<functors::Functor, PointwiseKind::kind>(a...); \
  }
WEFT_UNARY_OPS(WEFT_WHOLE_OP)
WEFT_BINARY_OPS(WEFT_WHOLE_OP)
WEFT_TERNARY_OPS(WEFT_WHOLE_OP)
#undef WEFT_WHOLE_OP

template <class A, class B>
requires WithWhole<A, B> WEFT_FN auto select(bool mask, const A& a, const B& b) {
  if constexpr (AllWhole<A, B>) return mask ? Whole(a) : Whole(b);
  else return select(mask, detail::as_number(a), detail::as_number(b));
}

}  // namespace weft::math
