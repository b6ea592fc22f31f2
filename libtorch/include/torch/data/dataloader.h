// Data loaders: make_data_loader(dataset, sampler, options) returns batches, loaded by threads in advance.
#pragma once

#include <torch/data/dataloader/base.h>
#include <torch/data/dataloader/stateful.h>
#include <torch/data/dataloader/stateless.h>
#include <torch/csrc/utils/memory.h>

namespace torch::data {

/// Batches of the dataset in the order of the sampler. Each worker has a copy of the dataset.
template <class Dataset, class Sampler>
std::enable_if_t<!Dataset::is_stateful, std::unique_ptr<StatelessDataLoader<Dataset, Sampler>>> make_data_loader(
    Dataset dataset, Sampler sampler, DataLoaderOptions options) {
  return std::make_unique<StatelessDataLoader<Dataset, Sampler>>(std::move(dataset), std::move(sampler),
                                                                 std::move(options));
}

/// Constructs the sampler for the size of the dataset. Raises an error if it has none.
template <class Sampler = samplers::RandomSampler, class Dataset>
std::enable_if_t<!Dataset::is_stateful && std::is_constructible_v<Sampler, size_t>,
                 std::unique_ptr<StatelessDataLoader<Dataset, Sampler>>>
make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  const optional<size_t> size = dataset.size();
  TORCH_CHECK(size.has_value(), "Expected the dataset to be sized in order to construct the Sampler");
  return make_data_loader(std::move(dataset), Sampler(*size), std::move(options));
}

/// Batches until the dataset is exhausted. All workers share the dataset.
template <class Dataset>
std::enable_if_t<Dataset::is_stateful, std::unique_ptr<StatefulDataLoader<Dataset>>> make_data_loader(
    Dataset dataset, DataLoaderOptions options = {}) {
  return std::make_unique<StatefulDataLoader<Dataset>>(std::move(dataset), std::move(options));
}

}  // namespace torch::data
