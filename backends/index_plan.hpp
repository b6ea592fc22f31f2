// Indexing along one dimension, said as the kernels of indexing take it: a plan of one index.
#pragma once

#include <weft/backends/dispatch.hpp>

namespace weft {

/// DTypeError unless i32 or i64.
void check_index_type(const char* kernel, const View& index);
/// An index of one dimension, or of none, seen with the sizes of `like`: stride 0 but along `dim`.
View broadcast_index(const View& index, int dim, const View& like);
/// The plan of one index into `dim` of `base`; the index has the sizes of the selection.
IndexPlan plan_along(const View& index, int dim, const View& base);

}  // namespace weft
