// A loader: batches of a dataset's samples, made by threads ahead of the loop that uses them.
//
//   data::DataLoader loader(data::TensorDataset(x, y), {.batch_size = 64, .shuffle = true, .seed = 1, .workers = 2});
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     for (auto [x, y] : loader) step(x, y);
//   }
//
// What a loop sees depends on the dataset, the options and the seed alone, never on the number of workers: batches come
// in order, and random numbers that a dataset or a function of it draws from the CPU's default generator belong to the
// sample (its index, its place in the epoch, epoch and seed). So they never disturb those of the training either.
//
// Every loop is an epoch, the next one each time, but with a distributed_sampler, which stays until set_epoch; leaving
// a loop early ends its epoch. `state` says where the loop stands, and a loader with the same options goes on behind
// that batch after `restore`, bit for bit, whatever its number of workers. What was prefetched and not yet given out
// does not count.
//
// Workers record no gradients, and their ops use one thread each, so that the training has the others. What they throw
// is raised in the loop, where the batch would have come: the same kind of error of Weft's, with the sample and the
// worker in its text. That ends the epoch; the loader can be used again.
//
// A loader is used by one thread at a time. A process that forks has its own workers, which start with the next loop or
// the next batch.
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
  /// Another random order in every epoch.
  bool shuffle = false;
  /// Of the order and of what samples draw. Left out, it is drawn from `generator` when the first loop begins, and
  /// every further loop moves that by one draw; a restored loader takes the saved one. With `world` above 1 it is the
  /// seed of the generator, which is not moved: ranks need not have drawn equally often.
  std::optional<uint64_t> seed = {};
  /// An order of one's own instead of `shuffle`; <weft/data/sampler.hpp>.
  Sampler sampler = {};
  /// Batches of one's own, instead of batch_size, shuffle, sampler and drop_last.
  BatchSampler batch_sampler = {};
  /// Threads that make batches; with 0 the loop makes them itself.
  int workers = 0;
  /// How many batches a worker may be ahead.
  int prefetch = 2;
  /// Leave out a last batch that is smaller than the others.
  bool drop_last = false;
  /// Batches in memory that devices read without a detour. A warning says where there is no device to read it.
  bool pin_memory = false;
  /// Where batches are given out. Copies of pinned batches are queued on the loop's current stream, and not waited for.
  Device device = {};
  /// This process gets every `world`-th sample, or every `world`-th batch of a batch_sampler, from number `rank` on.
  /// All get equally many: some from the start come again at the end, or, of a stream, the last ones are left out.
  int64_t rank = 0, world = 1;
  /// Seconds to wait for a batch before an Error; 0 waits for ever.
  double timeout = 0;
  /// Where a seed is drawn from: the CPU's default generator, or this one, which must outlive the loader.
  Generator* generator = nullptr;
};

namespace detail {

/// A batch to be made.
struct Job {
  uint64_t seed = 0;
  int64_t epoch = 0, batch = 0;
  /// The place in the epoch of its first sample.
  int64_t first = 0;
  std::span<const int64_t> indices = {};
  /// Of a stream: what was read of it for this batch.
  Shared<void> read = {};
  /// -1 where the loop makes it itself.
  int worker = -1;
  /// The sample that is being got, by its place in the batch; -1 while it is none.
  mutable int64_t at = -1;
};

/// "sample 17 of batch 2 of epoch 0, worker 1"
WEFT_API std::string place_of(const Job& job);
/// What a source throws where its error names that place already.
struct NamedError {
  std::exception_ptr error;
};

/// While it lives, the CPU's default generator is that of one sample, or of a whole batch.
class WEFT_API SampleScope {
 public:
  static constexpr int64_t whole_batch = -1, reading = -2;
  /// `at` is the sample's place in the batch, or one of these.
  SampleScope(const Job& job, int64_t at);

