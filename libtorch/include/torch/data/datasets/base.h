// Datasets that a program derives its own from.
#pragma once

#include <type_traits>
#include <vector>

#include <torch/data/example.h>

namespace torch::data::datasets {

template <class SourceDataset, class AppliedTransform>
class MapDataset;

namespace detail {
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<optional<T>> = true;
}  // namespace detail

/// Returns a batch for a request, such as a list of indices. A stateful dataset returns nothing at the end of its data.
template <class Self, class Batch, class BatchRequest = ArrayRef<size_t>>
class BatchDataset {
 public:
  using SelfType = Self;
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;
  static constexpr bool is_stateful = detail::is_optional<Batch>;

  virtual ~BatchDataset() = default;
  virtual Batch get_batch(BatchRequest request) = 0;
  /// Nothing if it is not known.
  virtual optional<size_t> size() const = 0;

  /// A dataset that applies the transform to each batch.
  template <class TransformType>
  MapDataset<Self, TransformType> map(TransformType transform) & {
    return {static_cast<Self&>(*this), std::move(transform)};
  }
  template <class TransformType>
  MapDataset<Self, TransformType> map(TransformType transform) && {
    return {std::move(static_cast<Self&>(*this)), std::move(transform)};
  }
};

/// Returns an example for an index.
template <class Self, class SingleExample = Example<>>
class Dataset : public BatchDataset<Self, std::vector<SingleExample>> {
 public:
  using ExampleType = SingleExample;
  virtual SingleExample get(size_t index) = 0;
  std::vector<SingleExample> get_batch(ArrayRef<size_t> indices) override {
    std::vector<SingleExample> batch;
    batch.reserve(indices.size());
    for (const size_t index : indices) batch.push_back(get(index));
    return batch;
  }
};

/// Returns a batch for its size.
template <class Self, class Batch = std::vector<Example<>>>
using StreamDataset = BatchDataset<Self, Batch, size_t>;

}  // namespace torch::data::datasets
