#include "command_queue.hpp"

#include <utility>

#include <fmt/format.h>

#include "device.hpp"

namespace weft {

CommandQueue::CommandQueue(QueuedDevice& owner, int number) : Queue(owner.device(), number), owner_(owner) {}

void CommandQueue::copy_peer(void* to, QueuedDevice&, const void* from, size_t bytes) { copy(to, from, bytes); }

void CommandQueue::synchronize() {
  owner_.require_open();
  drain();
  raise_reported();
}

void CommandQueue::keep_failure(std::exception_ptr failure) noexcept {
  const std::lock_guard lock(failure_mutex_);
  if (failure_ == nullptr) failure_ = std::move(failure);
}

void CommandQueue::raise_reported() {
  std::exception_ptr failure;
  {
    const std::lock_guard lock(failure_mutex_);
    failure.swap(failure_);
  }
  if (failure != nullptr) [[unlikely]]
    std::rethrow_exception(failure);
}

void CommandQueue::note_command() {
  const std::lock_guard lock(command_mutex_);
  last_ = detail::current_call;
  if (commands_++ == 0) first_ = last_;
}

void CommandQueue::forget_commands() {
  const std::lock_guard lock(command_mutex_);
  commands_ = 0;
}

namespace {
std::string text_of(const CallPlace& place) {
  if (place.op == nullptr) return "a copy";
  return fmt::format("{} at {}", place.entry, place.where.text());
}
}  // namespace

std::string CommandQueue::queued_text() {
  const std::lock_guard lock(command_mutex_);
  if (commands_ == 0) return "";
  if (commands_ == 1) return fmt::format("one command since the last wait, of {}", text_of(last_));
  return fmt::format("{} commands since the last wait, the first of {}, the last of {}", commands_, text_of(first_),
                     text_of(last_));
}

}  // namespace weft
