// Datasets that are read in chunks, such as files, by threads in advance.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <iterator>

#include <torch/arg.h>
#include <torch/data/datasets/stateful.h>
#include <torch/data/detail/threads.h>
#include <torch/data/samplers.h>
#include <torch/data/worker_exception.h>

namespace torch::data::datasets {

/// Reads the chunk of an index. Several threads call read_chunk at once.
template <class ExampleType_, class ChunkType_ = std::vector<ExampleType_>>
class ChunkDataReader {
 public:
  using ChunkType = ChunkType_;
  using ExampleType = ExampleType_;
  virtual ~ChunkDataReader() = default;
  virtual ChunkType read_chunk(size_t chunk_index) = 0;
  virtual size_t chunk_count() = 0;
  /// Called at the start of each epoch.
  virtual void reset() = 0;
};

struct ChunkDatasetOptions {
  ChunkDatasetOptions(size_t preloader_count, size_t batch_size, size_t cache_size = 2048,
                      size_t cross_chunk_shuffle_count = 1)
      : preloader_count_(preloader_count),
        batch_size_(batch_size),
        cache_size_(cache_size),
        cross_chunk_shuffle_count_(cross_chunk_shuffle_count) {
    TORCH_CHECK(preloader_count_ > 0, "Preloader count is 0. At least one preloader needs to be specified.");
    TORCH_CHECK(batch_size_ > 0, "Batch size is 0. A positive batch size needs to be specified.");
    TORCH_CHECK(cache_size_ > 0, "Cache size is 0. A positive cache size needs to be specified.");
    TORCH_CHECK(cache_size_ >= batch_size_,
                "Cache size is less than batch size. Cache needs to be large enough to hold at least one batch.");
    TORCH_CHECK(cross_chunk_shuffle_count_ > 0, "cross_chunk_shuffle_count needs to be greater than 0.");
  }

  /// Threads that read chunks.
  TORCH_ARG(size_t, preloader_count);
  TORCH_ARG(size_t, batch_size);
  /// Examples read in advance, after which the threads wait.
  TORCH_ARG(size_t, cache_size);
  /// Chunks that are read together, so that their examples are mixed.
  TORCH_ARG(size_t, cross_chunk_shuffle_count);
};

namespace detail {

/// Batches made from chunks, between the threads that read chunks and the reader of batches.
template <class UnwrappedBatch, class ExampleSampler = samplers::RandomSampler>
class BatchDataBuffer {
 public:
  BatchDataBuffer(size_t batch_size, ExampleSampler& example_sampler, size_t capacity)
      : batch_size_(batch_size), example_sampler_(example_sampler), capacity_(capacity) {}

  /// Waits for a full batch, or the last. Returns nothing at the end, and raises WorkerException.
  optional<UnwrappedBatch> get_batch() {
    const Lock lock(monitor_);
    monitor_.wait([this] { return stop_ || is_ready(); });
    if (batches_.empty()) return nullopt;
    Entry entry = std::move(batches_.front());
    batches_.pop_front();
    examples_ -= entry.batch.size();
    monitor_.notify();
    if (entry.exception) throw WorkerException(entry.exception);
    return std::move(entry.batch);
  }
  /// Waits for space. Adds the examples in the order of the sampler.
  void add_chunk_data(UnwrappedBatch data) {
    const Lock lock(monitor_);
    if (!wait_for_space()) return;
    const size_t count = data.size();
    example_sampler_.reset(count);
    for (size_t left = count; left > 0;) {
      if (batches_.empty() || batches_.back().exception || batches_.back().batch.size() >= batch_size_) {
        batches_.emplace_back();
      }
      left -= fill(batches_.back().batch, left, data);
    }
    examples_ += count;
    monitor_.notify();
  }
  void add_chunk_data(std::exception_ptr exception) {
    const Lock lock(monitor_);
    if (!wait_for_space()) return;
    batches_.push_back({{}, std::move(exception)});
    monitor_.notify();
  }
  /// No more chunks are added.
  void stop() {
    const Lock lock(monitor_);
    stop_ = true;
    monitor_.notify();
  }

 private:
  using Lock = data::detail::Monitor::Lock;
  struct Entry {
    UnwrappedBatch batch;
    std::exception_ptr exception = nullptr;
  };

  bool is_ready() const {
    return !batches_.empty() && (batches_.front().exception || batches_.front().batch.size() >= batch_size_);
  }
  bool wait_for_space() {
    monitor_.wait([this] { return stop_ || examples_ < capacity_; });
    return !stop_;
  }
  size_t fill(UnwrappedBatch& batch, size_t left, UnwrappedBatch& data) {
    const size_t count = std::min(left, batch_size_ - batch.size());
    const auto indices = example_sampler_.next(count);
    TORCH_CHECK(indices && indices->size() == count, "ChunkDataset: the sampler of examples returned too few indices");
    for (const size_t i : *indices) {
      TORCH_CHECK_INDEX(i < data.size(), "ChunkDataset: index ", i, " for a chunk of ", data.size(), " examples");
      batch.emplace_back(std::move(data[i]));
    }
    return count;
  }

