// The base class of data loaders: the queue of jobs, and the threads that load batches.
#pragma once

#include <exception>
#include <memory>

#include <torch/data/dataloader_options.h>
#include <torch/data/detail/data_shuttle.h>
#include <torch/data/detail/sequencers.h>
#include <torch/data/iterator.h>
#include <torch/data/worker_exception.h>

namespace torch::data {

template <class Dataset, class Batch, class BatchRequest>
class DataLoaderBase {
 public:
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;

  DataLoaderBase(DataLoaderOptions options, std::unique_ptr<Dataset> main_thread_dataset = nullptr)
      : options_(std::move(options)), main_thread_dataset_(std::move(main_thread_dataset)) {
    TORCH_CHECK(options_.workers == 0 || options_.max_jobs > 0, "DataLoaderOptions: max_jobs is 0, and workers is ",
                options_.workers);
    sequencer_ = new_sequencer();
  }
  DataLoaderBase(const DataLoaderBase&) = delete;
  virtual ~DataLoaderBase() { join(); }

  /// Starts an epoch. Raises an error while an iterator of this loader waits for batches of its workers.
  Iterator<Batch> begin() {
    TORCH_CHECK(shuttle_.in_flight_jobs() == 0,
                "Attempted to get a new DataLoader iterator while another iterator is not yet exhausted");
    reset();
    return Iterator<Batch>([this] { return next(); });
  }
  Iterator<Batch> end() { return {}; }
  /// Stops the workers.
  void join() {
    if (workers_.size() == 0) return;
    shuttle_.drain();
    for (size_t i = 0; i < workers_.size(); ++i) push_job({nullopt, 0});
    workers_.join();
  }
  const FullDataLoaderOptions& options() const noexcept { return options_; }

 protected:
  struct Job {
    optional<BatchRequest> request;  ///< nothing stops the worker
    size_t sequence_number;
  };
  struct Result {
    optional<Batch> batch;
    std::exception_ptr exception;
    size_t sequence_number;
  };

  virtual optional<BatchRequest> get_batch_request() = 0;

  virtual void reset() {
    shuttle_.drain();
    sequence_number_ = 0;
    sequencer_ = new_sequencer();
    prefetch(options_.max_jobs);
  }
  void prefetch(size_t job_count) {
    for (; job_count > 0 && workers_.size() > 0; --job_count) {
      optional<BatchRequest> request = get_batch_request();
      if (!request) return;
      push_job({std::move(request), sequence_number_++});
    }
  }
  optional<Batch> next() {
    if (workers_.size() == 0) {
      optional<BatchRequest> request = get_batch_request();
      if (!request) return nullopt;
      return main_thread_dataset_->get_batch(std::move(*request));
    }
    // A stateful dataset that is exhausted gives results without a batch.
    while (optional<Result> result = sequencer_->next([this] { return shuttle_.pop_result(options_.timeout); })) {
      if (result->exception) throw WorkerException(result->exception);
      if (result->batch) {
        prefetch(1);
        return std::move(result->batch);
      }
    }
    return nullopt;
  }
  void worker_thread(Dataset& dataset) {
    while (true) {
      Job job = shuttle_.pop_job();
      if (!job.request) return;
      Result result{nullopt, nullptr, job.sequence_number};
      try {
        result.batch = dataset.get_batch(std::move(*job.request));
      } catch (...) {
        result.exception = std::current_exception();
      }
      shuttle_.push_result(std::move(result));
    }
  }
  void push_job(Job job) { shuttle_.push_job(std::move(job)); }
  std::unique_ptr<detail::sequencers::Sequencer<Result>> new_sequencer() {
    using namespace detail::sequencers;
    if (options_.enforce_ordering) return std::make_unique<OrderedSequencer<Result>>(options_.max_jobs);
    return std::make_unique<NoSequencer<Result>>();
  }

  const FullDataLoaderOptions options_;
  /// The dataset if there are no workers, or if they share it.
  std::unique_ptr<Dataset> main_thread_dataset_;
  size_t sequence_number_ = 0;
  detail::Threads workers_;
  detail::DataShuttle<Job, Result> shuttle_;
  std::unique_ptr<detail::sequencers::Sequencer<Result>> sequencer_;
};

}  // namespace torch::data
