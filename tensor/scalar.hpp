// Scalar: one exact C++ number: bool, integer, floating-point or complex.
#pragma once

#include <concepts>
#include <type_traits>

#include "dtype.hpp"

namespace weft {

template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;

namespace detail {
[[noreturn]] WEFT_API void raise_complex_number();
}

/// A number with its exact value: 64-bit integers are never converted to double.
class Scalar {
 public:
  constexpr Scalar() : integer_(0), dtype_(DType::i64) {}
  template <Arithmetic T>
  constexpr Scalar(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      floating_ = static_cast<double>(value);
      dtype_ = DType::f64;
    } else if constexpr (std::is_same_v<T, bool>) {
      integer_ = value;
      dtype_ = DType::boolean;
    } else {
      integer_ = static_cast<int64_t>(value);
      dtype_ = std::is_unsigned_v<T> && sizeof(T) == 8 ? DType::u64 : DType::i64;
    }
  }

  template <ComplexNumber T>
  constexpr Scalar(const T& value) : floating_(value.real()), imaginary_(value.imag()), dtype_(DType::c128) {}

  /// Real and floating-point.
  constexpr bool is_floating() const { return dtype_ == DType::f64; }
  constexpr bool is_bool() const { return dtype_ == DType::boolean; }
  constexpr bool is_complex() const { return dtype_ == DType::c128; }
  /// The type in which the value is stored: bool, i64, u64, f64 or c128.
  constexpr DType held_as() const { return dtype_; }

  /// Converts to T. Raises DTypeError if the value is complex and T is not bool.
  template <Arithmetic T>
  constexpr T to() const {
    if (is_floating()) return static_cast<T>(floating_);
    if (dtype_ == DType::u64) return static_cast<T>(static_cast<uint64_t>(integer_));
    if (is_complex() && std::is_same_v<T, bool>) return floating_ != 0 || imaginary_ != 0;
    if (is_complex()) detail::raise_complex_number();
    return static_cast<T>(integer_);
  }
  constexpr complex128 to_complex() const {
    return is_complex() ? complex128(floating_, imaginary_) : complex128(to<double>());
  }
  constexpr bool is_one() const { return is(1); }
  constexpr bool is_zero() const { return is(0); }

 private:
  constexpr bool is(double real) const {
    return is_complex() ? floating_ == real && imaginary_ == 0 : to<double>() == real;
  }

  union {
    double floating_;  // the real part of a complex number
    int64_t integer_;
  };
  double imaginary_ = 0;
  DType dtype_;
};

}  // namespace weft
