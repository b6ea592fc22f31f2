// Distinct values, counts, and positions in a sorted list. Only bincount's weights have a gradient. Results are new
// contiguous tensors.
//
// Sizes that follow from values make the host wait for a device, and are a NotImplementedError on the meta device.
#pragma once

#include <optional>

#include "../tensor/index.hpp"

namespace weft {

struct Unique {
  /// The distinct values, 1-d, or with a dimension the distinct slices along it.
  Tensor values;
  /// i64, the index in `values` of each element (in x's shape) or slice; undefined unless asked for.
  Tensor inverse;
  /// i64, how often each value occurs; undefined unless asked for.
  Tensor counts;
};

struct UniqueOptions {
  bool return_inverse = false;
  bool return_counts = false;
  /// Slices along this dimension rather than elements.
  std::optional<int64_t> dim = {};
};

/// The distinct elements of x in ascending order, or its distinct slices in lexicographic order. Each NaN is a value of
/// its own; 0 and -0 are one. IndexError for a dimension that x lacks.
[[nodiscard]] WEFT_API Unique unique(const Tensor& x, UniqueOptions options = {}, Location where = {});
/// The same without sorting: of equal neighbours only the first stays.
[[nodiscard]] WEFT_API Unique unique_consecutive(const Tensor& x, UniqueOptions options = {}, Location where = {});

/// How often each number occurs in x (1-d, integers >= 0): i64 of size max(max(x) + 1, minlength). With `weights` (1-d,
/// of x's size) the sum of the weights for each number, in f32 for f32 and else in f64, differentiable. ValueError for
/// negative numbers, ShapeError unless x and weights fit, DTypeError unless x holds integers.
[[nodiscard]] WEFT_API Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0,
                                       Location where = {});

/// i64 [..., classes]: 1 at each index, else 0. classes = -1 means max(indices) + 1; raises ValueError without indices.
/// ValueError for a negative index, IndexError for one from `classes` on, DTypeError unless they are integers.
[[nodiscard]] WEFT_API Tensor one_hot(const Tensor& indices, int64_t classes = -1, Location where = {});

struct SearchOptions {
  /// After equal elements rather than before them.
  bool right = false;
  /// Positions as i32 rather than i64. ValueError where they do not fit.
  bool out_int32 = false;
  /// Integers of the sorted tensor's shape: its elements in this order are ascending.
  Tensor sorter = {};
};
/// Where each value would be inserted into the ascending `sorted` to keep it ascending; i64 in the values' shape.
/// `sorted` is 1-d, or has the values' sizes except the last, and each of its lines is searched for the values of the
/// same line (else ShapeError). NaN counts as largest. Dtypes may differ: elements are compared exactly.
[[nodiscard]] WEFT_API Tensor searchsorted(const Tensor& sorted, const Operand& values,
                                           const SearchOptions& options = {});
/// searchsorted with the operands exchanged: the bucket of each value between 1-d `boundaries` (else ShapeError).
[[nodiscard]] WEFT_API Tensor bucketize(const Operand& values, const Tensor& boundaries, bool right = false,
                                        bool out_int32 = false);

/// Which elements are among `tests`, or with `invert` are not: bool, in their shape. Both are of any shape and compared
/// exactly; NaN is nowhere. DeviceError where devices differ.
[[nodiscard]] WEFT_API Tensor isin(const Operand& elements, const Operand& tests, bool invert = false);

}  // namespace weft
