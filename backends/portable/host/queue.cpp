#include "queue.hpp"

#include <utility>

#include "accelerator.hpp"
#include "command_notes.hpp"
#include "../../../tensor/error.hpp"

namespace weft::portable::host {

DeviceQueue::DeviceQueue(Accelerator& device, int number) : CommandQueue(device, number), device_(device) {}

namespace {
/// Of the numbers of calls that are held. 0 says that all indices were right.
constexpr uint32_t held_bit = uint32_t{1} << 31;
}  // namespace

uint32_t DeviceQueue::note_index_call() {
  if (CommandNotes* const notes = notes_of(*this)) return notes->resources->take_index_call();
  const std::lock_guard lock(index_mutex_);
  const size_t slot = index_call_ % index_calls_.size();
  if (slot == 0 && index_call_ != 0) keep_bad_place();
  index_calls_[slot] = detail::current_call;
  if (++index_call_ == held_bit) index_call_ = static_cast<uint32_t>(index_calls_.size());
  return index_call_;
}

uint32_t DeviceQueue::hold_index_call() {
  const std::lock_guard lock(index_mutex_);
  if (free_calls_.empty()) {
    free_calls_.reserve(held_calls_.size() + 1);  // so that it can always be released
    held_calls_.emplace_back();
    free_calls_.push_back(static_cast<uint32_t>(held_calls_.size() - 1) | held_bit);
  }
  const uint32_t call = free_calls_.back();
  free_calls_.pop_back();
  held_calls_[call & ~held_bit] = detail::current_call;
  return call;
}

void DeviceQueue::release_index_calls(std::span<const uint32_t> calls) noexcept {
  const std::lock_guard lock(index_mutex_);
  for (const uint32_t call : calls) {
    if (bad_index_->call == call && !bad_place_) bad_place_ = place_of(call);
    free_calls_.push_back(call);
  }
}

std::unique_ptr<CommandBatch> DeviceQueue::make_batch(CommandNotes) { return nullptr; }

// Before places are overwritten: the calls that they belong to have run, and if one went wrong its place is kept.
void DeviceQueue::keep_bad_place() {
  drain();
  if (bad_index_->call != 0 && !bad_place_) bad_place_ = place_of(bad_index_->call);
}

const CallPlace& DeviceQueue::place_of(uint32_t call) const {
  return (call & held_bit) != 0 ? held_calls_[call & ~held_bit] : index_calls_[(call - 1) % index_calls_.size()];
}

void DeviceQueue::raise_reported() {
  if (runner_ != nullptr) runner_->rethrow();
  CommandQueue::raise_reported();
  std::unique_lock lock(index_mutex_);
  const BadIndex found = *bad_index_;
  if (found.call == 0) [[likely]]
    return;
  *bad_index_ = {};
  CallPlace place = bad_place_ ? *std::exchange(bad_place_, {}) : place_of(found.call);
  lock.unlock();
  if (place.op == nullptr) place.op = place.entry = "index";
  const CallScope scope(place);
  index_out_of_range(found.index, found.dim, found.size, found.wraps != 0);
}

}  // namespace weft::portable::host
