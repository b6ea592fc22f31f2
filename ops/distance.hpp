// Distances between vectors, and vectors brought to length 1. DTypeError unless operands are floating; 16-bit floats
// are computed in f32. Differentiable to any order; where a distance is 0, so is its gradient.
#pragma once

#include "../tensor/index.hpp"

namespace weft {

struct NormalizeOptions {
  /// The order of the norm, as for vector_norm.
  double p = 2;
  /// Dimensions, with their common norm.
  Dims dims = 1;
  /// The least divisor.
  double eps = 1e-12;
};
/// x over its p-norm along `dims`, or over eps where that is larger. IndexError for a dimension that x lacks.
[[nodiscard]] WEFT_API Tensor normalize(const Tensor& x, const NormalizeOptions& options = {}, Location where = {});

/// The sum of a b along `dim` over the Euclidean norms of a and b, each of them at least eps; a and b broadcast. Raises
/// ShapeError if shapes do not broadcast, IndexError for a dimension that the result of broadcasting lacks.
[[nodiscard]] WEFT_API Tensor cosine_similarity(const Operand& a, const Operand& b, int dim = 1, double eps = 1e-8,
                                                Location where = {});

/// The p-norm of a - b + eps along the last dimension; a and b broadcast. A 0-d tensor counts as one of shape [1].
/// Raises ShapeError if shapes do not broadcast, ValueError if p is NaN.
[[nodiscard]] WEFT_API Tensor pairwise_distance(const Operand& a, const Operand& b, double p = 2, double eps = 1e-6,
                                                bool keepdim = false, Location where = {});

/// How cdist computes Euclidean distances: `automatic` multiplies matrices where one side has more than 25 rows.
enum class DistanceMode : uint8_t { automatic, product, difference };
/// The p-distance of each row of a [..., n, k] to each row of b [..., m, k]: [..., n, m]; leading dimensions broadcast.
/// p = 0 counts the places where rows differ. Pairs that a matrix product would tell with too few digits are computed
/// from their difference, so that no mode loses precision; looking for them waits for a device. ShapeError for ranks
/// below 2 and where sizes do not fit, DTypeError unless both have one dtype, ValueError for a negative p or NaN.
[[nodiscard]] WEFT_API Tensor cdist(const Tensor& a, const Tensor& b, double p = 2,
                                    DistanceMode mode = DistanceMode::automatic, Location where = {});
/// The p-distances of all pairs of rows (i, j), i < j, of x [n, k] in row-major order: [n (n - 1) / 2]. Errors as
/// cdist.
[[nodiscard]] WEFT_API Tensor pdist(const Tensor& x, double p = 2, Location where = {});

}  // namespace weft
