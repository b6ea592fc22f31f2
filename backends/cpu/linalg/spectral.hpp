// Eigenvalues of symmetric matrices and singular values of any, with their vectors. T is float or double.
#pragma once

#include <cstdint>

namespace weft::cpu {

/// What `info` says of a matrix that has no result.
enum : int32_t { not_finite = -1 };

/// Eigenvalues in ascending order of a symmetric a [n, n], of which the upper triangle is read, and which is
/// overwritten; vectors [n, n] gets the eigenvectors in its columns, or is null. Gives 0, not_finite, or how many
/// values did not converge. Householder's reduction and implicit QL and QR steps (Golub and Van Loan 2013, 8.3).
template <class T>
int32_t symmetric_eigen(int64_t n, T* a, int64_t stride, T* values, T* vectors);

/// Singular values in descending order of a [m, n], m at least n, which is overwritten. u [m, columns of u] gets the
/// left vectors, of which there are n or m, and vt [n, n] the right ones in its rows; both null where they are not
/// wanted. Gives as above. Golub and Kahan's reduction, then implicit steps with a zero shift where small values need
/// it (Demmel and Kahan 1990).
template <class T>
int32_t singular_values(int64_t m, int64_t n, T* a, int64_t stride, T* values, T* u, int64_t u_columns, T* vt);

}  // namespace weft::cpu
