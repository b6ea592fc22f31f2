#include "allocator.hpp"

#include "atomic.hpp"
#include "error.hpp"

namespace weft {

namespace {

constinit Atomic<Allocator*> registry[device_type_count][256] = {};

Allocator& require_allocator(Device device, const char* op, Location where) {
  if (Allocator* found = find_allocator(device)) return *found;
  detail::start_backend(device.type);
  if (Allocator* found = find_allocator(device)) return *found;
  raise<DeviceError>({.op = op,
                      .problem = "there is no device " + device.name(),
                      .remedy = "use a device that this machine has, or the CPU"},
                     detail::place_of(where));
}

}  // namespace

Allocator* find_allocator(Device device) {
  if (device.is_cpu()) return device.index == 0 ? &cpu_allocator() : nullptr;
  return registry[static_cast<int>(device.type)][device.index].load(MemoryOrder::acquire);
}

void register_allocator(Device device, Allocator* allocator) {
  registry[static_cast<int>(device.type)][device.index].store(allocator, MemoryOrder::release);
}

MemoryStats memory_stats(Device device, Location where) {
  if (device.type == DeviceType::meta) return {};
  return require_allocator(device, "memory_stats", where).stats();
}
void reset_peak(Device device, Location where) {
  if (device.type != DeviceType::meta) require_allocator(device, "reset_peak", where).reset_peak();
}
void empty_cache(Device device, Location where) {
  if (device.type != DeviceType::meta) require_allocator(device, "empty_cache", where).empty_cache();
}
void set_memory_limit(Device device, size_t bytes, Location where) {
  if (device.type != DeviceType::meta) require_allocator(device, "set_memory_limit", where).set_limit(bytes);
}

}  // namespace weft
