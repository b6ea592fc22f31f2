// Scalar: one number of any element type.
#pragma once

#include <ostream>

#include <weft/tensor/scalar.hpp>

#include <c10/core/ScalarType.h>

namespace c10 {

class Scalar : public weft::Scalar {
 public:
  using weft::Scalar::Scalar;
  constexpr Scalar() : weft::Scalar(int64_t{0}) {}
  constexpr Scalar(const weft::Scalar& other) : weft::Scalar(other) {}
  Scalar(Half value) : weft::Scalar(weft::to_float(value)) {}
  Scalar(BFloat16 value) : weft::Scalar(weft::to_float(value)) {}

  template <class T>
  T to() const {
    if constexpr (weft::Arithmetic<T>) {
      return weft::Scalar::to<T>();
    } else if constexpr (weft::ComplexNumber<T>) {
      const weft::complex128 z = to_complex();
      return T(static_cast<typename T::value_type>(z.real()), static_cast<typename T::value_type>(z.imag()));
    } else if constexpr (std::is_same_v<T, Half>) {
      return weft::to_float16(weft::Scalar::to<float>());
    } else {
      return weft::to_bfloat16(weft::Scalar::to<float>());
    }
  }
  uint8_t toByte() const { return to<uint8_t>(); }
  int8_t toChar() const { return to<int8_t>(); }
  int16_t toShort() const { return to<int16_t>(); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }
  float toFloat() const { return to<float>(); }
  double toDouble() const { return to<double>(); }
  bool toBool() const { return to<bool>(); }

  bool isFloatingPoint() const { return is_floating(); }
  bool isIntegral(bool include_bool = false) const {
    return !is_floating() && !is_complex() && (include_bool || !is_bool());
  }
  bool isBoolean() const { return is_bool(); }
  bool isComplex() const { return is_complex(); }
  ScalarType type() const { return held_as() == weft::DType::u64 ? weft::DType::i64 : held_as(); }
  Scalar operator-() const {
    if (is_complex()) return weft::complex128(0, 0) - to_complex();
    return is_floating() ? Scalar(-to<double>()) : Scalar(-to<int64_t>());
  }
  template <class T>
  bool equal(T value) const {
    return to<T>() == value;
  }
};
std::ostream& operator<<(std::ostream& out, const Scalar& value);

}  // namespace c10
