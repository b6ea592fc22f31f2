// The numbers that a function given to weft::map computes with: plain ones, whole ones, and dual ones, which carry
// derivatives along (Clifford 1871; forward-mode differentiation).
//
// All have + - * /, comparisons that give bool, and every pointwise op by its name: exp, tanh, pow, maximum, clamp,
// gelu_erf, …, found by argument-dependent lookup. C++ numbers convert to them. The formulas of values and derivatives
// are those of backends/functors/, so a row that is added there is here too.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <utility>

#include <weft/backends/functors/formulas.hpp>
#include <weft/ops/elementary.hpp>
#include <weft/tensor/scalar.hpp>

namespace weft::math {

/// float or double with the functions that formulas use. Dual holds it; functions given to map see Dual.
template <std::floating_point T>
struct Plain {
  T value{};

  Plain() = default;
  template <Arithmetic A>
  Plain(A number) : value(static_cast<T>(number)) {}

  friend Plain operator+(Plain a, Plain b) { return a.value + b.value; }
  friend Plain operator-(Plain a, Plain b) { return a.value - b.value; }
  friend Plain operator*(Plain a, Plain b) { return a.value * b.value; }
  friend Plain operator/(Plain a, Plain b) { return a.value / b.value; }
  friend Plain operator-(Plain a) { return -a.value; }
  friend bool operator==(Plain a, Plain b) { return a.value == b.value; }
  friend bool operator!=(Plain a, Plain b) { return a.value != b.value; }
  friend bool operator<(Plain a, Plain b) { return a.value < b.value; }
  friend bool operator<=(Plain a, Plain b) { return a.value <= b.value; }
  friend bool operator>(Plain a, Plain b) { return a.value > b.value; }
  friend bool operator>=(Plain a, Plain b) { return a.value >= b.value; }

#if defined(__FAST_MATH__)  // reassociation would break what rounding is used for; the compiler has vector functions
  friend Plain exp(Plain x) { return std::exp(x.value); }
  friend Plain expm1(Plain x) { return std::expm1(x.value); }
  friend Plain tanh(Plain x) { return std::tanh(x.value); }
  friend Plain log(Plain x) { return std::log(x.value); }
  friend Plain log1p(Plain x) { return std::log1p(x.value); }
#else
  friend Plain exp(Plain x) { return weft::detail::fast_exp(x.value); }
  friend Plain expm1(Plain x) { return weft::detail::fast_expm1(x.value); }
  friend Plain tanh(Plain x) { return weft::detail::fast_tanh(x.value); }
  friend Plain log(Plain x) { return weft::detail::fast_log(x.value); }
  friend Plain log1p(Plain x) { return weft::detail::fast_log1p(x.value); }
#endif
  friend Plain abs(Plain x) { return std::fabs(x.value); }
  friend Plain sqrt(Plain x) { return std::sqrt(x.value); }
  friend Plain sin(Plain x) { return std::sin(x.value); }
  friend Plain cos(Plain x) { return std::cos(x.value); }
  friend Plain erf(Plain x) { return std::erf(x.value); }
  friend Plain floor(Plain x) { return std::floor(x.value); }
  friend Plain ceil(Plain x) { return std::ceil(x.value); }
  friend Plain rint(Plain x) { return std::rint(x.value); }
  friend Plain trunc(Plain x) { return std::trunc(x.value); }
  friend Plain pow(Plain a, Plain b) { return std::pow(a.value, b.value); }
  friend Plain fmod(Plain a, Plain b) { return std::fmod(a.value, b.value); }
  friend Plain atan2(Plain a, Plain b) { return std::atan2(a.value, b.value); }
  friend Plain select(bool mask, Plain a, Plain b) { return weft::detail::choose(mask, a.value, b.value); }
  /// slope * factor, where a slope of 0 stays 0 whatever the factor: what does not depend on an input has no share in
  /// its infinities. The compiler drops the terms that are 0 from the start.
  friend Plain along(Plain slope, Plain factor) {
    return weft::detail::choose(slope.value == T(0), T(0), slope.value * factor.value);
  }
};

/// A value and its derivatives along n directions. With V = Plain<T> it is a number of type T, plain where n is 0; with
/// V = Dual it carries second derivatives.
template <class V, int n>
struct Dual {
  V value{};
  std::array<V, n> slope{};

