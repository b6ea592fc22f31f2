#include "../loader.hpp"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <new>

#include <fmt/format.h>

#include "../../autograd/autocast.hpp"
#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/warning.hpp"
#include "worker_pool-inl.hpp"
#include "current_job-inl.hpp"
#include "epoch_random-inl.hpp"
#include "position-inl.hpp"
#include "worker_error-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data::detail {

constinit thread_local const Job* current_job = nullptr;

std::string sample_name(const Job& job, size_t i) {
  if (i < job.indices.size()) return fmt::format("sample {}", job.indices[i]);
  return fmt::format("sample {}", job.first + static_cast<int64_t>(i));
}
std::string sample_name(size_t i) {
  return current_job != nullptr ? sample_name(*current_job, i) : fmt::format("sample {} of the batch", i);
}

namespace {

constexpr const char* op = "DataLoader";

/// Every sample has 2^32 counters, selected by its position in the epoch. Draws for a whole batch use indices outside
/// the range of samples.
GeneratorState random_of(const Job& job, int64_t at) {
  const uint64_t key = epoch_seed(job.seed, job.epoch) ^ 1;
  if (at < 0) return {key, static_cast<uint64_t>(at) << 62 | static_cast<uint64_t>(job.batch), 0};
  const auto place = static_cast<uint64_t>(job.first + at);
  return {key, job.indices.empty() ? place : static_cast<uint64_t>(job.indices[static_cast<size_t>(at)]), place << 32};
}

void check(const LoaderOptions& o, const Source& source, Location where) {
  const auto require = [&](bool holds, const std::string& problem, const char* remedy = "") {
    if (!holds) raise<ValueError>({.op = op, .problem = problem, .remedy = remedy}, where);
  };
  const auto expect = [&](bool holds, const char* name, const char* expected, auto value) {
    if (!holds) require(false, mismatch_text(name, expected, value));
  };
  expect(o.batch_size >= 1, "batch_size", "at least 1", o.batch_size);
  expect(o.workers >= 0 && o.workers <= 1024, "workers", "a number in [0, 1024]", o.workers);
  expect(o.prefetch >= 1 && o.prefetch <= 4096, "prefetch", "a number in [1, 4096]", o.prefetch);
  require(o.world >= 1 && o.rank >= 0 && o.rank < o.world, fmt::format("there is no rank {} of {}", o.rank, o.world));
  require(o.timeout >= 0, fmt::format("timeout is {} s", o.timeout));
  require(!o.sampler || !o.shuffle, "both shuffle and a sampler are given", "let the sampler shuffle");
  require(!o.batch_sampler || (!o.sampler && !o.shuffle && !o.drop_last && o.batch_size == 1),
          "a batch_sampler excludes batch_size, shuffle, sampler and drop_last");
  require(source.size || (!o.sampler && !o.batch_sampler && !o.shuffle),
          "a stream is read from its beginning, and has no order of another kind");
}

Sampler sampler_of(const LoaderOptions& o, std::optional<int64_t> size, Location where) {
  if (!size || o.batch_sampler) return {};
  Sampler s = o.sampler ? o.sampler : o.shuffle ? random_sampler(*size, {}, where) : sequential_sampler(*size, where);
  return o.world == 1 ? s : distributed_sampler(std::move(s), {.rank = o.rank, .world = o.world}, where);
}

}  // namespace

SampleScope::SampleScope(const Job& job, int64_t at) : guard_(generator_) { generator_.set_state(random_of(job, at)); }

bool can_pin(std::optional<Device> device, Location where) {
  try {
    (void)empty({1}, DType::u8).pin_memory(device);
    return true;
  } catch (const DeviceError&) {
    warn({.op = op,
          .problem = "pin_memory: there is no device to pin memory for",
          .remedy = "batches are as without it"},
         where);
    return false;
  }
}

struct LoaderEngine::Impl {
  Impl(Source source_, LoaderOptions options_, Location where)
      : source(std::move(source_)), options(std::move(options_)) {
    check(options, source, where);
    sampler = sampler_of(options, source.size, where);
    // Ranks may have drawn different numbers of times, so the common seed is that of their generators.
    if (options.seed) known_seed = options.seed;
    else if (!draws_seed()) known_seed = generator().seed();
  }
  ~Impl() { leave_pool_to_parent(); }

