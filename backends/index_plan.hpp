// Indexing along one dimension as an IndexPlan with one index.
#pragma once

#include "dispatch.hpp"

namespace weft {

/// DTypeError unless i32 or i64.
void check_index_type(const char* kernel, const View& index);
/// The plan of an index of any rank along `dim` of x: the index's dimensions replace that one. x has at least one
/// dimension, the selection at most max_rank. `wraps` says whether negative indices count from the end.
void plan_slices(IndexPlan& plan, View& base, const View& x, int dim, const View& index, bool wraps);

}  // namespace weft
