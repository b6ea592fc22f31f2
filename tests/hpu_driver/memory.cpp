#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_set>

#include "tables.h"
#include "wrong.h"

namespace weft::testing::ze {
namespace {

constexpr size_t page_size = 4096;
constexpr unsigned char poison_byte = 0xFF;
constexpr unsigned char canary_byte = 0xA5;
constexpr size_t quarantine_limit = 256;
constexpr int shareable_limit = 400;  // one file descriptor each

struct Quarantined {
  void* base;
  size_t size;
};

struct Registry {
  std::shared_mutex mutex;
  std::map<uintptr_t, Allocation> live;
  std::unordered_set<uintptr_t> freed;
  std::deque<Quarantined> quarantine;
  std::unordered_map<const Device*, uint64_t> used;
  uint64_t next_id = 1;
  int shareable_count = 0;
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

// The caller holds the lock.
const Allocation* find_locked(const Registry& r, const void* pointer) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  auto it = r.live.upper_bound(address);
  if (it == r.live.begin()) return nullptr;
  --it;
  return address < it->first + it->second.mapped_size ? &it->second : nullptr;
}

size_t round_to_pages(size_t size) { return (size + page_size - 1) / page_size * page_size; }

// Maps `size` bytes followed by an inaccessible guard page.
void* map_with_guard(size_t size, int fd) {
  void* base = mmap(nullptr, size + page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  int flags = MAP_FIXED | (fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
  if (mmap(base, size, PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED) {
    munmap(base, size + page_size);
    return nullptr;
  }
  return base;
}

int open_shareable(Registry& r, size_t size) {
  if (r.shareable_count >= shareable_limit) return -1;
  int fd = memfd_create("weft-ze", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) {
    close(fd);
    return -1;
  }
  ++r.shareable_count;
  return fd;
}

void close_shareable(Registry& r, int fd) {
  if (fd < 0) return;
  close(fd);
  --r.shareable_count;
}

struct Request {
  size_t size;
  size_t alignment;
  ze_memory_type_t type;
  Device* device;
  bool relaxed_limits;
};

ze_result_t allocate(const Request& request, void** out) {
  if (!out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  *out = nullptr;
  if (device_lost()) return ZE_RESULT_ERROR_DEVICE_LOST;
  if (request.size == 0) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  constexpr size_t refused_size = size_t{1} << 20;
  if (does_wrong(Wrong::refuse) && request.size > refused_size) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  if (request.size > config().max_alloc_bytes && !request.relaxed_limits) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  size_t alignment = request.alignment;
  if (alignment > page_size || (alignment & (alignment - 1)) != 0) return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
  const bool limited = request.device && !does_wrong(Wrong::endless);
  if (limited && request.size > config().memory_bytes) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;

  Allocation a;
  a.size = request.size;
  a.mapped_size = round_to_pages(request.size);
  a.type = request.type;
  a.device = request.device;

  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (limited && r.used[a.device] + a.mapped_size > config().memory_bytes) {
    log("out of memory: %zu bytes asked, %llu in use", a.size, static_cast<unsigned long long>(r.used[a.device]));
    return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  if (a.type == ZE_MEMORY_TYPE_DEVICE) a.fd = open_shareable(r, a.mapped_size);
  a.base = map_with_guard(a.mapped_size, a.fd);
  if (!a.base) {
    close_shareable(r, a.fd);
    return a.device ? ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  }
  auto* bytes = static_cast<unsigned char*>(a.base);
  if (config().poison) std::memset(bytes, poison_byte, a.size);
  std::memset(bytes + a.size, canary_byte, a.mapped_size - a.size);
  a.id = r.next_id++;
  if (a.device) r.used[a.device] += a.mapped_size;
  auto address = reinterpret_cast<uintptr_t>(a.base);
  r.freed.erase(address);
  r.live[address] = a;
  *out = a.base;
  return ZE_RESULT_SUCCESS;
}

void check_canary(const Allocation& a) {
  if (a.imported) return;
  const auto* bytes = static_cast<const unsigned char*>(a.base);
  bool intact = std::all_of(bytes + a.size, bytes + a.mapped_size, [](unsigned char b) { return b == canary_byte; });
  if (intact) return;
  report("something wrote past the end of the %zu-byte allocation %p", a.size, a.base);
  if (config().strict) lose_device();
}

// Keeps the addresses of freed memory inaccessible for a while, so that stale pointers fault.
void quarantine(Registry& r, const Allocation& a) {
  if (!a.imported) std::memset(a.base, poison_byte, a.mapped_size);
  void* sealed = mmap(a.base, a.mapped_size, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (sealed == MAP_FAILED) return;
  r.quarantine.push_back({a.base, a.mapped_size + page_size});
  if (r.quarantine.size() <= quarantine_limit) return;
  munmap(r.quarantine.front().base, r.quarantine.front().size);
  r.quarantine.pop_front();
}

ze_result_t release(void* pointer) {
  if (!pointer) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto address = reinterpret_cast<uintptr_t>(pointer);
  auto it = r.live.find(address);
  if (it == r.live.end()) {
    const char* why = r.freed.count(address)    ? "double free"
                      : find_locked(r, pointer) ? "free inside an allocation"
                                                : "free of foreign memory";
    report("%s: %p", why, pointer);
    return config().strict ? ZE_RESULT_ERROR_INVALID_ARGUMENT : ZE_RESULT_SUCCESS;
  }
  Allocation a = it->second;
  check_canary(a);
  if (a.device && !a.imported) r.used[a.device] -= a.mapped_size;
  r.live.erase(it);
  r.freed.insert(address);
  if (config().poison) {
    quarantine(r, a);
  } else {
    munmap(a.base, a.mapped_size + page_size);
  }
  close_shareable(r, a.fd);
  return ZE_RESULT_SUCCESS;
}

bool asks_relaxed_limits(const void* chain) {
  for (auto* d = static_cast<const ze_base_desc_t*>(chain); d; d = static_cast<const ze_base_desc_t*>(d->pNext)) {
    if (d->stype != ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC) continue;
    auto* relaxed = reinterpret_cast<const ze_relaxed_allocation_limits_exp_desc_t*>(d);
    return (relaxed->flags & ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE) != 0;
  }
  return false;
}

ze_result_t ZE_APICALL alloc_device(ze_context_handle_t context, const ze_device_mem_alloc_desc_t* desc, size_t size,
                                    size_t alignment, ze_device_handle_t device_handle, void** out) {
  auto device = handles<Device>().find(device_handle);
  if (!device || !handles<Context>().find(context)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  return allocate({size, alignment, ZE_MEMORY_TYPE_DEVICE, device.get(), asks_relaxed_limits(desc->pNext)}, out);
}

ze_result_t ZE_APICALL alloc_shared(ze_context_handle_t context, const ze_device_mem_alloc_desc_t* desc,
                                    const ze_host_mem_alloc_desc_t* host_desc, size_t size, size_t alignment,
                                    ze_device_handle_t device_handle, void** out) {
  auto device = handles<Device>().find(device_handle);
  if (!handles<Context>().find(context)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc || !host_desc) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  return allocate({size, alignment, ZE_MEMORY_TYPE_SHARED, device.get(), asks_relaxed_limits(desc->pNext)}, out);
}

ze_result_t ZE_APICALL alloc_host(ze_context_handle_t context, const ze_host_mem_alloc_desc_t* desc, size_t size,
                                  size_t alignment, void** out) {
  if (!handles<Context>().find(context)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  if (!desc) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  return allocate({size, alignment, ZE_MEMORY_TYPE_HOST, nullptr, asks_relaxed_limits(desc->pNext)}, out);
}

ze_result_t ZE_APICALL free_memory(ze_context_handle_t context, void* pointer) {
  if (!handles<Context>().find(context)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  return release(pointer);
}

ze_result_t ZE_APICALL get_properties(ze_context_handle_t, const void* pointer,
                                      ze_memory_allocation_properties_t* properties, ze_device_handle_t* device) {
  if (!pointer || !properties) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  Allocation a = find_allocation(pointer).value_or(Allocation{});
  properties->type = a.type;
  properties->id = a.id;
  properties->pageSize = a.base ? page_size : 0;
  if (device) *device = reinterpret_cast<ze_device_handle_t>(a.device);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL get_address_range(ze_context_handle_t, const void* pointer, void** base, size_t* size) {
  auto a = find_allocation(pointer);
  if (!a) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (base) *base = a->base;
  if (size) *size = a->size;
  return ZE_RESULT_SUCCESS;
}

// The first four bytes of a handle are a file descriptor, which the application hands to its peer.
ze_result_t ZE_APICALL get_ipc_handle(ze_context_handle_t, const void* pointer, ze_ipc_mem_handle_t* handle) {
  auto a = find_allocation(pointer);
  if (!a || a->base != pointer) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (a->fd < 0) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  *handle = {};
  std::memcpy(handle->data, &a->fd, sizeof a->fd);
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL open_ipc_handle(ze_context_handle_t, ze_device_handle_t device_handle,
                                       ze_ipc_mem_handle_t handle, ze_ipc_memory_flags_t, void** out) {
  auto device = handles<Device>().find(device_handle);
  if (!device) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
  int fd = -1;
  std::memcpy(&fd, handle.data, sizeof fd);
  struct stat status;
  if (fstat(fd, &status) != 0 || status.st_size <= 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;

  Allocation a;
  a.size = a.mapped_size = static_cast<size_t>(status.st_size);
  a.type = ZE_MEMORY_TYPE_DEVICE;
  a.device = device.get();
  a.imported = true;
  a.base = map_with_guard(a.mapped_size, fd);
  if (!a.base) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  a.id = r.next_id++;
  auto address = reinterpret_cast<uintptr_t>(a.base);
  r.freed.erase(address);
  r.live[address] = a;
  *out = a.base;
  return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL close_ipc_handle(ze_context_handle_t, const void* pointer) {
  auto a = find_allocation(pointer);
  if (!a || !a->imported) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return release(const_cast<void*>(pointer));
}

}  // namespace

bool Allocation::contains(const void* pointer, size_t bytes) const {
  auto begin = reinterpret_cast<uintptr_t>(base);
  auto address = reinterpret_cast<uintptr_t>(pointer);
  return address >= begin && bytes <= size && address - begin <= size - bytes;
}

std::optional<Allocation> find_allocation(const void* pointer) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  const Allocation* a = find_locked(r, pointer);
  return a ? std::optional(*a) : std::nullopt;
}

bool memory_alive(const std::vector<MemoryUse>& uses, const char* command) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  for (const MemoryUse& use : uses) {
    auto it = r.live.find(reinterpret_cast<uintptr_t>(use.base));
    if (it != r.live.end() && it->second.id == use.id) continue;
    report("%s: memory %p was freed before the command ran", command, use.base);
    return false;
  }
  return true;
}

uint64_t used_memory(const Device* device) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  auto it = r.used.find(device);
  return it == r.used.end() ? 0 : it->second;
}

ze_result_t check_range(const void* pointer, size_t bytes, bool host_allowed, const char* what,
                        std::vector<MemoryUse>* uses) {
  if (!pointer) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  auto a = find_allocation(pointer);
  if (a) uses->push_back({a->base, a->id});
  if (!config().strict) return ZE_RESULT_SUCCESS;
  if (!a && !host_allowed) {
    report("%s: foreign pointer %p", what, pointer);
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  if (a && !a->contains(pointer, bytes)) {
    report("%s: %zu bytes at %p leave the %zu-byte allocation %p", what, bytes, pointer, a->size, a->base);
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  return ZE_RESULT_SUCCESS;
}

bool accessible(const Allocation& allocation, const Device* device) {
  return !allocation.device || allocation.device == device || config().peer_access;
}

void fill_table(ze_mem_dditable_t& table) {
  table.pfnAllocDevice = alloc_device;
  table.pfnAllocShared = alloc_shared;
  table.pfnAllocHost = alloc_host;
  table.pfnFree = free_memory;
  table.pfnGetAllocProperties = get_properties;
  table.pfnGetAddressRange = get_address_range;
  table.pfnGetIpcHandle = get_ipc_handle;
  table.pfnOpenIpcHandle = open_ipc_handle;
  table.pfnCloseIpcHandle = close_ipc_handle;
}

}  // namespace weft::testing::ze
