// Many small matrices at once: each lane of a register holds one. False where a batch is not of this kind, as complex
// ones, and nothing is written then. Arguments as in backends/linalg.hpp.
#pragma once

#include "../../../tensor/view.hpp"

namespace weft::cpu {

template <class T>
bool small_cholesky(const View& l, const View& info, const View& a, bool upper);
/// x may have no data: then a is factored alone.
template <class T>
bool small_solve(const View& x, const View& lu, const View& pivots, const View& info, const View& a);
template <class T>
bool small_solve_triangular(const View& x, const View& a, bool upper, bool unit);

}  // namespace weft::cpu
