// A data loader over a dataset that returns batches until it is exhausted.
#pragma once

#include <torch/data/dataloader/base.h>

namespace torch::data {

template <class Dataset>
class StatefulDataLoader
    : public DataLoaderBase<Dataset, typename Dataset::BatchType::value_type, typename Dataset::BatchRequestType> {
 public:
  using Base = DataLoaderBase<Dataset, typename Dataset::BatchType::value_type, typename Dataset::BatchRequestType>;
  using typename Base::BatchRequestType;

  StatefulDataLoader(Dataset dataset, DataLoaderOptions options)
      : Base(std::move(options), std::make_unique<Dataset>(std::move(dataset))) {
    for (size_t i = 0; i < this->options_.workers; ++i) {
      this->workers_.start([this] { this->worker_thread(*this->main_thread_dataset_); });
    }
  }

 private:
  /// The workers of the last epoch are waited for, since they use the dataset.
  void reset() override {
    this->shuttle_.drain();
    this->main_thread_dataset_->reset();
    Base::reset();
  }
  optional<BatchRequestType> get_batch_request() override { return this->options_.batch_size; }
};

}  // namespace torch::data
