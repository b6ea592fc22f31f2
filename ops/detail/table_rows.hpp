// Row-sparse gradients of lookup tables. Not public.
#pragma once

#include "../../autograd/gradient_rows.hpp"
#include "common.hpp"

namespace weft {

/// Where detail::takes_rows: gives values [n, width] at `ids` [n], integers from 0 on, without those at the row
/// `padding`, unless it is negative.
void give_table_rows(Node& self, int edge, const Tensor& ids, Tensor&& values, int64_t padding);

}  // namespace weft
