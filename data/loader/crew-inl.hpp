// The threads that make a loader's batches ahead of it. Internal to data/.
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

/// What an epoch's batches are made of. Threads that still work on an epoch that was left keep it.
struct Epoch {
  uint64_t seed = 0;
  int64_t number = 0;
  /// Of a dataset.
  BatchPlan plan;
  /// Of a stream.
  Shared<void> reader;
};

/// What became of a batch. Neither a batch nor an error: the stream has ended before it.
struct Outcome {
  Shared<void> batch;
  std::exception_ptr error;
};

class Crew {
 public:
  /// How a batch is made, and what is read for it, one thread at a time and in order. Both give an error as an outcome.
  struct Work {
    std::function<Outcome(const Epoch&, int64_t batch, Shared<void> read, int worker)> make;
    /// Empty for datasets. Null `read` and no error: the end.
    std::function<Outcome(const Epoch&, int64_t batch, int worker)> read;
  };

  /// With as many threads as the system gives.
  Crew(int workers, int64_t ahead, Work work);
  /// Waits for what is being made.
  ~Crew();
  Crew(const Crew&) = delete;

  int threads() const { return static_cast<int>(threads_.size()); }
  /// Leaves what was begun, and makes the batches [from, to) of another epoch; null: none.
  void begin(Shared<const Epoch> epoch, int64_t from, int64_t to);
  /// The next batch in order. False where it did not come in so many seconds, unless they are 0.
  bool take(Outcome& outcome, double seconds);

 private:
  void run(int worker);
  bool has_work() const { return epoch_ != nullptr && !reading_ && next_ < to_ && next_ - taken_ < ahead(); }
  int64_t ahead() const { return static_cast<int64_t>(ready_.size()); }
  bool read_next(std::unique_lock<std::mutex>& lock, const Shared<const Epoch>& epoch, int64_t batch, int worker,
                 Outcome& read);
  void put(int64_t batch, Outcome outcome);

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
  /// Batch b stands at b modulo the size.
  std::vector<Place> ready_;
  std::vector<Place> left_;  ///< what an epoch that was left had ready; empty places between calls of `begin`
  std::vector<std::thread> threads_;
};

}  // namespace weft::data::detail