  /// After a fork, the threads and their locks belong to the parent process.
  void leave_pool_to_parent() {
    if (pool != nullptr && owner != getpid()) (void)pool.release();
  }

  Generator& generator() const { return options.generator != nullptr ? *options.generator : default_generator(); }
  bool draws_seed() const { return !options.seed && options.world == 1 && !options.sampler.is_distributed(); }
  uint64_t seed() {
    if (!known_seed) {
      known_seed = detail::drawn_seed(generator());
      has_drawn = true;
    }
    return *known_seed;
  }
  /// Every epoch advances the generator once, as in PyTorch, so a resumed training with other loaders has the same
  /// draws.
  void move_generator() {
    if (!draws_seed() || (resumed && position.batch > 0)) return;
    (void)seed();
    if (!std::exchange(has_drawn, false)) (void)detail::drawn_seed(generator());
  }

  /// The size of a dataset may have changed.
  void ask_size(Location where) {
    if (!source.ask_size) return;
    const int64_t now = source.ask_size();
    if (now == *source.size) return;
    sampler = sampler_of(options, now, where);
    source.size = now;
  }
  bool is_stream() const { return !source.size.has_value(); }
  int64_t batches_of(int64_t samples) const {
    const bool more = samples % options.batch_size != 0 && !options.drop_last;
    return samples / options.batch_size + (more ? 1 : 0);
  }

  // ---- the order of an epoch ----
  BatchPlan cut(std::vector<int64_t> order) const {
    BatchPlan plan;
    plan.indices = std::move(order);
    const auto n = static_cast<int64_t>(plan.indices.size());
    for (int64_t i = 0, end = 0; i < batches_of(n); ++i) {
      end += std::min(options.batch_size, n - end);
      plan.ends.push_back(end);
    }
    return plan;
  }
  BatchPlan own_batches(int64_t epoch_number, Location where) {
    const BatchSampler::Batches all = options.batch_sampler.batches(seed(), epoch_number);
    const auto n = static_cast<int64_t>(all.size());
    BatchPlan plan;
    const int64_t each = n / options.world + (n % options.world != 0 ? 1 : 0);
    for (int64_t i = 0; i < each; ++i) {
      const auto& batch = all[static_cast<size_t>((options.rank + i * options.world) % n)];
      if (batch.empty()) raise<ValueError>({.op = op, .problem = "the batch_sampler gave an empty batch"}, where);
      plan.indices.insert(plan.indices.end(), batch.begin(), batch.end());
      plan.ends.push_back(static_cast<int64_t>(plan.indices.size()));
    }
    return plan;
  }
  BatchPlan plan_of(int64_t epoch_number, Location where) {
    BatchPlan plan =
        options.batch_sampler ? own_batches(epoch_number, where) : cut(sampler.order(seed(), epoch_number, where));
    for (const int64_t i : plan.indices) {
      if (i < 0 || i >= *source.size) {
        raise<IndexError>(
            {.op = op, .problem = fmt::format("the sampler gave sample {}, and there are {}", i, *source.size)}, where);
      }
    }
    return plan;
  }
  /// Opens an epoch after its first `from` batches.
  Shared<Epoch> open(int64_t epoch_number, int64_t from, Location where) {
    auto opened = Shared<Epoch>::make();
    opened->seed = seed();
    opened->number = epoch_number;
    if (!is_stream()) {
      opened->plan = plan_of(epoch_number, where);
      check_batch(from, opened->plan.size(), where);
      return opened;
    }
    opened->reader = source.open(epoch_number);
    for (int64_t i = 0; i < from; ++i) pull(*opened, job_of(*opened, i, -1));
    return opened;
  }
  static void check_batch(int64_t batch, int64_t batches, Location where) {
    if (batch <= batches) return;
    raise<ValueError>({.op = op, .problem = fmt::format("the saved position is batch {} of {}", batch, batches)},
                      where);
  }