  Dual() = default;
  template <Arithmetic A>
  Dual(A number) : value(number) {}
  explicit Dual(const V& v) : value(v) {}

  friend Dual operator+(const Dual& a, const Dual& b) {
    return make(a.value + b.value, [&](auto k) { return a.slope[k] + b.slope[k]; });
  }
  friend Dual operator-(const Dual& a, const Dual& b) {
    return make(a.value - b.value, [&](auto k) { return a.slope[k] - b.slope[k]; });
  }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return make(a.value * b.value, [&](auto k) { return along(a.slope[k], b.value) + along(b.slope[k], a.value); });
  }
  friend Dual operator/(const Dual& a, const Dual& b) { return binary<functors::Div>(a, b); }
  friend Dual operator-(const Dual& a) {
    return make(-a.value, [&](auto k) { return -a.slope[k]; });
  }
  friend Dual operator+(const Dual& a) { return a; }
  Dual& operator+=(const Dual& b) { return *this = *this + b; }
  Dual& operator-=(const Dual& b) { return *this = *this - b; }
  Dual& operator*=(const Dual& b) { return *this = *this * b; }
  Dual& operator/=(const Dual& b) { return *this = *this / b; }
  friend bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
  friend bool operator!=(const Dual& a, const Dual& b) { return a.value != b.value; }
  friend bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend bool operator<=(const Dual& a, const Dual& b) { return a.value <= b.value; }
  friend bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }
  friend bool operator>=(const Dual& a, const Dual& b) { return a.value >= b.value; }

#define WEFT_DUAL_UNARY(name, Functor, ...) \
  friend Dual name(const Dual& x) { return unary<functors::Functor>(x); }
#define WEFT_DUAL_BINARY(name, Functor, ...) \
  friend Dual name(const Dual& a, const Dual& b) { return binary<functors::Functor>(a, b); }
#define WEFT_DUAL_TERNARY(name, Functor, ...) \
  friend Dual name(const Dual& a, const Dual& b, const Dual& c) { return ternary<functors::Functor>(a, b, c); }
  WEFT_UNARY_OPS(WEFT_DUAL_UNARY)
  WEFT_BINARY_OPS(WEFT_DUAL_BINARY)
  WEFT_TERNARY_OPS(WEFT_DUAL_TERNARY)
#undef WEFT_DUAL_UNARY
#undef WEFT_DUAL_BINARY
#undef WEFT_DUAL_TERNARY
  friend Dual rint(const Dual& x) { return round(x); }
  /// a where `mask` holds, else b; both are computed.
  friend Dual select(bool mask, const Dual& a, const Dual& b) {
    return make(select(mask, a.value, b.value), [&](auto k) { return select(mask, a.slope[k], b.slope[k]); });
  }
  friend Dual along(const Dual& slope, const Dual& factor) {
    return make(along(slope.value, factor.value),
                [&](auto k) { return along(slope.slope[k], factor.value) + along(factor.slope[k], slope.value); });
  }

 private:
  // Constant indices, so that the slopes become registers before any loop is looked at.
  template <class F>
  static Dual make(const V& value, const F& slope) {
    return [&]<int... k>(std::integer_sequence<int, k...>) {
      Dual result(value);
      ((result.slope[k] = slope(std::integral_constant<int, k>())), ...);
      return result;
    }
    (std::make_integer_sequence<int, n>());
  }
  template <class F>
  static Dual unary(const Dual& x) {
    const V y = F::value(x.value);
    if constexpr (n == 0) return Dual(y);
    const V factor = F::gradient(V(1), int{F::saves} == int{functors::saves_output} ? y : x.value);
    return make(y, [&](auto k) { return along(x.slope[k], factor); });
  }
  template <class F>
  static Dual binary(const Dual& a, const Dual& b) {
    const V y = F::value(a.value, b.value);
    if constexpr (n == 0) return Dual(y);
    const V to_a = F::gradient_a(V(1), a.value, b.value, y), to_b = F::gradient_b(V(1), a.value, b.value, y);
    return make(y, [&](auto k) { return along(a.slope[k], to_a) + along(b.slope[k], to_b); });
  }
  template <class F>
  static Dual ternary(const Dual& a, const Dual& b, const Dual& c) {
    const V y = F::value(a.value, b.value, c.value);
    if constexpr (n == 0) return Dual(y);
    const V to_a = F::gradient_a(V(1), a.value, b.value, c.value);
    const V to_b = F::gradient_b(V(1), a.value, b.value, c.value);
    const V to_c = F::gradient_c(V(1), a.value, b.value, c.value);
    return make(y, [&](auto k) { return along(a.slope[k], to_a) + along(b.slope[k], to_b) + along(c.slope[k], to_c); });
  }
};

