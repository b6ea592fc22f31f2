#include <cstring>
#include <initializer_list>

#include "kernel.h"
#include "memory.h"
#include "queue.h"
#include "tables.h"
#include "wrong.h"

namespace weft::testing::ze {
namespace {

ze_result_t ZE_APICALL list_create(ze_context_handle_t context, ze_device_handle_t device_handle,
                                   const ze_command_list_desc_t* desc, ze_command_list_handle_t* out) {
  auto device = handles<Device>().find(device_handle);
  if (!device || !handles<Context>().find(context)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  auto list = std::make_shared<CommandList>();
  list->device = device.get();
  handles<CommandList>().insert(std::move(list), out);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL list_create_immediate(ze_context_handle_t context, ze_device_handle_t device_handle,
                                             const ze_command_queue_desc_t* desc, ze_command_list_handle_t* out) {
  auto device = handles<Device>().find(device_handle);
  if (!device || !handles<Context>().find(context)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (device_lost()) return ZE_RESULT_ERROR_DEVICE_LOST;
  if (config().strict && (desc->ordinal != 0 || desc->index >= config().queue_count)) {
    report("queue %u of group %u, but there are %u of group 0", desc->index, desc->ordinal, config().queue_count);
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  auto list = std::make_shared<CommandList>();
  list->device = device.get();
  list->immediate = std::make_unique<CommandQueue>();
  list->immediate->device = device.get();
  list->immediate->synchronous = desc->mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
  handles<CommandList>().insert(std::move(list), out);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL list_destroy(ze_command_list_handle_t handle) {
  return destroy_handle<CommandList>(handle, "command list");
}

ze_result_t ZE_APICALL list_close(ze_command_list_handle_t handle) {
  auto list = handles<CommandList>().find(handle);
  if (!list) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (list->immediate) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  list->closed = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL list_reset(ze_command_list_handle_t handle) {
  auto list = handles<CommandList>().find(handle);
  if (!list) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (list->immediate) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  list->recorded.clear();
  list->closed = false;
  return ZE_RESULT_SUCCESS;
}

// Locks the list for one append; Level Zero leaves that to the application.
class Appender {
 public:
  explicit Appender(ze_command_list_handle_t handle) : list_(handles<CommandList>().find(handle)) {
    if (list_) guard_.emplace(list_->calls, "command list");
  }

  ze_result_t problem() const {
    if (!list_) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    return guard_->overlapped() ? ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE : ZE_RESULT_SUCCESS;
  }

  CommandList& list() const { return *list_; }

 private:
  std::shared_ptr<CommandList> list_;
  std::optional<CallGuard> guard_;
};

ze_result_t ZE_APICALL append_launch(ze_command_list_handle_t handle, ze_kernel_handle_t kernel_handle,
                                     const ze_group_count_t* groups, ze_event_handle_t signal, uint32_t wait_count,
                                     ze_event_handle_t* waits) {
  Appender appender(handle);
  if (appender.problem() != ZE_RESULT_SUCCESS) return appender.problem();
  auto kernel = handles<Kernel>().find(kernel_handle);
  if (!kernel) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!groups) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  CallGuard guard(kernel->calls, "kernel");
  if (guard.overlapped()) return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;

  auto launch = std::make_shared<Launch>();
  Command command{kernel->info->entry->name, {}, {}, {}, {}};
  ze_result_t result = capture_launch(*kernel, appender.list().device, *groups, launch.get(), &command.memory);
  if (result != ZE_RESULT_SUCCESS) return result;
  command.body = [launch] { run_launch_wrongly(*launch); };
  command.is_launch = true;
  return append(appender.list(), std::move(command), signal, wait_count, waits);
}

ze_result_t check_reach(const Device* device, std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    auto a = find_allocation(pointer);
    if (!a || !config().strict || accessible(*a, device)) continue;
    report("copy: device %u does not reach memory of device %u", device->index, a->device->index);
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  return ZE_RESULT_SUCCESS;
}

bool is_peer(const void* destination, const void* source) {
  const auto to = find_allocation(destination), from = find_allocation(source);
  return to && from && to->device != nullptr && from->device != nullptr && to->device != from->device;
}

ze_result_t ZE_APICALL append_copy(ze_command_list_handle_t handle, void* destination, const void* source, size_t size,
                                   ze_event_handle_t signal, uint32_t wait_count, ze_event_handle_t* waits) {
  Appender appender(handle);
  if (appender.problem() != ZE_RESULT_SUCCESS) return appender.problem();
  Command command{"copy", {}, {}, {}, {}};
  ze_result_t result = check_range(destination, size, true, "copy destination", &command.memory);
  if (result == ZE_RESULT_SUCCESS) result = check_range(source, size, true, "copy source", &command.memory);
  if (result == ZE_RESULT_SUCCESS) result = check_reach(appender.list().device, {destination, source});
  if (result != ZE_RESULT_SUCCESS) return result;
  const bool spoils =
      size != 0 && (does_wrong(Wrong::copy) || (does_wrong(Wrong::peer) && is_peer(destination, source)));
  command.body = [=] {
    std::memmove(destination, source, size);
    if (spoils) static_cast<unsigned char*>(destination)[size - 1] ^= 0x10;
  };
  return append(appender.list(), std::move(command), signal, wait_count, waits);
}

ze_result_t ZE_APICALL append_fill(ze_command_list_handle_t handle, void* destination, const void* pattern,
                                   size_t pattern_size, size_t size, ze_event_handle_t signal, uint32_t wait_count,
                                   ze_event_handle_t* waits) {
  Appender appender(handle);
  if (appender.problem() != ZE_RESULT_SUCCESS) return appender.problem();
  if (!pattern) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  bool power_of_two = pattern_size != 0 && (pattern_size & (pattern_size - 1)) == 0;
  if (!power_of_two || pattern_size > config().fill_pattern_bytes || size % pattern_size != 0) {
    report("fill of %zu bytes with a pattern of %zu", size, pattern_size);
    return ZE_RESULT_ERROR_INVALID_SIZE;
  }
  Command command{"fill", {}, {}, {}, {}};
  ze_result_t result = check_range(destination, size, false, "fill", &command.memory);
  if (result != ZE_RESULT_SUCCESS) return result;
  const auto* bytes = static_cast<const unsigned char*>(pattern);
  std::vector<unsigned char> copy(bytes, bytes + pattern_size);
  command.body = [destination, size, copy] {
    if (copy.size() == 1) {
      std::memset(destination, copy[0], size);
      return;
    }
    auto* out = static_cast<unsigned char*>(destination);
    for (size_t i = 0; i < size; i += copy.size()) std::memcpy(out + i, copy.data(), copy.size());
  };
  return append(appender.list(), std::move(command), signal, wait_count, waits);
}

size_t region_bytes(const ze_copy_region_t& region, uint32_t pitch, uint32_t slice_pitch) {
  size_t rows = region.height ? region.height : 1;
  size_t slices = region.depth ? region.depth : 1;
  return (slices - 1) * slice_pitch + (rows - 1) * pitch + region.width;
}

size_t region_offset(const ze_copy_region_t& region, uint32_t pitch, uint32_t slice_pitch) {
  return size_t{region.originZ} * slice_pitch + size_t{region.originY} * pitch + region.originX;
}

ze_result_t ZE_APICALL append_copy_region(ze_command_list_handle_t handle, void* destination,
                                          const ze_copy_region_t* to, uint32_t to_pitch, uint32_t to_slice_pitch,
                                          const void* source, const ze_copy_region_t* from, uint32_t from_pitch,
                                          uint32_t from_slice_pitch, ze_event_handle_t signal, uint32_t wait_count,
                                          ze_event_handle_t* waits) {
  Appender appender(handle);
  if (appender.problem() != ZE_RESULT_SUCCESS) return appender.problem();
  if (!to || !from || !destination || !source) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (to->width != from->width || to->height != from->height || to->depth != from->depth) {
    return ZE_RESULT_ERROR_INVALID_SIZE;
  }
  auto* out = static_cast<std::byte*>(destination) + region_offset(*to, to_pitch, to_slice_pitch);
  const auto* in = static_cast<const std::byte*>(source) + region_offset(*from, from_pitch, from_slice_pitch);
  Command command{"region copy", {}, {}, {}, {}};
  ze_result_t result =
      check_range(out, region_bytes(*to, to_pitch, to_slice_pitch), true, "region copy destination", &command.memory);
  if (result == ZE_RESULT_SUCCESS) {
    result =
        check_range(in, region_bytes(*from, from_pitch, from_slice_pitch), true, "region copy source", &command.memory);
  }
  if (result != ZE_RESULT_SUCCESS) return result;
  ze_copy_region_t shape = *to;
  command.body = [=] {
    for (size_t z = 0; z < std::max(shape.depth, 1u); ++z) {
      for (size_t y = 0; y < std::max(shape.height, 1u); ++y) {
        std::memmove(out + z * to_slice_pitch + y * to_pitch, in + z * from_slice_pitch + y * from_pitch, shape.width);
      }
    }
  };
  return append(appender.list(), std::move(command), signal, wait_count, waits);
}

ze_result_t append_plain(ze_command_list_handle_t handle, const char* name, std::function<void()> body,
                         ze_event_handle_t signal, uint32_t wait_count, ze_event_handle_t* waits) {
  Appender appender(handle);
  if (appender.problem() != ZE_RESULT_SUCCESS) return appender.problem();
  return append(appender.list(), Command{name, {}, {}, {}, std::move(body)}, signal, wait_count, waits);
}

ze_result_t ZE_APICALL append_barrier(ze_command_list_handle_t handle, ze_event_handle_t signal, uint32_t wait_count,
                                      ze_event_handle_t* waits) {
  return append_plain(handle, "barrier", {}, signal, wait_count, waits);
}

ze_result_t ZE_APICALL append_ranges_barrier(ze_command_list_handle_t handle, uint32_t, const size_t*, const void**,
                                             ze_event_handle_t signal, uint32_t wait_count, ze_event_handle_t* waits) {
  return append_plain(handle, "barrier", {}, signal, wait_count, waits);
}

ze_result_t ZE_APICALL append_signal(ze_command_list_handle_t handle, ze_event_handle_t event) {
  if (!event) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return append_plain(handle, "signal", {}, event, 0, nullptr);
}

ze_result_t ZE_APICALL append_wait(ze_command_list_handle_t handle, uint32_t count, ze_event_handle_t* events) {
  return append_plain(handle, "wait", {}, nullptr, count, events);
}

ze_result_t ZE_APICALL append_reset(ze_command_list_handle_t handle, ze_event_handle_t event_handle) {
  auto event = handles<Event>().find(event_handle);
  if (!event) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return append_plain(
      handle, "event reset", [event] { event->reset(); }, nullptr, 0, nullptr);
}

ze_result_t ZE_APICALL append_timestamp(ze_command_list_handle_t handle, uint64_t* out, ze_event_handle_t signal,
                                        uint32_t wait_count, ze_event_handle_t* waits) {
  if (!out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  return append_plain(
      handle, "timestamp", [out] { *out = device_ticks(); }, signal, wait_count, waits);
}

ze_result_t ZE_APICALL append_hint(ze_command_list_handle_t handle, const void*, size_t) {
  return handles<CommandList>().find(handle) ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
}

}  // namespace

void fill_table(ze_command_list_dditable_t& table) {
  table.pfnCreate = list_create;
  table.pfnCreateImmediate = list_create_immediate;
  table.pfnDestroy = list_destroy;
  table.pfnClose = list_close;
  table.pfnReset = list_reset;
  table.pfnAppendLaunchKernel = append_launch;
  table.pfnAppendLaunchCooperativeKernel = append_launch;
  table.pfnAppendMemoryCopy = append_copy;
  table.pfnAppendMemoryCopyRegion = append_copy_region;
  table.pfnAppendMemoryFill = append_fill;
  table.pfnAppendMemoryPrefetch = append_hint;
  table.pfnAppendBarrier = append_barrier;
  table.pfnAppendMemoryRangesBarrier = append_ranges_barrier;
  table.pfnAppendSignalEvent = append_signal;
  table.pfnAppendWaitOnEvents = append_wait;
  table.pfnAppendEventReset = append_reset;
  table.pfnAppendWriteGlobalTimestamp = append_timestamp;
}

}  // namespace weft::testing::ze
