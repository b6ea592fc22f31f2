// The plan of a Fourier transform of n elements, with its roots of unity.
//
//   small    mixed radices, autosorting (Stockham); a register holds one number of several lines
//   split    n = rows * columns: transforms of the columns, a twist, transforms of the rows (Bailey 1990)
//   convolve n with a large prime factor: as a convolution by a power of two (Bluestein 1970)
//
// The transforms are written here because FFTW is under the GPL and kissfft uses no SIMD. pocketfft and ducc have no
// Debian package with headers. docs/performance.md has the times.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../../../tensor/complex.hpp"

namespace weft::cpu::fft {

/// exp(-2 pi i k / n) to the last bit or nearly: the angle is brought into an eighth of the circle as a whole number.
complex128 root_of_unity(int64_t k, int64_t n);

/// One stage: `groups` times `span` butterflies of `radix`.
struct Stage {
  int radix;
  int64_t groups, span;
  int64_t twiddles;  ///< where its factors begin in `Plan::roots`: [span][radix - 1]
  int64_t circle;    ///< where the roots of unity of an odd radix beyond 5 begin: [radix]
};

template <class T>
struct Plan {
  int64_t n = 1;
  // small: for lines side by side
  std::vector<Stage> stages;
  std::vector<Complex<T>> roots;
  // split: for one line; roots of n in two levels, exp(-2 pi i t / n) = coarse[t / step] * fine[t % step]
  std::shared_ptr<const Plan> rows, columns;
  int64_t step = 1;
  std::vector<complex128> coarse, fine;
  // convolve: chirp[k] = exp(-pi i k² / n), and the transform of its conjugate, divided by the length
  std::shared_ptr<const Plan> power;
  std::vector<Complex<T>> chirp, response;
  /// exp(-pi i k / n) up to k = n / 2, for 2n real numbers.
  std::vector<Complex<T>> half_roots;

  bool is_small() const { return n == 1 || !stages.empty(); }
};

/// The plan of n >= 1; the last used ones are kept.
template <class T>
std::shared_ptr<const Plan<T>> plan_of(int64_t n);

/// Strided lines of complex numbers: number i of line l is at `data + l * line + i * step`, in numbers.
template <class Number>
struct Lines {
  Number* data;
  int64_t line, step;
};
/// The twiddle factors between the halves of a split transform: number i of line l is multiplied by root (first + l) *
/// i of n.
template <class T>
struct Twist {
  const Plan<T>* plan = nullptr;
  int64_t first = 0;
};

/// Lines in a register.
template <class T>
int64_t lanes();
/// Padding after each half of scratch: one number, and an offset that avoids 4K aliasing. Processors compare the low 12
/// bits of addresses first, and would take writes to one half for reads of the other.
inline constexpr int64_t scratch_gap = 1088;
/// Bytes of scratch that `transform_lines` wants, at a multiple of 64.
template <class T>
int64_t scratch_bytes(int64_t n) {
  return 4 * n * lanes<T>() * static_cast<int64_t>(sizeof(T)) + 2 * scratch_gap;
}
/// Transforms one line of n numbers side by side; out may be in.
template <class T>
void transform_line(const Plan<T>& plan, const Complex<T>* in, Complex<T>* out, bool inverse, T factor);
/// Additional processing of lines.
template <class T>
struct Passes {
  bool inverse = false;  ///< not divided
  T factor = T(1);       ///< everything is multiplied with it
  Twist<T> twist = {};
  /// Of lines of 2n real numbers: exp(-pi i k / n) up to k = n / 2. The real lines are n pairs, the complex ones have
  /// n + 1 numbers.
  const Complex<T>* half_roots = nullptr;
};
/// Transforms `count` <= lanes() lines by a small plan; out may be in.
template <class T>
void transform_lines(const Plan<T>& plan, const Lines<const Complex<T>>& in, const Lines<Complex<T>>& out,
                     int64_t count, const Passes<T>& passes, T* scratch);

}  // namespace weft::cpu::fft