 private:
  Generator generator_;
  GeneratorGuard guard_;
};

/// Where batches come from; B and the dataset are behind the callbacks.
struct Source {
  /// nullopt: a stream.
  std::optional<int64_t> size = {};
  /// What a saved position calls the order of a stream.
  std::string stream_kind = "stream";
  /// Asked before each epoch, where the size may be another one by then.
  Callback<int64_t()> ask_size = {};
  /// The batch of a job.
  Callback<Shared<void>(const Job& job)> make;
  /// Of a stream: begins an epoch, and what it gives is read by `pull`.
  Callback<Shared<void>(int64_t epoch)> open = {};
  /// Of a stream: the next `count` values of this rank for a job; `got` says how many there were.
  Callback<Shared<void>(void* reader, const Job& job, int64_t count, int64_t& got)> pull = {};
};

/// Whether batches for `device`, or any device, can lie in pinned memory; warns where they cannot.
WEFT_API bool can_pin(std::optional<Device> device, Location where);
/// What batches are pinned for: where they go, or any device.
inline std::optional<Device> pins_for(Device device) { return device.is_cpu() ? std::nullopt : std::optional(device); }

/// What loaders of all types share: order, position, threads, errors.
class WEFT_API LoaderEngine {
 public:
  LoaderEngine(Source source, LoaderOptions options, Location where);
  ~LoaderEngine();
  LoaderEngine(LoaderEngine&&) noexcept;
  LoaderEngine(const LoaderEngine&) = delete;

  const LoaderOptions& options() const;
  /// Begins an epoch, or goes on after `restore`; what it gives belongs to this loop.
  uint64_t begin(Location where);
  /// The next batch, null after the last one. ValueError where another loop has begun.
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

/// The end of a loop.
struct LoopEnd {};

/// sample(i) for every place in a batch.
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

/// Batches of a dataset, or of a stream (<weft/data/stream.hpp>), collated by `collate`: Collate, Pad or a function
/// from a std::vector of samples, <weft/data/collate.hpp>. It keeps the dataset.
template <class D, class C = Collate>
class DataLoader {
 public:
  /// ValueError for options out of range or that exclude each other, and for a random order of nothing; else an empty
  /// dataset gives no batch. A dataset may have another size in the next epoch.
  explicit DataLoader(D dataset, LoaderOptions options = {}, C collate = {}, Location where = {})
      : dataset_(Shared<D>::make(std::move(dataset))),
        engine_(source(dataset_, collate, options, where), options, where) {}

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
      batch_ = {};  // before the next one is made
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

  /// Begins a loop. A loop that still ran raises ValueError at its next step.
  Iterator begin(Location where = {}) { return Iterator(*this, where); }
  detail::LoopEnd end() { return {}; }

  /// Batches of an epoch: of the next or running one, should the sampler make them unequally many. ValueError for a
  /// stream.
  int64_t size(Location where = {}) const { return engine_.size(where); }
  const D& dataset() const { return *dataset_; }
  const LoaderOptions& options() const { return engine_.options(); }
  uint64_t seed() const { return engine_.seed(); }
  /// The epoch of the running loop, of the last one where none runs, and 0 before the first.
  int64_t epoch() const { return engine_.epoch(); }
  /// How many batches of it were given out.
  int64_t batch() const { return engine_.batch(); }
  /// The next loop is this epoch, from its beginning; a loader that was restored within this epoch goes on in it.
  /// ValueError for a negative one.
  void set_epoch(int64_t epoch, Location where = {}) { engine_.set_epoch(epoch, where); }

  /// Where the loop stands, as JSON, such as for RunState::documents["sampler"] in <weft/io/training_state.hpp>. Every
  /// rank of a training has the same.
  std::string state() const { return engine_.state(); }
  /// The next loop goes on behind the batch that had been given out last; where the loop had ended, it is the next
  /// epoch. FormatError for another text; ValueError, and
  /// no change, where the dataset's size, the seed or an option that the order depends on is another one.
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
/// What a loop over a loader gives, to name the parameter of a function: `[&](data::BatchOf<decltype(loader)>& b)`. A
/// generic lambda would have to write `b.second.template item<float>()`.
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
