// A cache of library plans for repeated shapes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace weft::cuda {

/// The bytes, a power of two and at most 256, that an address is a multiple of: on these an algorithm may rely.
inline uint32_t alignment_of(const void* data) {
  return static_cast<uint32_t>(
      std::min<uintptr_t>(uintptr_t{1} << std::countr_zero(reinterpret_cast<uintptr_t>(data)), 256));
}

/// The state of one thread for one device: a library handle and plans. Plans in use outlive it.
template <class Handle, class Key, class Plan>
class Workplace {
 public:
  /// This thread's for the device; `make_handle` is called for the first one.
  template <class MakeHandle>
  static Workplace& of(int device, MakeHandle make_handle) {
    // Thread-local memory is scarce in libraries that are loaded late.
    thread_local const auto workplaces = std::make_unique<std::map<int, Workplace>>();
    Workplace& place = (*workplaces)[device];
    if (!place.handle_) place.handle_ = make_handle(device);
    return place;
  }

  auto handle() const { return handle_.get(); }

  template <class Make>
  const std::shared_ptr<const Plan>& plan(const Key& key, Make make) {
    constexpr size_t most_plans = 1024;
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    if (plans_.size() >= most_plans) plans_.clear();
    return plans_.emplace(key, std::make_shared<const Plan>(make())).first->second;
  }

 private:
  Handle handle_;
  std::map<Key, std::shared_ptr<const Plan>> plans_;
};

}  // namespace weft::cuda
