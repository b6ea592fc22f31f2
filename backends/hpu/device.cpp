#include "device.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "queue.hpp"
#include "../backend.hpp"
#include "../queued/stream_use.hpp"
#include "../queued/allocator.hpp"
#include "../portable/host/host.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/settings.hpp"

namespace weft::hpu {

namespace {

std::vector<HpuDevice*>& all_devices() {
  static auto* devices = new std::vector<HpuDevice*>;  // static tensors may die after any static of ours
  return *devices;
}

void close_devices() {
  for (HpuDevice* device : all_devices()) device->close();
}

void add_devices(ze_driver_handle_t driver) {
  ze_api_version_t version = ZE_API_VERSION_FORCE_UINT32;
  check(api().zeDriverGetApiVersion(driver, &version), "zeDriverGetApiVersion", 0);
  if (ZE_MAJOR_VERSION(version) != 1) {
    raise<DeviceError>({.op = "hpu",
                        .problem = fmt::format("a driver speaks Level Zero {}.{}, Weft speaks 1.x",
                                               ZE_MAJOR_VERSION(version), ZE_MINOR_VERSION(version))},
                       Location::none());
  }
  uint32_t count = 0;
  if (api().zeDeviceGet(driver, &count, nullptr) != ZE_RESULT_SUCCESS || count == 0) return;
  std::vector<ze_device_handle_t> handles(count);
  check(api().zeDeviceGet(driver, &count, handles.data()), "zeDeviceGet", 0);
  const ze_context_desc_t description = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  ze_context_handle_t context = nullptr;
  for (ze_device_handle_t handle : handles) {
    ze_device_properties_t properties = {};
    properties.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
    if (api().zeDeviceGetProperties(handle, &properties) != ZE_RESULT_SUCCESS) continue;
    if (properties.type == ZE_DEVICE_TYPE_CPU || all_devices().size() >= 256) continue;
    if (context == nullptr) check(api().zeContextCreate(driver, &description, &context), "zeContextCreate", 0);
    const int index = static_cast<int>(all_devices().size());
    auto* device = new HpuDevice(driver, context, handle, index);
    all_devices().push_back(device);
    register_device(*device);
  }
}

}  // namespace

HpuDevice::HpuDevice(ze_driver_handle_t driver, ze_context_handle_t context, ze_device_handle_t handle, int index)
    : Accelerator(Device(DeviceType::hpu, index)),
      context_(context),
      handle_(handle),
      events_(context, index, false),
      timed_events_(context, index, true) {
  synchronous_ = detail::is_switched_on("WEFT_HPU_SYNC");
  repeats_commands_ = !synchronous_;
  workers_ = !synchronous_ && detail::is_switched_on("WEFT_HPU_WORKER");
  read_properties(driver);
}

std::string HpuDevice::describe() {
  return fmt::format("{}, {:.1f} GiB", name_, static_cast<double>(total_memory_) / (1 << 30));
}

void HpuDevice::read_properties(ze_driver_handle_t driver) {
  ze_device_properties_t properties = {};
  properties.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
  WEFT_ZE(index(), zeDeviceGetProperties, handle_, &properties);
  name_ = properties.name;
  ze_driver_properties_t of_driver = {};
  of_driver.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES;
  WEFT_ZE(index(), zeDriverGetProperties, driver, &of_driver);
  build_ = fmt::format("{:02x} {} {:02x} {}", fmt::join(of_driver.uuid.id, ""), of_driver.driverVersion,
                       fmt::join(properties.uuid.id, ""), build_flags);
  simd_width_ = static_cast<int>(properties.physicalEUSimdWidth > 0 ? properties.physicalEUSimdWidth : 1);
  max_allocation_ = properties.maxMemAllocSize;
  timer_resolution_ = properties.timerResolution;
  timestamp_bits_ = properties.kernelTimestampValidBits;

  ze_device_module_properties_t modules = {};
  modules.stype = ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES;
  WEFT_ZE(index(), zeDeviceGetModuleProperties, handle_, &modules);
  has_double_ = (modules.flags & ZE_DEVICE_MODULE_FLAG_FP64) != 0;

  uint32_t count = 0;
  WEFT_ZE(index(), zeDeviceGetMemoryProperties, handle_, &count, nullptr);
  std::vector<ze_device_memory_properties_t> memories(count);
  for (auto& memory : memories) memory = {}, memory.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
  WEFT_ZE(index(), zeDeviceGetMemoryProperties, handle_, &count, memories.data());
  for (const auto& memory : memories) total_memory_ += memory.totalSize;

  count = 0;
  WEFT_ZE(index(), zeDeviceGetCommandQueueGroupProperties, handle_, &count, nullptr);
  std::vector<ze_command_queue_group_properties_t> groups(count);
  for (auto& group : groups) group = {}, group.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
  WEFT_ZE(index(), zeDeviceGetCommandQueueGroupProperties, handle_, &count, groups.data());
  for (uint32_t i = 0; i < count; ++i) {
    if ((groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE) == 0) continue;
    queue_ordinal_ = i;
    queue_count_ = std::max(groups[i].numQueues, 1u);
    longest_pattern_ = groups[i].maxMemoryFillPatternSize;
    break;
  }
}

ze_command_queue_desc_t HpuDevice::queue_description(int number) const {
  ze_command_queue_desc_t queue = {};
  queue.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC;
  queue.ordinal = queue_ordinal_;
  queue.index = static_cast<uint32_t>(number) % queue_count_;
  queue.mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS;
  return queue;
}

double HpuDevice::milliseconds_between(uint64_t first, uint64_t second) const {
  const uint64_t mask = timestamp_bits_ >= 64 ? ~uint64_t{0} : (uint64_t{1} << timestamp_bits_) - 1;
  return static_cast<double>((second - first) & mask) * static_cast<double>(timer_resolution_) * 1e-6;
}

double HpuDevice::clock_period() const {
  return timestamp_bits_ >= 64
             ? 0
             : std::ldexp(static_cast<double>(timer_resolution_) * 1e-6, static_cast<int>(timestamp_bits_));
}

std::unique_ptr<CommandQueue> HpuDevice::make_queue(int number) { return std::make_unique<HpuQueue>(*this, number); }

bool HpuDevice::reaches(QueuedDevice& other) {
  auto& peer = static_cast<HpuDevice&>(other);
  if (peer.context_ != context_) return false;  // of another driver
  ze_bool_t reachable = false;
  WEFT_ZE(index(), zeDeviceCanAccessPeer, handle_, peer.handle_, &reachable);
  return reachable != 0;
}

void* HpuDevice::take_pinned(size_t bytes) {
  const ze_host_mem_alloc_desc_t host = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
  void* memory = nullptr;
  const ze_result_t result = api().zeMemAllocHost(context_, &host, bytes, 64, &memory);
  if (result == ZE_RESULT_ERROR_DEVICE_LOST) raise_failure("zeMemAllocHost", result, index());
  return result == ZE_RESULT_SUCCESS ? memory : nullptr;
}

void* HpuDevice::host_memory(size_t bytes) {
  if (void* memory = take_pinned(bytes)) return memory;
  const size_t free = free_memory();
  throw OutOfMemoryError(
      format_error(
          {.op = "hpu",
           .problem = fmt::format("no {} bytes of the host's memory for transfers with hpu:{}", bytes, index()),
           .details = fmt::format("the device has {} bytes, {} free, and gives out {} at once", total_memory_, free,
                                  max_allocation_),
           .remedy = "raise the driver's limits, or use the CPU"},
          Location::none()),
      Device(DeviceType::hpu, index()), bytes, free, 0, 0, 0);
}

void* HpuDevice::take_memory(size_t bytes) {
  ze_relaxed_allocation_limits_exp_desc_t relaxed = {};
  relaxed.stype = ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC;
  relaxed.flags = ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE;
  ze_device_mem_alloc_desc_t description = {};
  description.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC;
  if (bytes > max_allocation_) description.pNext = &relaxed;
  constexpr size_t alignment = 64;
  void* data = nullptr;
  const ze_result_t result = api().zeMemAllocDevice(context_, &description, bytes, alignment, handle_, &data);
  if (result == ZE_RESULT_ERROR_DEVICE_LOST) raise_failure("zeMemAllocDevice", result, index());
  return result == ZE_RESULT_SUCCESS ? data : nullptr;
}

size_t HpuDevice::free_memory() {
  const size_t own = allocator().reserved();
  const size_t guess = total_memory_ > own ? total_memory_ - own : 0;
  if (closed_ || api().zesDeviceEnumMemoryModules == nullptr || api().zesMemoryGetState == nullptr) return guess;
  const auto device = reinterpret_cast<zes_device_handle_t>(handle_);
  uint32_t count = 0;
  if (api().zesDeviceEnumMemoryModules(device, &count, nullptr) != ZE_RESULT_SUCCESS || count == 0) return guess;
  std::vector<zes_mem_handle_t> modules(count);
  if (api().zesDeviceEnumMemoryModules(device, &count, modules.data()) != ZE_RESULT_SUCCESS) return guess;
  size_t free = 0;
  for (zes_mem_handle_t module : modules) {
    zes_mem_state_t state = {};
    state.stype = ZES_STRUCTURE_TYPE_MEM_STATE;
    if (api().zesMemoryGetState(module, &state) != ZE_RESULT_SUCCESS) return guess;
    free += state.free;
  }
  return free;
}

void HpuDevice::close() noexcept {
  if (closed_) return;
  const bool idle = drain();
  closed_ = true;
  host_calls_.stop();
  for (CommandQueue* queue : queues()) static_cast<HpuQueue*>(queue)->stop_worker();
  if (!idle) return;
  allocator().release_all();
  for (const auto& [name, kernel] : kernels_) {
    if (kernel.handle != nullptr) api().zeKernelDestroy(kernel.handle);
    if (kernel.module != nullptr) api().zeModuleDestroy(kernel.module);
  }
  for (CommandQueue* queue : queues()) static_cast<HpuQueue*>(queue)->close();
  events_.close();
  timed_events_.close();
}

}  // namespace weft::hpu

namespace weft::detail {

Backend* start_hpu(std::string& why) {
  using namespace hpu;
  if (find_api() == nullptr) {
    why = why_no_api();
    return nullptr;
  }
  why = "no Level Zero driver offers a device other than the CPU";
  uint32_t count = 0;
  if (api().zeDriverGet(&count, nullptr) != ZE_RESULT_SUCCESS || count == 0) return nullptr;
  std::vector<ze_driver_handle_t> drivers(count);
  if (api().zeDriverGet(&count, drivers.data()) != ZE_RESULT_SUCCESS) return nullptr;
  for (ze_driver_handle_t driver : drivers) {
    try {
      add_devices(driver);
    } catch (const DeviceError& error) {  // the other drivers' devices serve
      const std::string text = error.what();
      why = text.substr(0, text.find('\n'));
    }
  }
  if (all_devices().empty()) return nullptr;
  // After the loader's own handlers, so it runs before them.
  std::atexit(close_devices);
  portable::host::fill_kernels(kernel_tables[static_cast<int>(DeviceType::hpu)]);
  note_uses_of(DeviceType::hpu);
  register_sharing(all_devices());
  static auto* backend = new QueuedBackend(DeviceType::hpu);
  return backend;
}

}  // namespace weft::detail
