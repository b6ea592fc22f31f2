// Arithmetic on sizes, strides and bytes that detects overflow. Numbers from a caller, a file or another library go
// through it before a Layout is made; inside a Layout nothing can overflow.
#pragma once

#include <cstdint>
#include <span>

#include "dtype.hpp"
#include "layout.hpp"

namespace weft {

/// A signed 64-bit integer. Once an operation has overflowed, `fits` stays false and the value is meaningless.
class Checked {
 public:
  constexpr Checked(int64_t value) : value_(value) {}

  constexpr Checked& operator+=(Checked other) {
    return joined(other, __builtin_add_overflow(value_, other.value_, &value_));
  }
  constexpr Checked& operator-=(Checked other) {
    return joined(other, __builtin_sub_overflow(value_, other.value_, &value_));
  }
  constexpr Checked& operator*=(Checked other) {
    return joined(other, __builtin_mul_overflow(value_, other.value_, &value_));
  }
  friend constexpr Checked operator+(Checked a, Checked b) { return a += b; }
  friend constexpr Checked operator-(Checked a, Checked b) { return a -= b; }
  friend constexpr Checked operator*(Checked a, Checked b) { return a *= b; }

  constexpr bool fits() const { return fits_; }
  constexpr int64_t value() const { return value_; }

 private:
  constexpr Checked& joined(const Checked& other, bool overflowed) {
    fits_ = fits_ && other.fits_ && !overflowed;
    return *this;
  }

  int64_t value_;
  bool fits_ = true;
};

/// ShapeError as contiguous_layout. Also for the sizes of views that repeat elements.
inline void check_sizes(std::span<const int64_t> sizes, DType dtype) { contiguous_layout(sizes, dtype); }

/// A layout of these sizes and strides (in elements), which need not be contiguous. ShapeError as contiguous_layout,
/// where there is not one stride for each size, and where a stride or the distance between two elements exceeds 2^63 -
/// 1 bytes.
WEFT_API Layout strided_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides, DType dtype);

}  // namespace weft
