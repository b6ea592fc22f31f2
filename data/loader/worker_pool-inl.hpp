// The worker threads of a loader. Internal to data/.
//
// Each worker takes the next batch, and the loop reads batches in order. Ops of workers run on one thread
// (`OneThreadGuard`), so they do not occupy the training's pool. A stream is read by one worker at a time and mapped
// by all; sharding it by worker would make the order depend on their number.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "../loader.hpp"

namespace weft::data::detail {

/// The source of an epoch's batches. Threads that still work on an abandoned epoch keep it alive.
struct Epoch {
  uint64_t seed = 0;
  int64_t number = 0;
  /// Only for a dataset.
  BatchPlan plan;
  /// Only for a stream.
  Shared<void> reader;
};

/// The result of a batch. Without batch and error, the stream has ended.
struct Outcome {
  Shared<void> batch;
  std::exception_ptr error;
};

class WorkerPool {
 public:
  /// Makes a batch, and reads its values from a stream (one thread at a time, in order). Both return errors in the
  /// outcome.
  struct Work {
    std::function<Outcome(const Epoch&, int64_t batch, Shared<void> read, int worker)> make;
    /// Empty for datasets. A null `batch` without an error marks the end.
    std::function<Outcome(const Epoch&, int64_t batch, int worker)> read;
  };

  /// Starts `workers` threads, or fewer if the system allows no more.
  WorkerPool(int workers, int64_t ahead, Work work);
  /// Waits for batches in progress.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(threads_.size()); }
  /// Abandons the current epoch and makes the batches [from, to) of another one; null stops.
  void begin(Shared<const Epoch> epoch, int64_t from, int64_t to);
  /// Takes the next batch in order. Returns false after this timeout; 0 waits forever.
  bool take(Outcome& outcome, double seconds);

 private:
  void run(int worker);
  bool has_work() const { return epoch_ != nullptr && !reading_ && next_ < to_ && next_ - taken_ < ahead(); }
  int64_t ahead() const { return static_cast<int64_t>(ready_.size()); }
  bool read_next(std::unique_lock<std::mutex>& lock, const Shared<const Epoch>& epoch, int64_t batch, int worker,
                 Outcome& read);
  void deliver(int64_t batch, Outcome outcome);

  struct Place {
    Outcome outcome;
    bool full = false;
  };

  const Work work_;
  std::mutex mutex_;
  std::condition_variable wanted_, made_;
  bool stop_ = false, reading_ = false;
  Shared<const Epoch> epoch_;
  int64_t next_ = 0, taken_ = 0, to_ = 0;
  /// Batch b has index b modulo the size.
  std::vector<Place> ready_;
  std::vector<Place> left_;  ///< finished batches of an abandoned epoch; its entries are empty between calls of `begin`
  std::vector<std::thread> threads_;
};

}  // namespace weft::data::detail