  // ---- making batches ----
  Job job_of(const Epoch& of, int64_t number, int worker) const {
    Job job{.seed = of.seed, .epoch = of.number, .batch = number, .worker = worker};
    if (is_stream()) {
      job.first = number * options.batch_size;
      return job;
    }
    job.first = number == 0 ? 0 : of.plan.ends[static_cast<size_t>(number - 1)];
    const auto count = static_cast<size_t>(of.plan.ends[static_cast<size_t>(number)] - job.first);
    job.indices = std::span(of.plan.indices).subspan(static_cast<size_t>(job.first), count);
    return job;
  }
  Outcome make(const Epoch& of, int64_t number, Shared<void> read, int worker) const {
    Job job = job_of(of, number, worker);
    job.read = std::move(read);
    current_job = &job;
    Outcome outcome;
    try {
      outcome.batch = source.make(job);
    } catch (...) {
      outcome.error = named_error(job, "making");
    }
    current_job = nullptr;
    return outcome;
  }
  Outcome read(const Epoch& of, int64_t number, int worker) const {
    const Job job = job_of(of, number, worker);
    Outcome outcome;
    try {
      outcome.batch = pull(of, job);
    } catch (...) {
      outcome.error = named_error(job, "reading");
    }
    return outcome;
  }
  /// Returns null at the end of the stream.
  Shared<void> pull(const Epoch& of, const Job& job) const {
    const SampleScope random(job, SampleScope::reading);
    int64_t got = 0;
    Shared<void> values = source.pull(of.reader.get(), job, options.batch_size, got);
    return got == options.batch_size || (got > 0 && !options.drop_last) ? values : nullptr;
  }
  Outcome make_here(int64_t number) const {
    // Same modes as on a worker's thread.
    const NoGradGuard unrecorded;
    const AutocastGuard as_written({.enabled = false});
    const OutsideCalls users_code;
    Outcome outcome;
    if (is_stream()) {
      outcome = read(*epoch, number, -1);
      if (outcome.batch == nullptr) return outcome;
    } else if (number == epoch->plan.size()) {
      return outcome;
    }
    return make(*epoch, number, std::move(outcome.batch), -1);
  }

  // ---- the loop ----
  void start_pool() {
    if (pool != nullptr || options.workers == 0) return;
    WorkerPool::Work work;
    work.make = [this](const Epoch& of, int64_t number, Shared<void> values, int worker) {
      return make(of, number, std::move(values), worker);
    };
    if (is_stream())
      work.read = [this](const Epoch& of, int64_t number, int worker) { return read(of, number, worker); };
    pool = std::make_unique<WorkerPool>(options.workers, int64_t{options.workers} * options.prefetch, std::move(work));
    owner = getpid();
    if (pool->threads() == 0) pool = nullptr;
  }
  /// Continues in a process that was forked in the middle of a loop.
  void go_on_alone(Location where) {
    leave_pool_to_parent();
    if (is_stream()) epoch = open(position.epoch, position.batch, where);  // the threads had read ahead
    start_pool();
    if (pool != nullptr) pool->begin(epoch, position.batch, last_batch());
  }
  int64_t last_batch() const { return is_stream() ? INT64_MAX : epoch->plan.size(); }
  void close() {
    if (pool != nullptr && owner == getpid()) pool->begin({}, 0, 0);
    epoch = {};
  }

  uint64_t begin(Location where) {
    const int64_t number = next_epoch();
    const int64_t from = resumed ? position.batch : 0;
    close();
    ask_size(where);
    Shared<Epoch> opened = open(number, from, where);
    move_generator();
    leave_pool_to_parent();
    start_pool();
    position = {number, from};
    resumed = finished = false;
    begun = true;
    epoch = std::move(opened);
    if (pool != nullptr) pool->begin(epoch, from, last_batch());
    return ++loop;
  }
  int64_t next_epoch() const {
    return position.epoch + (begun && !resumed && !options.sampler.is_distributed() ? 1 : 0);
  }

