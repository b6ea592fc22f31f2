// Indexing along one dimension, said as the kernels of indexing take it: a plan of one index.
#pragma once

#include "dispatch.hpp"

namespace weft {

/// DTypeError unless i32 or i64.
void check_index_type(const char* kernel, const View& index);
/// What an index of any rank selects along `dim` of x: the index's dimensions stand in the place of that one. x has a
/// dimension, the selection at most max_rank.
void plan_slices(IndexPlan& plan, View& base, const View& x, int dim, const View& index);

}  // namespace weft
