#include "atomic.hpp"

#include <atomic>
#include <cstdint>

namespace weft {

template <class T>
void Atomic<T>::wait(T value) const {
  std::atomic_ref<T>(const_cast<T&>(value_)).wait(value, std::memory_order_relaxed);
}

template <class T>
void Atomic<T>::notify_one() {
  std::atomic_ref<T>(value_).notify_one();
}

template void Atomic<uint32_t>::wait(uint32_t) const;
template void Atomic<uint32_t>::notify_one();

}  // namespace weft
