// Products of real and complex matrices on one thread. Not public.
#pragma once

#include "../matmul/gemm.hpp"
#include "../workspace.hpp"
#include "numbers.hpp"

namespace weft::cpu {

/// Whether a factor counts as its conjugate.
enum class Conjugated : uint8_t { no, yes };

/// b [k, n] as real numbers [2k, 2n], dense: each row is followed by the row times i. A complex a with interleaved
/// components times it is a b with interleaved components.
template <class R>
void parts_below(int64_t k, int64_t n, Matrix<Complex<R>> b, Conjugated conjugated, R* to) {
  const R sign = conjugated == Conjugated::yes ? R(-1) : R(1);
  for (int64_t p = 0; p < k; ++p, to += 4 * n) {
    const Complex<R>* row = b.data + p * b.row;
    for (int64_t j = 0; j < n; ++j) {
      const R re = row[j * b.column].re, im = sign * row[j * b.column].im;
      to[2 * j] = re;
      to[2 * j + 1] = im;
      to[2 * n + 2 * j] = -im;
      to[2 * n + 2 * j + 1] = re;
    }
  }
}

/// c [m, n] = start + a b; a has rows of unit stride where it is complex.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, Conjugated conjugated, Addend<T> start, T* c,
              int64_t stride) {
  if constexpr (parts<T> == 1) {
    native_gemm(m, n, k, a, b, start, c, stride);
  } else {
    using R = Real<T>;
    const Scratch memory(4 * k * n * static_cast<int64_t>(sizeof(R)));
    R* below = memory.as<R>();
    parts_below(k, n, b, conjugated, below);
    native_gemm(m, 2 * n, 2 * k, Matrix<R>{reals(a.data), 2 * a.row, 1}, Matrix<R>{below, 2 * n, 1},
                Addend<R>{start.data != nullptr ? reals(start.data) : nullptr, 2 * start.row}, reals(c), 2 * stride);
  }
}

}  // namespace weft::cpu
