// Kernels of sparse matrices that the CPU alone has, so they are in no table: devices compute by ops.
#pragma once

#include "../tensor/view.hpp"

namespace weft::cpu {

/// out[e] [n] = the sum of a[r] * b[columns[e]] for each element e of row r, row_starts[r] <= e < row_starts[r + 1].
/// Contiguous, f32 or f64; row_starts [rows + 1] and columns [n] are i64, ascend and lie within b.
void csr_sampled_product(const View& out, const View& row_starts, const View& columns, const View& a, const View& b);

}  // namespace weft::cpu
