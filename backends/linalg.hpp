// Factorizations and solutions of batches of matrices: the CPU's, which every device's ops use, so they are in no table
// of kernels. Views are [batch, rows, columns], contiguous, of f32, f64, c64 or c128, those of values that are real in
// the real dtype, and no output overlaps another view. `info` [batch], i32, is 0 where a matrix has a result. Batches
// are shared by the pool's threads, and one large matrix, too.
//
// LAPACK on BLIS took 1.5 to 7.4 times as long at 512 x 512 and adds 10 MB; Eigen 0.7 to 4.3 times.
// docs/performance.md has the figures.
#pragma once

#include "../tensor/view.hpp"

namespace weft::cpu {

/// l is the lower factor of a = l lᴴ, of which the lower triangle is read, or with `upper` the upper one of a = uᴴ u.
/// info is the number, from 1, of the first leading minor that is not positive; l is no factor then.
void cholesky(const View& l, const View& info, const View& a, bool upper);

/// P a = L U for a [batch, m, n], packed into lu; pivots [batch, min(m, n)], i32: row j was exchanged with row
/// pivots[j], both from 1. info is the number, from 1, of the first pivot that is 0.
void lu_factor(const View& lu, const View& pivots, const View& info, const View& a);
/// x [batch, n, k], which holds b, becomes the solution of a x = b, or of aᴴ x = b, of a's factors.
void lu_solve(const View& x, const View& lu, const View& pivots, bool adjoint);
/// Both at once: small matrices stay in registers between.
void solve(const View& x, const View& lu, const View& pivots, const View& info, const View& a);

/// Replaces x, which contains b, by the solution of a x = b for a triangular a of any strides; with `unit` its diagonal
/// counts as ones. Zeros on the diagonal give infinities and NaN.
void solve_triangular(const View& x, const View& a, bool upper, bool unit);

/// a [batch, m, n] = q r: r [batch, rows of r, n]; q [batch, m, columns of q] has min(m, n) or m columns, or no data.
void qr(const View& q, const View& r, const View& a);
/// The first columns of H0 H1 …, reflections with the columns of a below its diagonal as vectors, and tau [batch, k].
void reflections(const View& q, const View& a, const View& tau);

/// Eigenvalues [batch, n] in ascending order of Hermitian matrices, of which one triangle is read; vectors may have no
/// data. info is -1 where elements are not finite, else how many values did not converge.
void symmetric_eigen(const View& values, const View& vectors, const View& info, const View& a, bool upper);
/// Eigenvalues and eigenvectors, complex, of any matrices; vectors may have no data. info as above.
void general_eigen(const View& values, const View& vectors, const View& info, const View& a);
/// a = u diag(s) vh with s [batch, min(m, n)] in descending order; u has min(m, n) or m columns, vh as many rows or n;
/// both may have no data. info as above.
void singular_values(const View& u, const View& s, const View& vh, const View& info, const View& a);

}  // namespace weft::cpu
