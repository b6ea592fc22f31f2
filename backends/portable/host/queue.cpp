#include "queue.hpp"

#include <utility>

#include "accelerator.hpp"
#include "../../../tensor/error.hpp"

namespace weft::portable::host {

DeviceQueue::DeviceQueue(Accelerator& device, int number) : CommandQueue(device, number), device_(device) {}

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
  index_out_of_range(found.index, found.dim, found.size);
}

}  // namespace weft::portable::host
