#include "queue.hpp"

#include <utility>

#include <fmt/format.h>

#include "accelerator.hpp"
#include "../../../tensor/error.hpp"

namespace weft::portable::host {

DeviceQueue::DeviceQueue(Accelerator& device, int number) : Queue(device.device(), number), device_(device) {}

void DeviceQueue::synchronize() {
  device_.require_open();
  drain();
  if (runner_ != nullptr) runner_->rethrow();
  raise_reported();
}

uint32_t DeviceQueue::note_index_call() {
  const std::lock_guard lock(index_mutex_);
  const size_t slot = index_call_ % index_calls_.size();
  if (slot == 0 && index_call_ != 0) keep_bad_place();
  index_calls_[slot] = detail::current_call;
  if (++index_call_ == 0) index_call_ = static_cast<uint32_t>(index_calls_.size());  // 0 says that all were right
  return index_call_;
}

// Before places are overwritten: the calls that they belong to have run, and if one went wrong its place is kept.
void DeviceQueue::keep_bad_place() {
  drain();
  if (bad_index_->call != 0 && !bad_place_) bad_place_ = place_of(bad_index_->call);
}

const CallPlace& DeviceQueue::place_of(uint32_t call) const { return index_calls_[(call - 1) % index_calls_.size()]; }

void DeviceQueue::keep_failure(std::exception_ptr failure) noexcept {
  const std::lock_guard lock(index_mutex_);
  if (failure_ == nullptr) failure_ = std::move(failure);
}

void DeviceQueue::raise_reported() {
  std::unique_lock lock(index_mutex_);
  if (failure_ != nullptr) [[unlikely]]
    std::rethrow_exception(std::exchange(failure_, nullptr));
  const BadIndex found = *bad_index_;
  if (found.call == 0) [[likely]]
    return;
  *bad_index_ = {};
  CallPlace place = bad_place_ ? *std::exchange(bad_place_, {}) : place_of(found.call);
  lock.unlock();
  if (place.op == nullptr) place.op = place.entry = "index";
  const CallScope scope(place);
  index_out_of_range(found.index, found.dim, found.size);
}

void DeviceQueue::note_command() {
  const std::lock_guard lock(command_mutex_);
  last_ = detail::current_call;
  if (commands_++ == 0) first_ = last_;
}

void DeviceQueue::forget_commands() {
  const std::lock_guard lock(command_mutex_);
  commands_ = 0;
}

namespace {
std::string text_of(const CallPlace& place) {
  if (place.op == nullptr) return "a copy";
  return fmt::format("{} at {}", place.entry, place.where.text());
}
}  // namespace

std::string DeviceQueue::queued_text() {
  const std::lock_guard lock(command_mutex_);
  if (commands_ == 0) return "";
  if (commands_ == 1) return fmt::format("one command since the last wait, of {}", text_of(last_));
  return fmt::format("{} commands since the last wait, the first of {}, the last of {}", commands_, text_of(first_),
                     text_of(last_));
}

}  // namespace weft::portable::host
