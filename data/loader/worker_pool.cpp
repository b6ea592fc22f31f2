#include <chrono>
#include <system_error>
#include <utility>

#include "../../autograd/mode.hpp"
#include "../../tensor/blocked_signals.hpp"
#include "../../tensor/threads.hpp"
#include "worker_pool-inl.hpp"

namespace weft::data::detail {

WorkerPool::WorkerPool(int workers, int64_t ahead, Work work)
    : work_(std::move(work)), ready_(static_cast<size_t>(ahead)), left_(ready_.size()) {
  const weft::detail::BlockedSignals blocked;
  threads_.reserve(static_cast<size_t>(workers));
  try {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this, i] { run(i); });
  } catch (const std::exception&) {
    // Fewer threads give the same batches.
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::begin(Shared<const Epoch> epoch, int64_t from, int64_t to) {
  {
    const std::lock_guard lock(mutex_);
    std::swap(epoch_, epoch);
    std::swap(ready_, left_);
    reading_ = false;
    next_ = taken_ = from;
    to_ = to;
  }
  wanted_.notify_all();
  for (Place& place : left_) place = {};
}

bool WorkerPool::take(Outcome& outcome, double seconds) {
  std::unique_lock lock(mutex_);
  Place& place = ready_[static_cast<size_t>(taken_ % ahead())];
  const auto full = [&] { return place.full; };
  if (seconds <= 0) made_.wait(lock, full);
  else if (!made_.wait_for(lock, std::chrono::duration<double>(seconds), full)) return false;
  outcome = std::exchange(place.outcome, {});
  place.full = false;
  ++taken_;
  lock.unlock();
  wanted_.notify_one();
  return true;
}

bool WorkerPool::read_next(std::unique_lock<std::mutex>& lock, const Shared<const Epoch>& epoch, int64_t batch,
                           int worker, Outcome& read) {
  reading_ = true;
  lock.unlock();
  read = work_.read(*epoch, batch, worker);
  lock.lock();
  if (epoch_ != epoch) return false;
  reading_ = false;
  if (read.batch == nullptr) {  // the end or an error; nothing follows it
    to_ = batch + 1;
    deliver(batch, std::move(read));
    return false;
  }
  wanted_.notify_one();
  return true;
}

void WorkerPool::deliver(int64_t batch, Outcome outcome) {
  Place& place = ready_[static_cast<size_t>(batch % ahead())];
  place.outcome = std::move(outcome);
  place.full = true;
  made_.notify_one();
}

void WorkerPool::run(int worker) {
  const NoGradGuard unrecorded;
  const OneThreadGuard alone;
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return stop_ || has_work(); });
    if (stop_) return;
    Shared<const Epoch> epoch = epoch_;
    const int64_t batch = next_++;
    Outcome outcome;
    if (work_.read && !read_next(lock, epoch, batch, worker, outcome)) continue;
    lock.unlock();
    outcome = work_.make(*epoch, batch, std::move(outcome.batch), worker);
    lock.lock();
    if (epoch_ == epoch) {
      deliver(batch, std::move(outcome));
      continue;
    }
    lock.unlock();  // releasing them may take a while
    outcome = {};
    epoch = {};
    lock.lock();
  }
}

}  // namespace weft::data::detail
