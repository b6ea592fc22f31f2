// Reads batches for classification metrics. Internal to train/.
#pragma once

#include <cstdint>
#include <optional>

#include "../../tensor/index.hpp"

namespace weft::train {

/// Flattened, on the batch's device; errors are counted where `valid`.
struct Classes {
  Tensor predicted, actual;        ///< i64 [n]; 0 where invalid
  Tensor valid;                    ///< i64 [n], 0 or 1
  Tensor nan_scores, bad_targets;  ///< i64, 0-d
};

struct ClassesAsked {
  /// The number of classes; any number if empty.
  std::optional<int64_t> count = {};
  double threshold = 0.5;
  std::optional<int64_t> ignore_index = {};
};

/// Converts class scores and binary scores to classes, and accepts classes. Call it inside a metric's CallScope. Raises
/// ShapeError, DTypeError, DeviceError.
Classes read_classes(const Tensor& predictions, const Tensor& targets, const ClassesAsked& asked);

/// i64 [count]: the total weight of each class in `classes`.
Tensor occurrences(const Tensor& classes, const Tensor& weights, int64_t count);

/// Checks that the tensors are defined, on one device, and the targets of an integer dtype. Raises ShapeError if
/// `one_shape` and the shapes differ.
void check_batch(const Tensor& predictions, const Tensor& targets, bool one_shape);
/// Checks class scores [N, C, …] against targets [N, …]. Raises ShapeError if they do not match, or if C differs from
/// `count`.
void check_scores(const Tensor& scores, const Tensor& targets, std::optional<int64_t> count);

}  // namespace weft::train
