// What metrics of classes read of a batch. Internal to train/.
#pragma once

#include <cstdint>
#include <optional>

#include "../../tensor/index.hpp"

namespace weft::train {

/// Flat, on the batch's device; `faults` counted where `valid`.
struct Classes {
  Tensor predicted, actual;        ///< i64 [n]; 0 where they are none or not valid
  Tensor valid;                    ///< i64 [n], 0 or 1
  Tensor nan_scores, bad_targets;  ///< i64, 0-d
};

struct ClassesAsked {
  /// How many there are; any number of them where it is not given.
  std::optional<int64_t> count = {};
  double threshold = 0.5;
  std::optional<int64_t> ignore_index = {};
};

/// Decides class scores, binary scores and classes, inside a metric's CallScope. ShapeError, DTypeError, DeviceError.
Classes read_classes(const Tensor& predictions, const Tensor& targets, const ClassesAsked& asked);

/// i64 [count]: how often each of `classes` occurs, each with its weight.
Tensor occurrences(const Tensor& classes, const Tensor& weights, int64_t count);

/// Defined tensors on one device, targets of a kind that counts. ShapeError where they are not of one shape, if asked.
void check_batch(const Tensor& predictions, const Tensor& targets, bool one_shape);
/// Class scores [N, C, …] for targets [N, …]. ShapeError otherwise, and for another C than `count`.
void check_scores(const Tensor& scores, const Tensor& targets, std::optional<int64_t> count);

}  // namespace weft::train
