// A data loader: batches of a dataset's samples, prepared ahead by worker threads.
//
//   data::DataLoader loader(data::TensorDataset(x, y), {.batch_size = 64, .shuffle = true, .seed = 1, .workers = 2});
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     for (auto [x, y] : loader) step(x, y);
//   }
//
// The batches depend only on the dataset, the options and the seed, not on the number of workers. Batches arrive in
// order. A dataset or its functions may draw random numbers from the CPU's default generator. They depend only on the
// sample (its index, its position in the epoch, the epoch and the seed), and do not affect the training's generator.
//
// Every loop is one epoch and advances the epoch; with a distributed_sampler only set_epoch does. Leaving a loop early
// ends its epoch. `state` returns the position of the loop. After `restore`, a loader with the same options continues
// after that batch, bit for bit, for any number of workers. Prefetched batches that were not returned do not count.
//
// Workers record no gradients, and their ops use one thread each, which leaves the other threads to the training. An
// exception of a worker is raised in the loop in place of the batch: the same Weft error type, with the sample and the
// worker in its text. It ends the epoch; the loader can be used again.
//
// A loader must be used by one thread at a time. After a fork, the child process starts separate workers with its next
// loop or batch.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collate.hpp"
#include "dataset.hpp"
#include "sampler.hpp"
#include "stream.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/generator.hpp"
#include "../tensor/pimpl.hpp"
#include "../tensor/shared.hpp"

namespace weft::data {

struct LoaderOptions {
  int64_t batch_size = 1;
  /// Uses another random order in every epoch.
  bool shuffle = false;
  /// Seed of the order and of the samples' draws. By default it is drawn from `generator` when the first loop begins,
  /// and every later loop advances the generator by one draw; a restored loader uses the saved seed. With `world` above
  /// 1, the default is the seed of the generator, which is not advanced, since ranks may have drawn different numbers
  /// of times.
  std::optional<uint64_t> seed = {};
  /// Custom order instead of `shuffle`; <weft/data/sampler.hpp>.
  Sampler sampler = {};
  /// Custom batches instead of batch_size, shuffle, sampler and drop_last.
  BatchSampler batch_sampler = {};
  /// Number of worker threads; with 0 the loop makes the batches itself.
  int workers = 0;
  /// Number of batches that each worker may prepare ahead.
  int prefetch = 2;
  /// Drops the last batch if it is smaller than the others.
  bool drop_last = false;
  /// Allocates batches in pinned memory. Warns if no available device can use it.
  bool pin_memory = false;
  /// Device of the returned batches. Pinned batches are copied asynchronously on the loop's current stream.
  Device device = {};
  /// This process gets every `world`-th sample, or every `world`-th batch of a batch_sampler, starting at index `rank`.
  /// All ranks get the same number: samples from the start are repeated at the end, or, for a stream, the last ones are
  /// dropped.
  int64_t rank = 0, world = 1;
  /// Seconds to wait for a batch before raising Error; 0 waits forever.
  double timeout = 0;
  /// Source of the seed. Default: the CPU's default generator. Must outlive the loader.
  Generator* generator = nullptr;
};

namespace detail {

/// Description of a batch to be made.
struct Job {
  uint64_t seed = 0;
  int64_t epoch = 0, batch = 0;
  /// Position in the epoch of the first sample.
  int64_t first = 0;
  std::span<const int64_t> indices = {};
  /// Only for a stream: the values that were read for this batch.
  Shared<void> read = {};
  /// -1 if the loop makes the batch itself.
  int worker = -1;
  /// Position in the batch of the sample that is being loaded; -1 if none.
  mutable int64_t at = -1;
};

/// "sample 17 of batch 2 of epoch 0, worker 1"
WEFT_API std::string place_of(const Job& job);
/// Thrown by a source if the error message already contains that position.
struct NamedError {
  std::exception_ptr error;
};

/// While one exists, the CPU's default generator is that of one sample, or of a whole batch.
class WEFT_API SampleScope {
 public:
  static constexpr int64_t whole_batch = -1, reading = -2;
  /// `at` is the sample's position in the batch, or one of the constants.
  SampleScope(const Job& job, int64_t at);

