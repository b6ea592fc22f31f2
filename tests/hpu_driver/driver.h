// Shared by all parts of the test driver: switches, reports, device loss and handles.
#pragma once

#include <level_zero/ze_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

namespace weft::testing::ze {

// The environment switches, read once at the first call.
struct Config {
  uint32_t device_count;        // WEFT_ZE_DEVICES
  uint64_t memory_bytes;        // WEFT_ZE_MEM_MB, per device
  uint64_t max_alloc_bytes;     // WEFT_ZE_MAX_ALLOC_MB, above it the relaxed-limits descriptor is needed
  uint32_t jitter_us;           // WEFT_ZE_JITTER_US
  uint64_t lose_after;          // WEFT_ZE_LOSE_AFTER, commands until the device is lost; 0 = never
  bool poison;                  // WEFT_ZE_POISON
  bool strict;                  // WEFT_ZE_STRICT, on unless "0"
  bool peer_access;             // WEFT_ZE_PEER, on unless "0"
  bool log;                     // WEFT_ZE_LOG
  uint64_t fill_pattern_bytes;  // WEFT_ZE_FILL_PATTERN, the longest pattern of a fill
  uint32_t queue_count;         // WEFT_ZE_QUEUES, physical queues of a device
  uint32_t simd_width;          // WEFT_ZE_SIMD, lanes that are said to run together
  uint32_t timestamp_bits;      // WEFT_ZE_TIMESTAMP_BITS, of which a timestamp has so many
  uint32_t driver_version;      // WEFT_ZE_DRIVER_VERSION; native binaries of another one are refused
  bool sysman;                  // ZES_ENABLE_SYSMAN, as real drivers require
  std::string cache_folder;     // WEFT_ZE_CACHE
  std::string translator;       // WEFT_ZE_SPV2SO, empty = never translate at run time
  std::string builtins;         // bitcode that the translator links
  std::string wrong;            // WEFT_ZE_WRONG, see wrong.h
  std::string fails;            // WEFT_ZE_FAIL, the name of a function that fails
  uint32_t api_version;         // WEFT_ZE_API, such as 1.9
};

const Config& config();

// Tells of a misuse of the API on stderr.
[[gnu::format(printf, 1, 2)]] void report(const char* format, ...);

// Silent unless WEFT_ZE_LOG is set.
[[gnu::format(printf, 1, 2)]] void log(const char* format, ...);

// Whether WEFT_ZE_FAIL names this function.
bool is_to_fail(const char* function);

// A misuse found while a command ran cannot be returned, so the device is lost for good.
void lose_device();
bool device_lost();

// Live objects by handle; a command keeps its objects alive through shared pointers.
template <class T>
class HandleTable {
 public:
  template <class Handle>
  void insert(std::shared_ptr<T> object, Handle* handle) {
    *handle = reinterpret_cast<Handle>(object.get());
    std::lock_guard lock(mutex_);
    void* key = object.get();
    objects_[key] = std::move(object);
  }

  std::shared_ptr<T> find(const void* handle) const {
    std::shared_lock lock(mutex_);
    auto it = objects_.find(handle);
    return it == objects_.end() ? nullptr : it->second;
  }

  std::shared_ptr<T> remove(const void* handle) {
    std::lock_guard lock(mutex_);
    auto it = objects_.find(handle);
    if (it == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<T>> objects_;
};

// Never destroyed: the application may call the driver from static destructors.
template <class T>
HandleTable<T>& handles() {
  static auto* table = new HandleTable<T>;
  return *table;
}

template <class T>
ze_result_t destroy_handle(const void* handle, const char* what) {
  if (handles<T>().remove(handle)) return ZE_RESULT_SUCCESS;
  report("%s destroyed twice or never created: %p", what, handle);
  return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
}

// Level Zero requires the application to serialise calls on one object; this detects overlaps.
class CallGuard {
 public:
  CallGuard(std::mutex& mutex, const char* what) : lock_(mutex, std::try_to_lock) {
    if (!lock_.owns_lock()) {
      report("two threads use one %s at the same time", what);
      lock_.lock();
      overlapped_ = config().strict;
    }
  }

  bool overlapped() const { return overlapped_; }

 private:
  std::unique_lock<std::mutex> lock_;
  bool overlapped_ = false;
};

struct Device {
  uint32_t index;
};

struct Context {};

}  // namespace weft::testing::ze
