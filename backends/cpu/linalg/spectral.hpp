// Eigenvalues and singular values with their vectors. T is float, double or a complex number of either.
#pragma once

#include <cstdint>

#include "numbers.hpp"

namespace weft::cpu {

/// The value of `info` for a matrix without a result.
enum : int32_t { not_finite = -1 };

/// Eigenvalues in ascending order of a Hermitian a [n, n], of which the lower triangle is read, column i as row i of
/// `a`, which is overwritten; vectors [n, n] gets the eigenvectors in its columns, or is null. Gives 0, not_finite, or
/// how many values did not converge. Householder's reduction and implicit QL and QR steps (Golub and Van Loan
/// 2013, 8.3).
template <class T>
int32_t symmetric_eigen(int64_t n, T* a, int64_t stride, Real<T>* values, T* vectors);

/// Singular values in descending order of a [m, n], m at least n, which is overwritten. u [m, columns of u] gets the
/// left vectors, of which there are n or m, and vh [n, n] the right ones' adjoints in its rows; both null where they
/// are not wanted. Gives as above. Golub and Kahan's reduction, then implicit steps with a zero shift where small
/// values need it (Demmel and Kahan 1990).
template <class T>
int32_t singular_values(int64_t m, int64_t n, T* a, int64_t stride, Real<T>* values, T* u, int64_t u_columns, T* vh);

/// Eigenvalues of any a [n, n], which is overwritten, conjugate ones of a real a side by side; vectors [n, n] gets the
/// eigenvectors in its columns, of length 1 and with a real largest element, or is null. Gives as above. Householder's
/// reduction and implicit QR steps (Golub and Van Loan 2013, 7.4 and 7.5).
template <class T>
int32_t general_eigen(int64_t n, T* a, int64_t stride, Complex<Real<T>>* values, Complex<Real<T>>* vectors);

}  // namespace weft::cpu
