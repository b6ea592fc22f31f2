// Householder reflections I - tau v vᴴ and products of many. T is float, double or a complex number of either.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace weft::cpu {

/// A row-major matrix in a workspace; rows are a multiple of 16 elements apart, and not of a page.
constexpr int64_t padded(int64_t n) {
  const int64_t to = (n + 15) / 16 * 16;
  return to % 128 == 0 ? to + 16 : to;
}

/// The reflection H with Hᴴ x = (beta, 0, …) for x [n]: x becomes v with v[0] = 1. Tau is 0 if x already has this form.
template <class T>
struct Reflection {
  T tau;
  Real<T> beta;
};
template <class T>
Reflection<T> make_reflection(int64_t n, T* x);

/// Reflections v as rows of a matrix, in order H0 H1 …: row j is 0 before element j + shift, which is 1.
template <class T>
struct Reflections {
  int64_t count, length, shift;
  const T* rows;
  int64_t stride;
  const T* tau;
};
/// Each row of x [rows, length] is a column that becomes … H1ᴴ H0ᴴ times it or, `reversed`, H0 H1 … times it.
/// (Schreiber and Van Loan 1989: blocks I - V T Vᴴ.) With `triangular` row j of x has zeros before element j, as an
/// identity has.
template <class T>
void apply_reflections(const Reflections<T>& q, bool reversed, int64_t rows, T* x, int64_t stride,
                       bool triangular = false);

/// Factors the rows of a [n, m], n columns of length m, as Q R. Row j of a becomes the reflection v with 1 at j (j
/// below min(n, m)). tau is [min(n, m)], and r [min(n, m), n] is the row-major upper triangle.
template <class T>
void factor_rows(int64_t n, int64_t m, T* a, int64_t stride, T* tau, T* r, int64_t r_stride);

}  // namespace weft::cpu
