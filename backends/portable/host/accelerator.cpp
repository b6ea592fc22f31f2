#include "accelerator.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "device_allocator.hpp"
#include "../../../tensor/error.hpp"

namespace weft::portable::host {

namespace {
constinit Accelerator* accelerators[device_type_count][256] = {};
}  // namespace

Accelerator::Accelerator(Device device) : device_(device), allocator_(new DeviceAllocator(*this)) {}
Accelerator::~Accelerator() = default;

uint32_t Accelerator::note_index_call() {
  const std::lock_guard lock(mutex_);
  const size_t slot = index_call_ % index_calls_.size();
  if (slot == 0 && index_call_ != 0) keep_bad_place();
  index_calls_[slot] = detail::current_call;
  if (++index_call_ == 0) index_call_ = static_cast<uint32_t>(index_calls_.size());  // 0 says that all were right
  return index_call_;
}

// Before places are overwritten: the calls that they belong to have run, and if one went wrong its place is kept.
void Accelerator::keep_bad_place() {
  drain();
  if (bad_index_ == nullptr || bad_index_->call == 0 || bad_place_) return;
  bad_place_ = place_of(bad_index_->call);
}

const CallPlace& Accelerator::place_of(uint32_t call) const { return index_calls_[(call - 1) % index_calls_.size()]; }

void Accelerator::raise_bad_index() {
  if (bad_index_ == nullptr) return;
  const BadIndex found = *bad_index_;
  if (found.call == 0) [[likely]]
    return;
  *bad_index_ = {};
  CallPlace place = bad_place_ ? *std::exchange(bad_place_, {}) : place_of(found.call);
  if (place.op == nullptr) place.op = place.entry = "index";
  const CallScope scope(place);
  index_out_of_range(found.index, found.dim, found.size);
}

void Accelerator::require_open() const {
  if (!closed_) [[likely]]
    return;
  raise<DeviceError>({.op = "device", .problem = device_.name() + " was shut down: the program is ending"},
                     Location::none());
}

void register_accelerator(Accelerator& accelerator) {
  const Device device = accelerator.device();
  accelerators[static_cast<int>(device.type)][device.index] = &accelerator;
  register_allocator(device, &accelerator.allocator());
}

Accelerator& device_of(const View& view) {
  return *accelerators[static_cast<int>(view.layout.device_type)][view.layout.device_index];
}

bool is_switched_on(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}

}  // namespace weft::portable::host
