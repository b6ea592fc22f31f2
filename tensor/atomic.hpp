// Atomic values, without the compile time of <atomic>.
//
// `<atomic>` would add 8 % to the instructions that compiling <weft/weft.hpp> takes, measured by cachegrind.
#pragma once

#include <cstdint>
#include <type_traits>

#include "config.hpp"

namespace weft {

/// Same meaning as std::memory_order, with the values of the compiler's builtins.
enum class MemoryOrder : int {
  relaxed = __ATOMIC_RELAXED,
  acquire = __ATOMIC_ACQUIRE,
  release = __ATOMIC_RELEASE,
  acq_rel = __ATOMIC_ACQ_REL,
  seq_cst = __ATOMIC_SEQ_CST
};

/// Same interface as std::atomic, for an integer, bool, enum or pointer. Public headers use it because <atomic> takes a
/// third of the compile time of <weft/weft.hpp>.
template <class T>
class Atomic {
  static_assert(std::is_integral_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>);

 public:
  constexpr Atomic() = default;
  constexpr Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;

  operator T() const { return load(); }
  // Clang's builtins with the suffix _n do not accept enums.
  T load(MemoryOrder order = MemoryOrder::seq_cst) const {
    T value;
    __atomic_load(&value_, &value, static_cast<int>(order));
    return value;
  }
  void store(T value, MemoryOrder order = MemoryOrder::seq_cst) {
    __atomic_store(&value_, &value, static_cast<int>(order));
  }
  T exchange(T value, MemoryOrder order = MemoryOrder::seq_cst) {
    T before;
    __atomic_exchange(&value_, &value, &before, static_cast<int>(order));
    return before;
  }
  /// These return the previous value.
  T fetch_add(T change, MemoryOrder order = MemoryOrder::seq_cst) {
    return __atomic_fetch_add(&value_, change, static_cast<int>(order));
  }
  T fetch_sub(T change, MemoryOrder order = MemoryOrder::seq_cst) {
    return __atomic_fetch_sub(&value_, change, static_cast<int>(order));
  }
  T fetch_or(T bits, MemoryOrder order = MemoryOrder::seq_cst) {
    return __atomic_fetch_or(&value_, bits, static_cast<int>(order));
  }
  /// Sets the value to `wanted` and returns true if it equals `expected`; otherwise stores the current value in
  /// `expected`. The weak form may fail spuriously.
  bool compare_exchange_strong(T& expected, T wanted, MemoryOrder order = MemoryOrder::seq_cst) {
    return __atomic_compare_exchange(&value_, &expected, &wanted, false, static_cast<int>(order), on_failure(order));
  }
  bool compare_exchange_weak(T& expected, T wanted, MemoryOrder order = MemoryOrder::seq_cst) {
    return __atomic_compare_exchange(&value_, &expected, &wanted, true, static_cast<int>(order), on_failure(order));
  }
  /// Blocks while the value equals `value`, until `notify_one` wakes this thread.
  void wait(T value) const;
  void notify_one();

 private:
  /// Memory order of a failed exchange, which only reads.
  static constexpr int on_failure(MemoryOrder order) {
    if (order == MemoryOrder::acq_rel) return __ATOMIC_ACQUIRE;
    return order == MemoryOrder::release ? __ATOMIC_RELAXED : static_cast<int>(order);
  }
  T value_{};
};

extern template void Atomic<uint32_t>::wait(uint32_t) const;
extern template void Atomic<uint32_t>::notify_one();

}  // namespace weft
