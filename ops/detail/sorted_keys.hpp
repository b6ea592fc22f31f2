// Positions sorted by their keys, for sparse matrices and gradients. The host sorts. Not public.
#pragma once

#include "common.hpp"

namespace weft {

/// A list of keys in groups of equal ones: those of keys[i] are at order[starts[i]] to order[starts[i + 1]], in
/// ascending order. All are i64, on the list's device.
struct SortedKeys {
  Tensor keys, starts, order;
  /// Every key is there once, and they ascend: `order` changes nothing.
  bool was_sorted = false;
};
/// Of a list [n] of integers in [0, bound); IndexError for others.
SortedKeys sorted_keys(const Tensor& list, int64_t bound);
/// The same with a group for every number below `bound`, so that `keys` is undefined and starts [bound + 1].
SortedKeys grouped_keys(const Tensor& list, int64_t bound);

/// [n], i64: the row of each of n elements of a matrix in compressed rows.
Tensor rows_of_elements(const Tensor& row_starts, int64_t n);

}  // namespace weft
