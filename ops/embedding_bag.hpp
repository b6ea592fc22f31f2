// Sums, means and maxima of rows of an embedding, bag by bag.
#pragma once

#include <optional>

#include "../tensor/index.hpp"

namespace weft {

enum class BagMode : uint8_t { sum, mean, max };

struct EmbeddingBagOptions {
  /// For a list of indices: where each bag begins, in ascending order from 0; integers.
  Tensor offsets = {};
  BagMode mode = BagMode::mean;
  /// A factor of each row, of the indices' shape and the weight's dtype; for sums.
  Tensor per_sample_weights = {};
  /// The last offset is the end of the last bag rather than the beginning of one more.
  bool include_last_offset = false;
  /// This row counts in no bag and gets no gradient; it may count from the end.
  std::optional<int64_t> padding_idx = {};
  /// Used rows with a larger norm are first scaled down to it, in `weight` itself, without recording.
  std::optional<double> max_norm = {};
  double norm_type = 2;
  /// As EmbeddingOptions::sparse, for sums and means in f32 and f64; other gradients are dense.
  bool sparse = false;
};

/// For each bag of indices the sum, mean or maximum of those rows of weight [count, width]: [bags, width], 0 where a
/// bag is empty. indices are [bags, n], or a list that offsets cut into bags. 16-bit floats are summed in f32. The
/// first of equal maxima in a bag gets the gradient; NaN counts as the largest. Raises ShapeError if shapes do not fit,
/// DTypeError unless indices are integers and weight is floating. Raises ValueError for offsets that do not ascend from
/// 0 within the list and for contradictory options, IndexError for an index or a padding_idx outside weight. On a
/// device the host waits for indices and offsets.
[[nodiscard]] WEFT_API Tensor embedding_bag(const Tensor& indices, const Tensor& weight,
                                            const EmbeddingBagOptions& options = {}, Location where = {});

}  // namespace weft
