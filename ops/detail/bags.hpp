// Sums of a table's rows, bag by bag. Not public.
#pragma once

#include "common.hpp"

namespace weft {

struct Bags {
  int64_t count;
  Tensor begins;      ///< [bags], i64, contiguous: the first index of each
  int64_t each = -1;  ///< how many indices every bag has, where they are as many

  /// [n], i64: the bag of each of n indices.
  Tensor of_indices(int64_t n) const;
};

/// [bags, width] from the rows of weight [rows, width] at the indices `at` (1-d, i64, contiguous), times factors (of
/// at's shape, may be undefined): their sums, or means. An index that is `padding` counts for nothing, wherever it
/// points; a negative padding is none. IndexError for other indices outside [0, rows). Recorded.
/// `sparse` is EmbeddingOptions' own.
Tensor bag_sums(const Tensor& weight, const Tensor& at, const Tensor& factors, const Bags& bags, int64_t padding,
                bool mean, bool sparse = false);

}  // namespace weft