  Shared<void> next(uint64_t of_loop, Location where) {
    if (of_loop != loop) {
      raise<ValueError>({.op = op,
                         .problem = "another loop over this loader has begun, or it was set to another place",
                         .remedy = "use a second loader for a loop inside a loop"},
                        where);
    }
    if (epoch == nullptr) return {};
    if (pool != nullptr && owner != getpid()) go_on_alone(where);
    Outcome outcome;
    if (pool == nullptr) {
      outcome = make_here(position.batch);
    } else if (is_stream() || position.batch < epoch->plan.size()) {
      if (!pool->take(outcome, options.timeout)) {
        raise<Error>(
            {.op = op, .problem = fmt::format("batch {} did not come in {} s", position.batch, options.timeout)},
            where);
      }
    }
    if (outcome.batch != nullptr) {
      ++position.batch;
    } else {
      close();
      finished = outcome.error == nullptr;
    }
    if (outcome.error != nullptr) std::rethrow_exception(placed_error(outcome.error, where));
    return std::move(outcome.batch);
  }

  SavedPosition saved() const {
    SavedPosition s;
    s.position = finished ? LoopPosition{next_epoch(), 0} : position;
    s.seed = known_seed.value_or(0);
    s.samples = source.size.value_or(-1);
    s.batch_size = options.batch_sampler ? 0 : options.batch_size;
    s.drop_last = options.drop_last;
    s.world = options.world;
    s.sampler = options.batch_sampler ? options.batch_sampler.kind()
                : is_stream()         ? source.stream_kind
                : options.sampler     ? options.sampler.kind()
                : options.shuffle     ? "random"
                                      : "sequential";
    return s;
  }

  Source source;
  LoaderOptions options;
  Sampler sampler;
  std::optional<uint64_t> known_seed;
  bool has_drawn = false;  ///< the seed was drawn since the last loop began
  LoopPosition position;
  /// `begun`: a loop has begun since the position was set. `resumed`: the position was restored and no loop has begun.
  bool begun = false, resumed = false;
  bool finished = false;  ///< the last loop reached its end
  uint64_t loop = 0;
  Shared<Epoch> epoch;  ///< of the running loop
  std::unique_ptr<WorkerPool> pool;
  pid_t owner = 0;
};

LoaderEngine::LoaderEngine(Source source, LoaderOptions options, Location where)
    : impl_(new Impl(std::move(source), std::move(options), where)) {}
LoaderEngine::~LoaderEngine() = default;
LoaderEngine::LoaderEngine(LoaderEngine&&) noexcept = default;

const LoaderOptions& LoaderEngine::options() const { return impl_->options; }
uint64_t LoaderEngine::begin(Location where) { return impl_->begin(where); }
Shared<void> LoaderEngine::next(uint64_t loop, Location where) { return impl_->next(loop, where); }
uint64_t LoaderEngine::seed() const { return impl_->seed(); }
int64_t LoaderEngine::epoch() const { return impl_->position.epoch; }
int64_t LoaderEngine::batch() const { return impl_->position.batch; }

int64_t LoaderEngine::size(Location where) const {
  if (impl_->is_stream()) raise<ValueError>({.op = op, .problem = "a stream's length is not known"}, where);
  impl_->ask_size(where);
  if (!impl_->options.batch_sampler) return impl_->batches_of(impl_->sampler.size());
  if (impl_->epoch != nullptr) return impl_->epoch->plan.size();
  return impl_->plan_of(impl_->next_epoch(), where).size();
}

void LoaderEngine::set_epoch(int64_t epoch, Location where) {
  if (epoch < 0) raise<ValueError>({.op = op, .problem = fmt::format("there is no epoch {}", epoch)}, where);
  if (impl_->resumed && epoch == impl_->position.epoch) return;  // it continues at the saved position
  impl_->close();
  ++impl_->loop;
  impl_->position = {epoch, 0};
  impl_->begun = impl_->resumed = impl_->finished = false;
}

std::string LoaderEngine::state() const {
  (void)impl_->seed();
  return to_json(impl_->saved());
}

void LoaderEngine::restore(const std::string& text, Location where) {
  const SavedPosition found = position_from_json(text, where);
  impl_->ask_size(where);
  check_same(found, impl_->saved(), impl_->options.seed.has_value(), where);
  if (!impl_->is_stream() && !impl_->options.batch_sampler) Impl::check_batch(found.position.batch, size(where), where);
  impl_->close();
  ++impl_->loop;
  impl_->known_seed = found.seed;
  impl_->has_drawn = impl_->finished = false;
  impl_->position = found.position;
  impl_->resumed = true;
}

}  // namespace weft::data::detail
