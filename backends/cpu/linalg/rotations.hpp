// Plane rotations that are gathered and then applied to the rows of a matrix many at a time. T is float or double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../thread_pool.hpp"
#include "../workspace.hpp"
#include "vectors.hpp"

namespace weft::cpu {

/// c f + s g = r and c g - s f = 0.
template <class T>
struct Rotation {
  T c, s, r;
};
template <class T>
inline Rotation<T> rotation_of(T f, T g) {
  if (g == 0) return {1, 0, f};
  if (f == 0) return {0, std::copysign(T(1), g), std::fabs(g)};
  const T squares = f * f + g * g;
  T length = std::sqrt(squares);
  if (!(squares > std::numeric_limits<T>::min() * T(1e6) && squares < std::numeric_limits<T>::max())) {
    length = std::hypot(f, g);
  }
  const T r = std::copysign(length, f);
  return {f / r, g / r, r};
}

/// Sweeps for the rows of one matrix; without a matrix they are dropped.
template <class T>
class Rotations {
 public:
  /// `rows` rows of n elements, n and stride multiples of 16.
  Rotations(int64_t rows, int64_t n, T* matrix, int64_t stride)
      : n_(n),
        matrix_(matrix),
        stride_(stride),
        capacity_(matrix != nullptr ? 24 * rows : 0),
        memory_(static_cast<size_t>(2 * capacity_ + 16) * sizeof(T)) {}

  /// Begins a sweep over `count` pairs from row `first` on; `set` gives the factors of pair i, whatever the order.
  void begin(int64_t first, int64_t count, bool backward) {
    if (matrix_ == nullptr) return;
    if (used_ + count > capacity_ || sweeps_ == most_sweeps) flush();
    list_[sweeps_++] = {first, count, used_, backward};
    at_ = used_;
    used_ += count;
  }
  void set(int64_t i, T c, T s) {
    if (matrix_ == nullptr) return;
    cosines()[at_ + i] = c;
    sines()[at_ + i] = s;
  }
  void flush() {
    if (used_ == 0) return;
    // A strip of columns is a thread's.
    constexpr int64_t strip = 64;
    const int64_t strips = (n_ + strip - 1) / strip;
    const int64_t chunk = std::max<int64_t>(1, (int64_t{1} << 16) / (used_ * strip));
    parallel_for(strips, chunk, [&](int64_t begin, int64_t end) {
      rotate_rows(std::min(end * strip, n_) - begin * strip, matrix_ + begin * strip, stride_, list_, sweeps_,
                  cosines(), sines());
    });
    used_ = 0;
    sweeps_ = 0;
  }

 private:
  static constexpr int64_t most_sweeps = 256;
  T* cosines() const { return memory_.as<T>(); }
  T* sines() const { return memory_.as<T>() + capacity_; }

  int64_t n_;
  T* matrix_;
  int64_t stride_, capacity_, used_ = 0, at_ = 0, sweeps_ = 0;
  Workspace memory_;
  Sweep list_[most_sweeps];
};

/// A power of two that brings the largest magnitude among n · rows elements near to 1 where squares of it would leave
/// the range; 1 where they stay, 0 where an element is not finite.
template <class T>
Real<T> safe_factor(int64_t rows, int64_t n, const T* a, int64_t stride) {
  using R = Real<T>;
  R most = 0;
  bool finite = true;
  for (int64_t i = 0; i < rows; ++i) {
    const R* row = reals(a + i * stride);
    for (int64_t j = 0; j < n * parts<T>; ++j) {
      const R size = std::fabs(row[j]);
      most = size > most ? size : most;
      finite &= size <= std::numeric_limits<R>::max();
    }
  }
  if (!finite) return 0;
  const R large = std::sqrt(std::numeric_limits<R>::max()) / R(1e4),
          small = std::sqrt(std::numeric_limits<R>::min()) * R(1e4);
  if (most == 0 || (most < large && most > small)) return 1;
  return std::ldexp(R(1), std::min(-std::ilogb(most), std::numeric_limits<R>::max_exponent - 1));
}
/// a *= factor
template <class T>
void scale_rows(int64_t rows, int64_t n, Real<T> factor, T* a, int64_t stride) {
  for (int64_t i = 0; factor != 1 && i < rows; ++i) scale(n * parts<T>, factor, reals(a + i * stride));
}

}  // namespace weft::cpu
