// Kernels of sparse matrices that the CPU alone has, so they are in no table: devices compute by ops.
#pragma once

#include "../tensor/view.hpp"

namespace weft::cpu {

/// out[e] [n] = the sum of a[r] * b[columns[e]] for each element e of row r, row_starts[r] <= e < row_starts[r + 1].
/// Contiguous, f32 or f64; row_starts [rows + 1] and columns [n] are i64; row_starts ascend, and columns are valid rows
/// of b.
void csr_sampled_product(const View& out, const View& row_starts, const View& columns, const View& a, const View& b);

/// out [rows] = the matrix of values [n] times x [k], likewise; bag_sum is the kernel for more columns.
void csr_times_vector(const View& out, const View& row_starts, const View& columns, const View& values, const View& x);

/// Whether each i64 element is in [0, count); contiguous.
bool all_inside(const View& numbers, int64_t count);

}  // namespace weft::cpu
