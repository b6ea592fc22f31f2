// Overflow-checked arithmetic on sizes, strides and byte counts. Values from a caller, a file or another library are
// checked with it before a Layout is constructed; arithmetic on an existing Layout cannot overflow.
#pragma once

#include <cstdint>
#include <span>

#include "dtype.hpp"
#include "layout.hpp"

namespace weft {

/// A signed 64-bit integer. After an overflow `fits` stays false and the value is meaningless.
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

/// Checks sizes, also for views with repeated elements. Raises ShapeError as contiguous_layout.
inline void check_sizes(std::span<const int64_t> sizes, DType dtype) { contiguous_layout(sizes, dtype); }

/// Returns a layout with these sizes and strides (in elements), which need not be contiguous. Raises ShapeError as
/// contiguous_layout, and unless there is one stride for each size. Also raises it if a stride or the distance between
/// two elements exceeds 2^63 - 1 bytes.
WEFT_API Layout strided_layout(std::span<const int64_t> sizes, std::span<const int64_t> strides, DType dtype);

}  // namespace weft