 private:
  Generator generator_;
  GeneratorGuard guard_;
};

/// The source of batches. Its callbacks hide the types of the batch and the dataset.
struct Source {
  /// nullopt for a stream.
  std::optional<int64_t> size = {};
  /// Name of a stream's order in saved positions.
  std::string stream_kind = "stream";
  /// Called before each epoch, since the size may change.
  Callback<int64_t()> ask_size = {};
  /// Makes the batch of a job.
  Callback<Shared<void>(const Job& job)> make;
  /// Only for a stream: begins an epoch and returns the reader for `pull`.
  Callback<Shared<void>(int64_t epoch)> open = {};
  /// Only for a stream: returns the next `count` values of this rank for a job; `got` is set to their number.
  Callback<Shared<void>(void* reader, const Job& job, int64_t count, int64_t& got)> pull = {};
};

/// Returns whether batches for `device`, or any device, can use pinned memory; warns if not.
WEFT_API bool can_pin(std::optional<Device> device, Location where);
/// The device for which batches are pinned; nullopt means any device.
inline std::optional<Device> pins_for(Device device) { return device.is_cpu() ? std::nullopt : std::optional(device); }

/// The type-independent implementation of loaders: order, position, threads, errors.
class WEFT_API LoaderEngine {
 public:
  LoaderEngine(Source source, LoaderOptions options, Location where);
  ~LoaderEngine();
  LoaderEngine(LoaderEngine&&) noexcept;
  LoaderEngine(const LoaderEngine&) = delete;

  const LoaderOptions& options() const;
  /// Begins an epoch, or continues after `restore`. Returns the id of this loop.
  uint64_t begin(Location where);
  /// Returns the next batch, or null after the last one. Raises ValueError if another loop has begun.
  Shared<void> next(uint64_t loop, Location where);
  int64_t size(Location where) const;
  uint64_t seed() const;
  int64_t epoch() const;
  int64_t batch() const;
  void set_epoch(int64_t epoch, Location where);
  std::string state() const;
  void restore(const std::string& text, Location where);

 private:
  struct Impl;
  weft::detail::Pimpl<Impl> impl_;
};

/// End sentinel of a loop.
struct LoopEnd {};

/// Returns sample(i) for every position in a batch.
template <class F>
auto samples_of(const Job& job, size_t count, const F& sample) {
  std::vector<decltype(sample(size_t{}))> samples;
  samples.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    job.at = static_cast<int64_t>(i);
    const SampleScope random(job, job.at);
    samples.push_back(sample(i));
  }
  job.at = -1;
  return samples;
}

template <class...>
inline constexpr bool no_dataset = false;

template <class D, class C>
auto make_batch(const D& dataset, const C& collate, const Job& job) {
  if constexpr (BatchedDataset<D> && std::same_as<C, Collate>) {
    const SampleScope random(job, SampleScope::whole_batch);
    return dataset.get_batch(job.indices);
  } else if constexpr (Dataset<D>) {
    auto samples =
        samples_of(job, job.indices.size(), [&](size_t i) { return read_sample(dataset.get(job.indices[i])); });
    const SampleScope random(job, SampleScope::whole_batch);
    return collate(std::move(samples));
  } else if constexpr (!StreamDataset<D>) {
    static_assert(no_dataset<D>,
                  "a dataset has size() and get(i), both const. Where get makes a pair of x[i], write "
                  "std::pair(Tensor(x[i]), Tensor(y[i])), or name its type: std::pair<Tensor, Tensor> get(int64_t i)");
    return 0;
  } else {
    auto& values = *static_cast<std::vector<ReadOf<D>>*>(job.read.get());
    auto samples = samples_of(job, values.size(), [&](size_t i) { return dataset.finish(std::move(values[i])); });
    const SampleScope random(job, SampleScope::whole_batch);
    return collate(std::move(samples));
  }
}

}  // namespace detail

/// Batches of a dataset, or of a stream (<weft/data/stream.hpp>), collated by `collate`: Collate, Pad or a function of
/// a std::vector of samples, see <weft/data/collate.hpp>. Owns the dataset.
template <class D, class C = Collate>
class DataLoader {
 public:
  /// Raises ValueError for options that are out of range or exclude each other, and for a random order of an empty
  /// dataset; otherwise an empty dataset gives no batches. The size of a dataset may change between epochs.
  explicit DataLoader(D dataset, LoaderOptions options = {}, C collate = {}, Location where = {})
      : dataset_(Shared<D>::make(std::move(dataset))),
        engine_(source(dataset_, collate, options, where), options, where) {}
  template <class = void>
  explicit DataLoader(D, ...) = delete;  // options have names and an order: {.batch_size = 32}

  using Batch = decltype(detail::make_batch(std::declval<const D&>(), std::declval<const C&>(),
                                            std::declval<const detail::Job&>()));

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Batch& operator*() const { return *static_cast<Batch*>(batch_.get()); }
    Batch* operator->() const { return static_cast<Batch*>(batch_.get()); }
    Iterator& operator++() {
      advance();
      return *this;
    }
    void operator++(int) { advance(); }
    bool operator==(detail::LoopEnd) const { return batch_ == nullptr; }

