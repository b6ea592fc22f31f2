// Arithmetic on sizes, strides and bytes that says where it overflowed. What a caller, a file or another library gave
// goes through it before a Layout is made; inside a Layout nothing overflows any more.
#pragma once

#include <cstdint>
#include <span>

#include "dtype.hpp"
#include "layout.hpp"

namespace weft {

/// A signed 64-bit integer. After an operation overflowed, `fits` stays false and the value means nothing.
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

/// Sizes that a caller named: ShapeError as contiguous_layout, for views that repeat elements too.
inline void check_sizes(std::span<const int64_t> sizes, DType dtype) { contiguous_layout(sizes, dtype); }

/// A layout of these sizes and strides (in elements), which need not be contiguous. ShapeError as contiguous_layout,
/// where there is not one stride for each size, and where a stride or the distance between two elements has more bytes
/// than 63 bits can count.
WEFT_API Layout strided_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides, DType dtype);

}  // namespace weft
