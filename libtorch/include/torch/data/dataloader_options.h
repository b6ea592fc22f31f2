// Options of data loaders.
#pragma once

#include <chrono>

#include <torch/arg.h>
#include <torch/types.h>

namespace torch::data {

struct DataLoaderOptions {
  DataLoaderOptions() = default;
  DataLoaderOptions(size_t batch_size) : batch_size_(batch_size) {}

  TORCH_ARG(size_t, batch_size) = 1;
  /// Threads that load batches. With 0, batches are loaded when they are requested.
  TORCH_ARG(size_t, workers) = 0;
  /// Batches that are requested in advance, by default two for each worker.
  TORCH_ARG(optional<size_t>, max_jobs);
  /// The time after which waiting for a batch raises an error.
  TORCH_ARG(optional<std::chrono::milliseconds>, timeout);
  /// Whether batches have the order of the sampler.
  TORCH_ARG(bool, enforce_ordering) = true;
  /// Whether the last batch is left out if it is smaller than the others.
  TORCH_ARG(bool, drop_last) = false;
};

/// DataLoaderOptions with all defaults filled in.
struct FullDataLoaderOptions {
  explicit FullDataLoaderOptions(DataLoaderOptions options)
      : batch_size(options.batch_size()),
        workers(options.workers()),
        max_jobs(options.max_jobs().value_or(2 * workers)),
        timeout(options.timeout()),
        enforce_ordering(options.enforce_ordering()),
        drop_last(options.drop_last()) {}

  size_t batch_size, workers, max_jobs;
  optional<std::chrono::milliseconds> timeout;
  bool enforce_ordering, drop_last;
};

}  // namespace torch::data