   private:
    friend DataLoader;
    Iterator(DataLoader& loader, Location where)
        : engine_(&loader.engine_), loop_(engine_->begin(where)), where_(where) {
      advance();
    }
    void advance() {
      batch_ = {};  // release the batch before the next one is made
      batch_ = engine_->next(loop_, where_);
      if (batch_ != nullptr) move_to_device();
    }
    void move_to_device() {
      const LoaderOptions& options = engine_->options();
      if (options.device.is_cpu()) return;
      detail::each_tensor(**this,
                          [&](const Tensor& t) { return t.to(options.device, {.non_blocking = true}, where_); });
    }

    detail::LoaderEngine* engine_;
    uint64_t loop_;
    Location where_;
    Shared<void> batch_;
  };

  /// Begins a loop. A loop that is still running raises ValueError at its next step.
  Iterator begin(Location where = {}) { return Iterator(*this, where); }
  detail::LoopEnd end() { return {}; }

  /// Number of batches in an epoch; if it varies, that of the running or the next epoch. Raises ValueError for a
  /// stream.
  int64_t size(Location where = {}) const { return engine_.size(where); }
  const D& dataset() const { return *dataset_; }
  const LoaderOptions& options() const { return engine_.options(); }
  uint64_t seed() const { return engine_.seed(); }
  /// The epoch of the running or the last loop; 0 before the first.
  int64_t epoch() const { return engine_.epoch(); }
  /// Number of batches of the epoch that were returned.
  int64_t batch() const { return engine_.batch(); }
  /// Sets the epoch of the next loop, which starts at its beginning; a loader restored within this epoch continues in
  /// it. Raises ValueError for a negative epoch.
  void set_epoch(int64_t epoch, Location where = {}) { engine_.set_epoch(epoch, where); }

  /// Returns the position of the loop as JSON, for example for RunState::documents["sampler"] in
  /// <weft/io/training_state.hpp>. It is the same on every rank.
  std::string state() const { return engine_.state(); }
  /// Restores a position: the next loop continues after the last returned batch, or with the next epoch if the loop had
  /// ended. Raises FormatError for a malformed text. Raises ValueError, and changes nothing, if the dataset's size, the
  /// seed or an option that affects the order differs.
  void restore(const std::string& state, Location where = {}) { engine_.restore(state, where); }

 private:
  static detail::Source source(const Shared<const D>& dataset, const C& collate, const LoaderOptions& options,
                               Location where) {
    detail::Source made;
    const std::optional<Device> device = detail::pins_for(options.device);
    const bool pin = options.pin_memory && detail::can_pin(device, where);
    made.make = [dataset, collate, pin, device](const detail::Job& job) -> Shared<void> {
      auto batch = Shared<Batch>::make(detail::make_batch(*dataset, collate, job));
      const auto pinned = [&](const Tensor& t) { return t.device().is_cpu() ? t.pin_memory(device) : t; };
      if (pin) detail::each_tensor(*batch, pinned);
      return batch;
    };
    if constexpr (Dataset<D>) {
      made.size = dataset->size();
      made.ask_size = [dataset] { return static_cast<int64_t>(dataset->size()); };
    } else if constexpr (StreamDataset<D>) {
      made.open = [dataset](int64_t epoch) { return detail::open_reader(*dataset, epoch); };
      made.pull = [rank = options.rank, world = options.world](void* reader, const detail::Job&, int64_t count,
                                                               int64_t& got) {
        return detail::pull_samples<D>(reader, count, rank, world, got);
      };
    }
    return made;
  }

  Shared<const D> dataset_;
  detail::LoaderEngine engine_;
};
/// The batch type of a loader, to declare a lambda parameter: `[&](data::BatchOf<decltype(loader)>& b)`. A generic
/// lambda would need `b.second.template item<float>()`.
template <class Loader>
using BatchOf = std::remove_cvref_t<decltype(*std::declval<std::remove_cvref_t<Loader>&>().begin())>;

template <class D>
DataLoader(D) -> DataLoader<D>;
template <class D>
DataLoader(D, LoaderOptions) -> DataLoader<D>;
template <class D, class C>
DataLoader(D, LoaderOptions, C) -> DataLoader<D, C>;
template <class D, class C>
DataLoader(D, LoaderOptions, C, Location) -> DataLoader<D, C>;

}  // namespace weft::data
