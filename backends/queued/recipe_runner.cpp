#include "recipe_runner.hpp"

#include <utility>

namespace weft {

void RecipeRunner::stop() noexcept {
  drain();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  given_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void RecipeRunner::run(Callback<void()> launch) {
  std::unique_lock lock(mutex_);
  progressed_.wait(lock, [&] { return queued_ - finished_ < most_waiting; });
  if (stopping_) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  tasks_.push_back({detail::current_call, std::move(launch)});
  ++queued_;
  lock.unlock();
  given_.notify_one();
}

void RecipeRunner::drain() noexcept {
  std::unique_lock lock(mutex_);
  progressed_.wait(lock, [&, wanted = queued_] { return finished_ >= wanted; });
}

void RecipeRunner::rethrow() {
  std::unique_lock lock(mutex_);
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

// By value: its captures are destroyed before it counts as finished.
std::exception_ptr RecipeRunner::run_now(Task task) noexcept {
  const CallScope scope(task.place);
  try {
    task.launch();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void RecipeRunner::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    given_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    const bool passed_over = failure_ != nullptr;
    lock.unlock();
    std::exception_ptr failure = passed_over ? nullptr : run_now(std::move(task));
    task = {};
    lock.lock();
    if (failure != nullptr && failure_ == nullptr) failure_ = std::move(failure);
    ++finished_;
    progressed_.notify_all();
  }
}

}  // namespace weft
