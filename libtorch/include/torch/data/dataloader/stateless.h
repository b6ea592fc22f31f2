// A data loader over a dataset with indices.
#pragma once

#include <torch/data/dataloader/base.h>
#include <torch/data/datasets.h>
#include <torch/data/samplers.h>

namespace torch::data {

template <class Dataset, class Sampler>
class StatelessDataLoader
    : public DataLoaderBase<Dataset, typename Dataset::BatchType, typename Sampler::BatchRequestType> {
 public:
  using Base = DataLoaderBase<Dataset, typename Dataset::BatchType, typename Sampler::BatchRequestType>;
  using typename Base::BatchRequestType;

  StatelessDataLoader(Dataset dataset, Sampler sampler, DataLoaderOptions options)
      : Base(std::move(options)), sampler_(std::move(sampler)) {
    for (size_t i = 0; i < this->options_.workers; ++i) {
      this->workers_.start([this, own = std::make_shared<Dataset>(dataset)] { this->worker_thread(*own); });
    }
    if (this->options_.workers == 0) this->main_thread_dataset_ = std::make_unique<Dataset>(std::move(dataset));
  }

 private:
  void reset() override {
    sampler_.reset(nullopt);
    Base::reset();
  }
  optional<BatchRequestType> get_batch_request() override {
    auto request = sampler_.next(this->options_.batch_size);
    const bool too_small = request && this->options_.drop_last && request->size() < this->options_.batch_size;
    return too_small ? nullopt : std::move(request);
  }

  Sampler sampler_;
};

}  // namespace torch::data