  size_t batch_size_;
  ExampleSampler& example_sampler_;
  size_t capacity_, examples_ = 0;
  std::deque<Entry> batches_;
  data::detail::Monitor monitor_;
  bool stop_ = false;
};

}  // namespace detail

/// Batches of examples from chunks. Chunks and the examples of each have the order of their samplers. Each epoch starts
/// with reset().
template <class ChunkReader, class ChunkSampler = samplers::RandomSampler,
          class ExampleSampler = samplers::RandomSampler>
class ChunkDataset final : public StatefulDataset<ChunkDataset<ChunkReader, ChunkSampler, ExampleSampler>,
                                                  typename ChunkReader::ChunkType, size_t> {
 public:
  using UnwrappedBatchType = typename ChunkReader::ChunkType;
  using BatchType = optional<UnwrappedBatchType>;
  using BatchRequestType = size_t;
  using ChunkSamplerType = ChunkSampler;
  using ExampleSamplerType = ExampleSampler;

  /// `preprocessing_policy` may change each chunk.
  ChunkDataset(ChunkReader chunk_reader, ChunkSampler chunk_sampler, ExampleSampler example_sampler,
               ChunkDatasetOptions options, std::function<void(UnwrappedBatchType&)> preprocessing_policy = {})
      : chunk_reader_(std::move(chunk_reader)),
        chunk_sampler_(std::move(chunk_sampler)),
        example_sampler_(std::move(example_sampler)),
        options_(std::move(options)),
        preprocessing_policy_(std::move(preprocessing_policy)) {}
  ~ChunkDataset() override { stop(); }

  BatchType get_batch(size_t batch_size) override {
    TORCH_CHECK(buffer_ != nullptr, "Dataset needs to call reset() before calling get_batch().");
    TORCH_CHECK(batch_size == options_.batch_size(),
                "The requested batch size does not match with the initialized batch size.\n"
                " The requested batch size is ",
                batch_size, ", while the dataset is created with batch size equal to ", options_.batch_size());
    return buffer_->get_batch();
  }
  BatchType get_batch() { return get_batch(options_.batch_size()); }
  void reset() override {
    stop();
    if (!loaded_) {
      chunk_reader_.reset();
      chunk_sampler_.reset(chunk_reader_.chunk_count());
    }
    loaded_ = false;
    buffer_ = std::make_unique<Buffer>(options_.batch_size(), example_sampler_, options_.cache_size());
    quit_ = false;
    running_ = options_.preloader_count();
    for (size_t i = 0; i < options_.preloader_count(); ++i) preloaders_.start([this] { preload(); });
  }
  /// Not known.
  optional<size_t> size() const override { return nullopt; }
  /// For set_epoch() of a distributed sampler.
  ChunkSamplerType& chunk_sampler() { return chunk_sampler_; }
  void save(serialize::OutputArchive& archive) const override {
    const Lock lock(sampler_monitor_);
    chunk_sampler_.save(archive);
  }
  /// The next epoch continues after the chunks that were read before the save.
  void load(serialize::InputArchive& archive) override {
    const Lock lock(sampler_monitor_);
    chunk_sampler_.load(archive);
    loaded_ = true;
  }

 private:
  using Lock = data::detail::Monitor::Lock;
  using Buffer = detail::BatchDataBuffer<UnwrappedBatchType, ExampleSampler>;

  void stop() {
    quit_ = true;
    if (buffer_) buffer_->stop();
    preloaders_.join();
  }
  void preload() {
    while (!quit_) {
      try {
        const std::vector<size_t> chunks = next_chunks();
        if (chunks.empty()) break;
        UnwrappedBatchType data = chunk_reader_.read_chunk(chunks[0]);
        for (size_t i = 1; i < chunks.size(); ++i) {
          UnwrappedBatchType more = chunk_reader_.read_chunk(chunks[i]);
          std::move(more.begin(), more.end(), std::back_inserter(data));
        }
        if (preprocessing_policy_) preprocessing_policy_(data);
        if (!data.empty()) buffer_->add_chunk_data(std::move(data));
      } catch (...) {
        buffer_->add_chunk_data(std::current_exception());
      }
    }
    if (--running_ == 0) buffer_->stop();
  }
  std::vector<size_t> next_chunks() {
    const Lock lock(sampler_monitor_);
    return chunk_sampler_.next(options_.cross_chunk_shuffle_count()).value_or(std::vector<size_t>());
  }

  ChunkReader chunk_reader_;
  ChunkSampler chunk_sampler_;
  ExampleSampler example_sampler_;
  ChunkDatasetOptions options_;
  std::function<void(UnwrappedBatchType&)> preprocessing_policy_;
  std::unique_ptr<Buffer> buffer_;
  data::detail::Threads preloaders_;
  data::detail::Monitor sampler_monitor_;
  std::atomic<bool> quit_ = false;
  std::atomic<size_t> running_ = 0;
  bool loaded_ = false;
};

}  // namespace torch::data::datasets
