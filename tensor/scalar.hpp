// Scalar: one exact C++ number, a bool, an integer or a floating-point number.
#pragma once

#include <concepts>
#include <type_traits>

#include "dtype.hpp"

namespace weft {

template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;

/// A number that keeps its exact value: 64-bit integers are never routed through a double.
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

  constexpr bool is_floating() const { return dtype_ == DType::f64; }
  constexpr bool is_bool() const { return dtype_ == DType::boolean; }
  /// How the value is held: bool, i64, u64 or f64.
  constexpr DType held_as() const { return dtype_; }

  template <Arithmetic T>
  constexpr T to() const {
    if (is_floating()) return static_cast<T>(floating_);
    if (dtype_ == DType::u64) return static_cast<T>(static_cast<uint64_t>(integer_));
    return static_cast<T>(integer_);
  }

 private:
  union {
    double floating_;
    int64_t integer_;
  };
  DType dtype_;
};

}  // namespace weft
