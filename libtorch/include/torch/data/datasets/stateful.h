// Datasets that return batches until they are exhausted.
#pragma once

#include <torch/data/datasets/base.h>
#include <torch/serialize/archive.h>

namespace torch::data::datasets {

template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = size_t>
class StatefulDataset : public BatchDataset<Self, optional<Batch>, BatchRequest> {
 public:
  /// Starts a new epoch.
  virtual void reset() = 0;
  virtual void save(serialize::OutputArchive& archive) const = 0;
  virtual void load(serialize::InputArchive& archive) = 0;
};

template <class... A>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const StatefulDataset<A...>& dataset) {
  dataset.save(archive);
  return archive;
}
template <class... A>
serialize::InputArchive& operator>>(serialize::InputArchive& archive, StatefulDataset<A...>& dataset) {
  dataset.load(archive);
  return archive;
}

}  // namespace torch::data::datasets