template <std::floating_point T>
using Number = Dual<Plain<T>, 0>;

/// An integer, as an element of an integer tensor. Division, functions such as exp, and arithmetic with a C++ double
/// leave the integers: they give a Number<float>, as the ops of the same name give float32.
struct Whole {
  int64_t value = 0;

  Whole() = default;
  template <std::integral A>
  Whole(A number) : value(static_cast<int64_t>(number)) {}
  // A conversion in one direction only, so that `x > 0 ? x : 0.5` has a type.
  template <std::floating_point A>
  operator A() const {
    return static_cast<A>(value);
  }

  friend Whole operator+(Whole a, Whole b) { return wrapped(uint64_t(a.value) + uint64_t(b.value)); }
  friend Whole operator-(Whole a, Whole b) { return wrapped(uint64_t(a.value) - uint64_t(b.value)); }
  friend Whole operator*(Whole a, Whole b) { return wrapped(uint64_t(a.value) * uint64_t(b.value)); }
  friend Number<float> operator/(Whole a, Whole b) { return a.number() / b.number(); }
  friend Whole operator-(Whole a) { return wrapped(-uint64_t(a.value)); }
  friend Whole operator+(Whole a) { return a; }
  friend auto operator<=>(Whole a, Whole b) = default;
  Whole& operator+=(Whole b) { return *this = *this + b; }
  Whole& operator-=(Whole b) { return *this = *this - b; }
  Whole& operator*=(Whole b) { return *this = *this * b; }
  Number<float> number() const { return Number<float>(value); }

 private:
  static Whole wrapped(uint64_t bits) { return Whole(static_cast<int64_t>(bits)); }
};

// What follows are templates that take their arguments as they are, so that no conversion makes C's functions fit too.

/// Arguments of which one at least is a Whole. Integers stay with it; one that is no integer takes it along.
template <class... A>
concept WithWhole = (std::same_as<A, Whole> || ...) &&
                    ((std::same_as<A, Whole> || Arithmetic<A> || std::same_as<A, Number<float>>)&&...);
template <class... A>
concept AllWhole = ((std::same_as<A, Whole> || std::integral<A>)&&...);

namespace detail {

inline Number<float> as_number(Whole x) { return x.number(); }
inline const Number<float>& as_number(const Number<float>& x) { return x; }
template <Arithmetic A>
inline Number<float> as_number(A x) {
  return Number<float>(x);
}
enum class Kind : uint8_t { numeric, floating };
template <class F, Kind kind, class... A>
inline auto apply_whole(const A&... a) {
  if constexpr (kind == Kind::numeric && AllWhole<A...>)
    return Whole(static_cast<int64_t>(F::value(Whole(a).value...)));
  else return Number<float>(F::value(as_number(a).value...));
}

}  // namespace detail

#define WEFT_WHOLE_OPERATOR(op)                  \
  template <class A, class B>                    \
    requires(WithWhole<A, B> && !AllWhole<A, B>) \
  inline auto operator op(const A& a, const B& b) { return detail::as_number(a) op detail::as_number(b); }
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

#define WEFT_WHOLE_OP(name, Functor, kind, ...) \
  template <class... A>                         \
    requires WithWhole<A...>                    \
  inline auto name(const A&... a) { return detail::apply_whole<functors::Functor, detail::Kind::kind>(a...); }
WEFT_UNARY_OPS(WEFT_WHOLE_OP)
WEFT_BINARY_OPS(WEFT_WHOLE_OP)
WEFT_TERNARY_OPS(WEFT_WHOLE_OP)
#undef WEFT_WHOLE_OP

template <class A, class B>
  requires WithWhole<A, B>
inline auto select(bool mask, const A& a, const B& b) {
  if constexpr (AllWhole<A, B>) return mask ? Whole(a) : Whole(b);
  else return select(mask, detail::as_number(a), detail::as_number(b));
}

}  // namespace weft::math
