#include <weft/backends/portable/accelerator.hpp>

#include <cstdlib>
#include <cstring>

#include <weft/backends/portable/device_allocator.hpp>
#include <weft/tensor/error.hpp>

namespace weft::portable::host {

namespace {
constinit Accelerator* accelerators[device_type_count][256] = {};
}  // namespace

Accelerator::Accelerator(Device device) : device_(device), allocator_(new DeviceAllocator(*this)) {}
Accelerator::~Accelerator() = default;

uint32_t Accelerator::note_index_call() {
  const std::lock_guard lock(mutex_);
  index_calls_[index_call_ % index_calls_.size()] = current_call_place();
  if (++index_call_ == 0) index_call_ = 1;
  return index_call_;
}

void Accelerator::raise_bad_index() {
  if (bad_index_ == nullptr) return;
  const BadIndex found = *bad_index_;
  if (found.call == 0) [[likely]]
    return;
  *bad_index_ = {};
  const CallPlace& place = index_calls_[(found.call - 1) % index_calls_.size()];
  const CallScope scope(place.op != nullptr ? place.op : "index", place.where);
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
